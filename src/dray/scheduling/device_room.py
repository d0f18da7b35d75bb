"""Count for how many copies of a pod a node has devices, and say why not for more."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model import requests
from dray.allocator.model.rejections import AllocationError, Rejection, TooFewDevices
from dray.allocator.placement import Allocator, NoFit
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem
from dray.api.ids import ClaimKey, PoolId
from dray.api.types.dra import ResourceClaim
from dray.scheduling import steps
from dray.scheduling.claims import device_fit
from dray.scheduling.claims.assignments import NodeFit
from dray.scheduling.claims.device_fit import DeviceMatcher
from dray.scheduling.claims.pod_demand import PodDemand
from dray.scheduling.nodes.node_fit import NodeState, Reasons
from dray.scheduling.state import SchedulingState

__all__ = ["DeviceCount", "DeviceCounter", "OrderMatters"]

_CACHED_KEYS = 4096


class OrderMatters(Exception):
    """The count depends on the order in which nodes are chosen."""


class DeviceCount(NamedTuple):
    """The number of copies for which a node has devices, and why not for more."""

    pods: int
    reasons: Reasons = ()
    rejection: Rejection | None = None
    taken: Sequence[int] = ()
    """The devices of each copy; the first has those of all if they need not be told apart."""


class DeviceCounter:
    """Counts on one node at a time. What is placed to count is released by `release`."""

    def __init__(
        self, state: SchedulingState, should_stop: Callable[[], bool], wants_reasons: bool
    ) -> None:
        self._state, self._should_stop = state, should_stop
        self._wants_reasons = wants_reasons
        self._allocator = Allocator(
            state.inventory, new_share_id=state.new_share_id, should_stop=should_stop
        )
        self.matcher = DeviceMatcher(
            state.inventory, state.classes, state.features, self._allocator
        )
        self._held: list[ClaimKey] = []
        self._by_key: dict[Hashable, DeviceCount] = {}

    @property
    def held(self) -> int:
        """Return how many allocations are held."""
        return len(self._held)

    def count_on(
        self, demand: PodDemand, node: NodeState, room: int, *, alone: bool
    ) -> DeviceCount:
        """Return for how many copies a node has devices, and what limits that.

        Not more than there is room for are counted, and one more if the reasons are wanted.
        """
        most = room + self._wants_reasons
        if not all(self.matcher.is_usable(demand, claim, node) for claim in demand.allocated):
            return DeviceCount(0, (device_fit.NOT_AVAILABLE,))
        claims, _ = self.matcher.claims_on(demand, node)
        if not claims:
            return DeviceCount(most)
        try:
            problem = self._allocator.problem(claims, node.name)
        except AllocationError as error:
            if error.on_node_only:
                return DeviceCount(0, (device_fit.CANNOT_ALLOCATE,))
            raise
        if problem.may_fail:
            raise OrderMatters
        inventory = problem.inventory
        wanted = _wanted(problem)
        free = wanted & ~inventory.taken
        single = _single(problem)
        is_special = bool(wanted & (inventory.partitions | inventory.shareable))
        if not _is_local(inventory, wanted):
            if alone or single is None or single.count > 1 or is_special:
                raise OrderMatters
            if room < free.bit_count():
                raise OrderMatters
            return self._placed_on(demand, node, claims, most)
        if single is None or is_special:
            return self._tried_on(demand, node, problem, most)
        return self._any_of(single, free, room, most)

    def _any_of(self, single: NodeAlternative, free: int, room: int, most: int) -> DeviceCount:
        """Count copies that take any of the free devices."""
        pods = min(most, free.bit_count() // single.count)
        if pods == most or not self._wants_reasons:
            return DeviceCount(pods, taken=(_lowest(free, min(room, pods) * single.count),))
        taken = _lowest(free, pods * single.count)
        left = (free ^ taken).bit_count()
        eligible, name = single.eligible.bit_count(), str(single.parsed.name)
        rejection = TooFewDevices(single.claim, name, single.count, eligible, left)
        return DeviceCount(pods, (device_fit.CANNOT_ALLOCATE,), rejection, (taken,))

    def _tried_on(
        self, demand: PodDemand, node: NodeState, problem: NodeProblem, most: int
    ) -> DeviceCount:
        """Place copies on a node to count them, once for nodes that are equal to the claims.

        What is placed on other nodes does not matter here, nor this there.
        """
        claims, _ = self.matcher.claims_on(demand, node)
        key = (requests.signature(claims), *_key(problem))
        if not _wanted(problem) & problem.inventory.shareable and _takes_devices(problem):
            # Every copy takes a device, so the room of the node matters only below their number.
            most = min(most, _wanted(problem).bit_count() + 1)
        found = self._by_key.get((most, *key))
        if found is None or problem.inventory.features.device_compatibility_groups:
            before = len(self._held)
            found = self._placed_on(demand, node, claims, most)
            self.release(before)
            if len(self._by_key) >= _CACHED_KEYS:
                self._by_key.clear()
            self._by_key[most, *key] = found
        return found

    def _placed_on(
        self, demand: PodDemand, node: NodeState, claims: Sequence[ResourceClaim], most: int
    ) -> DeviceCount:
        taken: list[int] = []
        for number in range(most):
            search = self.matcher.fit_on(demand, node)
            fit = steps.run(search, self._should_stop)
            if not isinstance(fit, NodeFit):
                return DeviceCount(number, fit, self.rejection(node, claims), taken)
            if fit.node_resources:
                # The devices use what other pods need of the node as well.
                raise OrderMatters
            is_changed = self._hold(node, number, fit)
            taken.append(self._devices_of(node, fit) if self._wants_reasons else 0)
            if not is_changed:
                break
        return DeviceCount(most, taken=taken)

    def _hold(self, node: NodeState, number: int, fit: NodeFit) -> bool:
        """Hold the devices of a copy. Returns whether that changed what others can get."""
        inventory = self._state.inventory
        entry = inventory.nodes[node.name]
        before = inventory.inventory(entry).version
        for position, assigned in enumerate(fit.claims):
            if assigned.allocation is not None:
                key = ClaimKey("", f"{node.name}/{number}/{position}")
                inventory.record_allocation(key, assigned.allocation)
                self._held.append(key)
        return inventory.inventory(entry).version != before

    def _devices_of(self, node: NodeState, fit: NodeFit) -> int:
        inventory = self._state.inventory.inventory(self._state.inventory.nodes[node.name])
        indexes = {node_pool.pool.id: node_pool.indexes for node_pool in inventory.node_pools}
        devices = 0
        for _, allocation in fit.allocations():
            for result in allocation.devices.results:
                index = indexes.get(PoolId(result.driver, result.pool), {}).get(result.device)
                devices |= 1 << index if index is not None else 0
        return devices

    def rejection(self, node: NodeState, claims: Sequence[ResourceClaim]) -> Rejection | None:
        """Return what the allocator says about claims that do not fit on a node."""
        if not self._wants_reasons:
            return None
        try:
            result = self._allocator.allocate_on(claims, node.name)
        except AllocationError:
            return None
        return result.reason if isinstance(result, NoFit) else None

    def release(self, start: int = 0) -> None:
        """Release what is held, from a position of `held` on."""
        for key in self._held[start:]:
            self._state.inventory.release(key)
        del self._held[start:]


def _wanted(problem: NodeProblem) -> int:
    """Return the devices that any request could get, whoever holds them."""
    wanted = 0
    for alternative in problem.alternatives():
        is_all = alternative.all_mode_devices is not None
        wanted |= alternative.selected if is_all else alternative.eligible
    return wanted


def _single(problem: NodeProblem) -> NodeAlternative | None:
    """Return the only request, if it takes any free devices that it can get; else None."""
    alternatives = list(problem.alternatives())
    if len(alternatives) != 1:
        return None
    (alternative,) = alternatives
    is_plain = (
        alternative.count > 0
        and alternative.all_mode_devices is None
        and not alternative.is_constrained
        and not alternative.parsed.admin_access
    )
    return alternative if is_plain else None


def _lowest(devices: int, number: int) -> int:
    """Return the first devices of a set."""
    rest = devices
    for _ in range(number):
        rest &= rest - 1
    return devices ^ rest


def _takes_devices(problem: NodeProblem) -> bool:
    """Return whether every copy takes a device that no other copy can have then."""
    return any(
        all(item.count > 0 and not item.parsed.admin_access for item in request.alternatives)
        for request in problem.requests
    )


def _is_local(inventory: NodeInventory, devices: int) -> bool:
    """Return whether no other node can use these devices of a node or their counters."""
    indexes = {device.pool_index for device in inventory.members(devices)}
    pools = [inventory.node_pools[index].pool for index in indexes]
    return all(
        not pool.slices_elsewhere
        and all(resource_slice.spec.node_name for resource_slice in pool.slices)
        for pool in pools
    )


def _key(problem: NodeProblem) -> Iterator[Hashable]:
    """Yield a key that is equal for nodes on which the same number of copies fits."""
    inventory = problem.inventory
    wanted = _wanted(problem)
    yield wanted
    yield inventory.taken & wanted
    yield inventory.shared
    for node_pool in inventory.node_pools:
        yield (node_pool.counters.left, node_pool.counters.guards) if node_pool.counters else None
    for device in inventory.members(wanted):
        holders = inventory.device_holders(device)
        capacity = sorted(device.device.capacity.items()) if device.is_shareable else ()
        consumed = sorted(holders.capacity.items()) if holders else ()
        yield problem.equivalence_key(device)
        yield device.pool_index, device.need, tuple(map(str, capacity)), tuple(consumed)

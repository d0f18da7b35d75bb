"""Nodes that are equal to a gang: as long as no member is on them, one stands for all."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.rejections import AllocationError
from dray.allocator.placement import Allocator
from dray.allocator.problem.node_problem import NodeProblem
from dray.scheduling.claims.device_fit import DeviceMatcher
from dray.scheduling.gangs.members import Member
from dray.scheduling.nodes.node_fit import NodeState


class EqualNodes:
    """Keys of nodes, each made when it is first asked for."""

    def __init__(
        self, members: Sequence[Member], devices: DeviceMatcher, allocator: Allocator
    ) -> None:
        self._devices, self._allocator = devices, allocator
        self._kinds: Mapping[int, Member] = {member.kind: member for member in members}
        self._fitting = {
            kind: {node.name for node in member.nodes} for kind, member in self._kinds.items()
        }
        self._keys: dict[str, Hashable] = {}

    def key(self, node: NodeState) -> Hashable:
        """Return a key that is equal for nodes that members cannot tell apart.

        No member may be on the node. The key of a node with devices in use is its own.
        """
        key = self._keys.get(node.name)
        if key is None:
            key = self._keys[node.name] = self._key(node) or node.name
        return key

    def _key(self, node: NodeState) -> Hashable:
        if any(usage.ports for usage in node.usages.values()):
            return None
        parts: list[Hashable] = [
            frozenset(node.allocatable.items()),
            frozenset((name, amount) for name, amount in node.requested.items() if amount),
            len(node.usages),
            frozenset(kind for kind, names in self._fitting.items() if node.name in names),
        ]
        for member in self._kinds.values():
            claims, _ = self._devices.claims_on(member.demand, node)
            if not claims:
                continue
            try:
                problem = self._allocator.problem(claims, node.name)
            except AllocationError:
                return None
            of_devices = _untouched(problem.inventory)
            if of_devices is None or problem.may_fail or problem.constraints is not None:
                return None
            parts += [of_devices, _eligible(problem)]
        return tuple(parts)


def _untouched(inventory: NodeInventory) -> Hashable:
    """Return the devices with their counters and capacities; None if some are in use."""
    has_groups = inventory.features.device_compatibility_groups and inventory.partitions
    if inventory.taken or inventory.shared or has_groups:
        return None
    pools: list[Hashable] = []
    for node_pool in inventory.node_pools:
        if node_pool.charged:
            return None
        if node_pool.counters is not None:
            pools.append((node_pool.counters.left, node_pool.counters.guards))
    shareable = [repr(device.device.capacity) for device in inventory.members(inventory.shareable)]
    needs = [(device.pool_index, device.need) for device in inventory.devices]
    return tuple(pools), tuple(needs), inventory.shareable, tuple(shareable)


def _eligible(problem: NodeProblem) -> Hashable:
    """Return the devices that each alternative may use, and what it takes of them."""
    return tuple(
        (
            alternative.eligible,
            repr(alternative.demands),
            None
            if alternative.all_mode_devices is None
            else tuple(device.index for device in alternative.all_mode_devices),
        )
        for alternative in problem.alternatives()
    )

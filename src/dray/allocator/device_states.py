"""The state of devices: whether a claim could get one now, and if not, what is in the way.

This is the only place that decides it, so tables, counts and metrics use the same words. A device
is `free` exactly if the allocator would give it to a claim that asks for this device alone and
tolerates its taints. Taints and health are no states: a tainted device may be free or in use.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.checks import capacity, taints
from dray.allocator.checks.compatibility_groups import Intersection
from dray.allocator.checks.usage import DeviceHolders
from dray.allocator.inventory import pools as node_pools
from dray.allocator.inventory.cluster_inventory import ClusterInventory, NodeEntry, PoolEntry
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model import requests
from dray.allocator.model.candidates import Candidate
from dray.allocator.model.rejections import AllocationError
from dray.allocator.problem import eligibility
from dray.api import well_known
from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.ids import ClaimKey, DeviceId, PoolId
from dray.api.semantics import pools
from dray.api.types.dra import (
    Device,
    DeviceClaim,
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceSlice,
)

__all__ = [
    "CapacityLeft",
    "DeviceAvailability",
    "DeviceState",
    "all_devices",
    "devices_of_pool",
    "parents",
    "text",
]


class DeviceState(enum.StrEnum):
    FREE = "free"
    """No claim holds it, and a claim could get it."""
    SHARED = "shared"
    """Claims hold shares of it, and another claim could get one."""
    IN_USE = "in use"
    """Claims hold it, and no other claim could get it or a share of it."""
    BLOCKED = "blocked"
    """No claim holds it, and none could get it: others use its counters, or a slice is missing."""
    MISSING = "missing"
    """Claims hold it, and it is no longer published."""


class CapacityLeft(NamedTuple):
    """The amount that is left of a capacity, and all of it, as quantities."""

    left: str
    total: str


class DeviceAvailability(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one device and what it follows from."""

    id: DeviceId
    state: DeviceState
    device: Device | None = None
    """The device as its slice has it; None if it is missing."""
    resource_slice: ResourceSlice | None = None
    holders: tuple[ClaimKey, ...] = ()
    blockers: tuple[str, ...] = ()
    """The devices of the pool that use the counters which this one needs."""
    blocking_claims: tuple[ClaimKey, ...] = ()
    """The claims that hold the blockers."""
    problem: str = ""
    """Why it is blocked, unless that is due to other devices."""
    left: Mapping[str, CapacityLeft] = {}
    """What claims have left of each capacity, if the device can be shared."""
    taints: tuple[DeviceTaint, ...] = ()
    parent: str = ""
    """The device, or else the counter set, of which this is a partition."""

    @property
    def is_tainted(self) -> bool:
        """Return whether only claims with a toleration can get it."""
        return bool(self.taints) and any(map(taints.prevents_allocation, self.taints))

    @property
    def is_unhealthy(self) -> bool:
        """Return whether its driver has marked it as unhealthy with a taint."""
        return bool(self.taints) and any(
            taint.key.rpartition("/")[2] == well_known.UNHEALTHY_TAINT for taint in self.taints
        )


def text(device: DeviceAvailability, holder: Callable[[ClaimKey], str] = str) -> str:
    """Return the state with what explains it; `holder` names who holds a claim."""
    match device.state:
        case DeviceState.SHARED if device.left:
            amounts = [
                f"{left.left} of {left.total}{f' {name}' if len(device.left) > 1 else ''}"
                for name, left in device.left.items()
            ]
            return f"{device.state} ({', '.join(amounts)} left)"
        case DeviceState.BLOCKED if device.blockers:
            claims = list(dict.fromkeys(map(holder, device.blocking_claims)))
            return f"{device.state} (by {_some(device.blockers)}, in use by {_some(claims)})"
        case DeviceState.BLOCKED if device.problem:
            return f"{device.state} ({device.problem})"
        case _:
            return str(device.state)


def _some(words: Sequence[str]) -> str:
    more = f" and {len(words) - 1} more" if len(words) > 1 else ""
    return f"{words[0]}{more}"


def all_devices(cluster: ClusterInventory) -> Iterator[DeviceAvailability]:
    """Yield every device with its state, ordered by pool; missing devices come last of their pool.

    The devices of a pool are those of its newest generation.
    """
    for pool_id in sorted(cluster.pools()):
        yield from devices_of_pool(cluster, pool_id)


def devices_of_pool(cluster: ClusterInventory, pool_id: PoolId) -> Iterator[DeviceAvailability]:
    """Yield every device of a pool with its state."""
    entry = cluster.pools()[pool_id]
    current = pools.current_slices(list(entry.slices.values()))
    published = {
        device.name: (resource_slice, device)
        for resource_slice in sorted(current, key=lambda item: item.metadata.name)
        for device in resource_slice.spec.devices
    }
    seen, problem = _seen_by_nodes(cluster, pool_id, entry, len(published))
    parents_of = parents([device for _, device in published.values()])
    rules = taints.rules_for_pool(*pool_id, cluster.taint_rules())
    users: _CounterUsers = {}
    for name, (resource_slice, device) in published.items():
        if name in seen:
            evaluated = _evaluated(*seen[name], users)
        else:
            evaluated = _unseen(entry, name, problem)
        yield msgspec.structs.replace(
            evaluated,
            id=DeviceId(*pool_id, name),
            device=device,
            resource_slice=resource_slice,
            taints=taints.with_rules(device.taints, name, rules) if rules else device.taints,
            parent=parents_of.get(name, ""),
        )
    for name, holders in entry.holders.by_device.items():
        if name not in published:
            device_id = DeviceId(*pool_id, name)
            yield DeviceAvailability(
                id=device_id, state=DeviceState.MISSING, holders=holders.claims()
            )


_Seen = dict[str, tuple[NodeInventory, Candidate]]
_CounterUsers = dict[tuple[str, str], tuple[tuple[str, ...], tuple[ClaimKey, ...]]]
"""By node and counter set, the devices that use the set and the claims that hold these."""


def _seen_by_nodes(
    cluster: ClusterInventory, pool_id: PoolId, entry: PoolEntry, expected: int
) -> tuple[_Seen, str]:
    """Return the devices that nodes can use, and why others cannot be used.

    Nodes agree on counters and holders, so the first node that can use a device is enough.
    """
    seen: _Seen = {}
    problem = ""
    for node in _nodes(cluster, entry):
        try:
            inventory = cluster.inventory(node)
        except AllocationError as error:
            problem = problem or error.detail
            continue
        usable = inventory.on_node.matching & ~eligibility.excluded_devices(_ALONE, inventory)
        for node_pool in inventory.node_pools:
            if node_pool.pool.id == pool_id:
                for name, index in node_pool.indexes.items():
                    if usable >> index & 1:
                        seen.setdefault(name, (inventory, inventory.devices[index]))
                problem = problem or "no node can use it"
        if len(seen) >= expected:
            break
        problem = problem or _pool_problem(inventory, pool_id)
    return seen, problem or _no_node(entry)


def _nodes(cluster: ClusterInventory, entry: PoolEntry) -> Iterable[NodeEntry]:
    """Return the existing nodes that slices of the pool may be for."""
    names = {resource_slice.spec.node_name for resource_slice in entry.slices.values()}
    if all(names):
        named = (cluster.nodes.get(name or "") for name in sorted(filter(None, names)))
        return [node for node in named if node is not None and node.node is not None]
    return (node for node in cluster.by_index if node is not None and node.node is not None)


def _pool_problem(inventory: NodeInventory, pool_id: PoolId) -> str:
    for pool in inventory.pools:
        if pool.id == pool_id and pool.is_incomplete:
            return "slices of its pool are missing"
        if pool.id == pool_id and pool.invalid_reason:
            return f"its pool is invalid: {pool.invalid_reason}"
    return ""


def _no_node(entry: PoolEntry) -> str:
    names = {resource_slice.spec.node_name or "" for resource_slice in entry.slices.values()}
    if len(names) == 1 and all(names):
        return f"node {names.pop()} does not exist"
    return "no node can use it"


def _unseen(entry: PoolEntry, name: str, problem: str) -> DeviceAvailability:
    holders = entry.holders.by_device.get(name)
    if holders is not None:
        return DeviceAvailability(id=_ANY, state=DeviceState.IN_USE, holders=holders.claims())
    return DeviceAvailability(id=_ANY, state=DeviceState.BLOCKED, problem=problem)


def _evaluated(
    inventory: NodeInventory, candidate: Candidate, users: _CounterUsers
) -> DeviceAvailability:
    holders = inventory.device_holders(candidate)
    claims = holders.claims() if holders else ()
    if holders and holders.owners:
        return DeviceAvailability(id=_ANY, state=DeviceState.IN_USE, holders=claims)
    left = _left(candidate, holders) if candidate.is_shareable else {}
    blocked = _blocked(inventory, candidate, users) or _unavailable(inventory, candidate)
    if blocked is None and (holders is None or _has_room(candidate.device, holders.capacity)):
        state = DeviceState.SHARED if holders else DeviceState.FREE
        return DeviceAvailability(id=_ANY, state=state, holders=claims, left=left)
    if holders:
        return DeviceAvailability(id=_ANY, state=DeviceState.IN_USE, holders=claims, left=left)
    assert blocked is not None, "a device that nobody holds has all of its capacity"
    return msgspec.structs.replace(blocked, left=left)


def _unavailable(inventory: NodeInventory, candidate: Candidate) -> DeviceAvailability | None:
    """Return the status of a device that no claim can have, whoever holds others; else None."""
    device, features = candidate.device, inventory.features
    problem = ""
    if device.binding_conditions and not node_pools.has_binding_conditions(features):
        problem = "its binding conditions are not supported"
    elif (
        features.consumable_capacity
        and any(published.request_policy for published in device.capacity.values())
        and not _has_room(device, {})
    ):
        problem = "no request can be as small as its capacity"
    if not problem:
        return None
    return DeviceAvailability(id=_ANY, state=DeviceState.BLOCKED, problem=problem)


def _blocked(
    inventory: NodeInventory, candidate: Candidate, users: _CounterUsers
) -> DeviceAvailability | None:
    """Return the status of a device whose counters others use; None if they are available."""
    node_pool = inventory.node_pools[candidate.pool_index]
    counters = node_pool.counters
    is_charged = candidate.is_shareable and inventory.shared & candidate.bit
    if counters is None or not inventory.partitions & candidate.bit or is_charged:
        return None
    counter_set = ""
    if not counters.allows(counters.left, candidate.need):
        counter_set = counters.shortage(counters.left, candidate.need)[0].key[0]
    elif inventory.features.device_compatibility_groups:
        counter_set = _incompatible_set(candidate.device, node_pool.present_groups)
    if not counter_set:
        return None
    # Once for all partitions of a device: many of them are blocked by the same ones.
    key = (inventory.node.metadata.name, counter_set)
    if key not in users:
        by_device = node_pool.holders.by_device
        found = tuple(
            device.name
            for device in node_pool.devices()
            if device.name in by_device and counter_set in _counter_sets(device)
        )
        users[key] = found, inventory.holders_on(candidate.pool_index, counter_set)
    blockers, claims = users[key]
    return DeviceAvailability(
        id=_ANY,
        state=DeviceState.BLOCKED,
        blockers=blockers,
        blocking_claims=claims,
        problem="" if blockers else f"it needs more than counter set {counter_set} has",
    )


def _incompatible_set(device: Device, present: Mapping[str, Intersection]) -> str:
    """Return the first counter set whose users have other compatibility groups, or ""."""
    for consumption in device.consumes_counters:
        users = present.get(consumption.counter_set)
        if users is not None and not users.admits(frozenset(consumption.compatibility_groups)):
            return consumption.counter_set
    return ""


def _counter_sets(device: Device) -> set[str]:
    return {consumption.counter_set for consumption in device.consumes_counters}


def _has_room(device: Device, consumed: Mapping[str, int]) -> bool:
    """Return whether the least that a request can take of every capacity is left."""
    return all(
        consumed.get(name, 0) + capacity.least(published).nano
        <= quantity.parse(published.value).nano
        for name, published in device.capacity.items()
    )


def _left(candidate: Candidate, holders: DeviceHolders | None) -> dict[str, CapacityLeft]:
    result = {}
    for name, published in candidate.device.capacity.items():
        total = quantity.parse(published.value)
        consumed = holders.capacity.get(name, 0) if holders else 0
        left = Quantity(max(total.nano - consumed, 0), total.format)
        result[name] = CapacityLeft(str(left), published.value)
    return result


def parents(devices: Sequence[Device]) -> dict[str, str]:
    """Return what each partition is a part of.

    The device that takes most of a counter set is the whole, and the others on the set are its
    partitions. If several take as much, it is the one with whose name all names begin. Where there
    is no such device they are partitions of the counter set.
    """
    on_set: dict[str, list[tuple[int, str]]] = {}
    for device in devices:
        for consumption in device.consumes_counters:
            taken = sum(
                max(quantity.parse(counter.value).nano, 0)
                for counter in consumption.counters.values()
            )
            on_set.setdefault(consumption.counter_set, []).append((taken, device.name))
    found: dict[str, str] = {}
    for counter_set, drawing in on_set.items():
        if len(drawing) < 2:
            continue
        most = max(taken for taken, _ in drawing)
        largest = [name for taken, name in drawing if taken == most]
        whole = largest[0] if len(largest) == 1 else min(largest, key=len)
        if len(largest) > 1 and not all(name.startswith(whole) for _, name in drawing):
            whole = ""
        found |= {name: whole or counter_set for _, name in drawing if name != whole}
    return found


_ANY = DeviceId("", "", "")
"""Stands for the id until `devices_of_pool` sets it."""

_ALONE = (
    requests.parse_claim(
        DeviceClaim(
            (
                DeviceRequest(
                    "device",
                    ExactDeviceRequest("", tolerations=(DeviceToleration(operator="Exists"),)),
                ),
            )
        )
    )
    .requests[0]
    .alternatives[0]
)
"""A request for a single device that tolerates every taint."""

"""Devices as cells: a device with the partitions that claims hold of it, and how full it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from dray.allocator import device_counts, device_groups, device_states, device_values
from dray.allocator.device_counts import SelectingClass
from dray.allocator.device_states import DeviceAvailability, DeviceState
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.formats import quantity
from dray.api.ids import ClaimKey, DeviceId, PoolId
from dray.partitions import largest_partition, profiles
from dray.ui.model.entries import Cell, Part

TAINTED, UNHEALTHY = "tainted", "unhealthy"
HIDDEN = "a claim that you may not see"
FULL = 100

Group = Sequence[DeviceAvailability]
"""A device with its partitions."""


class Holders(Protocol):
    """Knows the claims that hold devices."""

    def is_visible(self, claim: ClaimKey) -> bool:
        """Return whether the person may read the claim."""

    def users(self, claim: ClaimKey) -> tuple[str, ...]:
        """Return the pods that use a claim, as namespace/name."""

    def is_reported_unhealthy(self, device: DeviceId) -> bool:
        """Return whether the status of a pod calls the device unhealthy."""


class ShapeKey(NamedTuple):
    """The properties that devices of one shape have in common."""

    driver: str
    model: str
    memory: str
    slots: int
    classes: tuple[str, ...]


class ShapedDevice(NamedTuple):
    """The shape of a device, and its attributes: those that all of a shape have describe it."""

    shape: ShapeKey
    attributes: Mapping[str, Any]


def groups_of(cluster: ClusterInventory, pool_id: PoolId) -> Iterator[tuple[str, str, Group]]:
    """Yield every device of a pool with its partitions, after its key and its node."""
    entry = cluster.pools().get(pool_id)
    if entry is None:
        return
    members = device_states.devices_of_pool(cluster, pool_id)
    slices = list(entry.slices.values())
    for group in device_groups.groups(members):
        key = DeviceId(*pool_id, device_groups.root(group[0]))
        yield str(key), device_groups.node_of(group[0], slices), group


def cell(node: str, shape: str, group: Group, holders: Holders) -> Cell:
    """Return the cell of a device with its partitions."""
    whole = _whole(group)
    state = device_groups.combined(device.state for device in group)
    held = [device for device in group if device is not whole and _is_held(device)]
    claims = list(dict.fromkeys(key for device in group for key in device.holders))
    # Partitions may give the whole another state than its own.
    text = text_of(whole, holders) if whole.state is state else str(state)
    parts = [_part(device, holders) for device in held]
    return Cell(
        node,
        shape,
        str(state),
        t=text if text != str(state) else "",
        f=_fullness(whole, held, group) if state is not DeviceState.MISSING else 0,
        m=marks_of(group, holders),
        h=_names(claims, holders),
        u=_users(claims, holders),
        p=tuple(sorted(parts, key=lambda part: (part.o, part.k))),
    )


def shapes(
    groups: Sequence[tuple[str, str, Group]], classes: Sequence[SelectingClass]
) -> dict[str, ShapedDevice]:
    """Return the shapes of the devices of a pool by their keys."""
    published = [device for _, _, group in groups for device in group if device.device is not None]
    classes_of: dict[str, set[str]] = {device.id.device: set() for device in published}
    for name, matching in device_counts.by_class(published, classes):
        for device, matches in zip(published, matching, strict=True):
            if matches and name:
                classes_of[device.id.device].add(name)
    return {key: _shaped(group, classes_of) for key, _, group in groups}


def _shaped(group: Group, classes_of: Mapping[str, set[str]]) -> ShapedDevice:
    whole = _whole(group)
    device = whole.device
    names = sorted(set().union(*(classes_of.get(part.id.device, ()) for part in group)))
    if device is None:
        return ShapedDevice(ShapeKey(whole.id.driver, "", "", 0, tuple(names)), {})
    attributes = device_values.attributes_of(device)
    capacity = {name: value.value for name, value in device.capacity.items()}
    model, memory = device_values.model_of(attributes), device_values.memory_text(capacity)
    shape = ShapeKey(whole.id.driver, model, memory, _slots(group), tuple(names))
    return ShapedDevice(shape, attributes)


def _whole(group: Group) -> DeviceAvailability:
    """Return the device of which the others are partitions; without one, the first of them."""
    return next((device for device in group if not device.parent), group[0])


def _is_held(device: DeviceAvailability) -> bool:
    return device.state in device_groups.HELD or device.state is DeviceState.MISSING


def text_of(device: DeviceAvailability, holders: Holders) -> str:
    """Return the state of a device with what explains it."""

    def holder(claim: ClaimKey) -> str:
        if not holders.is_visible(claim):
            return HIDDEN
        users = holders.users(claim)
        return f"pod {users[0]}" if users else f"claim {claim}"

    return device_states.text(device, holder)


def _part(device: DeviceAvailability, holders: Holders) -> Part:
    start, size = _placement(device)
    return Part(
        str(device.id),
        start,
        size,
        str(device.state),
        h=_names(device.holders, holders),
        u=_users(device.holders, holders),
        m=marks_of([device], holders),
    )


def marks_of(group: Group, holders: Holders) -> tuple[str, ...]:
    """Return what is wrong with a device or one of its partitions, whatever its state."""
    is_tainted = any(device.is_tainted for device in group)
    is_unhealthy = any(
        device.is_unhealthy or holders.is_reported_unhealthy(device.id) for device in group
    )
    return (*((TAINTED,) if is_tainted else ()), *((UNHEALTHY,) if is_unhealthy else ()))


def _names(claims: Iterable[ClaimKey], holders: Holders) -> tuple[str, ...]:
    return tuple(str(key) for key in claims if holders.is_visible(key))


def _users(claims: Iterable[ClaimKey], holders: Holders) -> tuple[str, ...]:
    users = (user for key in claims if holders.is_visible(key) for user in holders.users(key))
    return tuple(dict.fromkeys(users))


def _fullness(whole: DeviceAvailability, held: Group, group: Group) -> int:
    """Return how much of a shared or partitioned device claims hold, in per cent; else 0."""
    if whole.left and whole.holders:
        return max(_used(left.left, left.total) for left in whole.left.values())
    if not held:
        return 0
    slots = _slots(group)
    if slots:
        return min(round(FULL * sum(_placement(device)[1] for device in held) / slots), FULL)
    published = [device for device in group if device.device is not None]
    parts = profiles.shares(map(largest_partition.partition_of, published))
    ids = {device.id for device in held}
    taken = sum(
        float(share) for device, share in zip(published, parts, strict=True) if device.id in ids
    )
    return min(round(FULL * taken), FULL)


def _used(left: str, total: str) -> int:
    whole = quantity.parse(total).nano
    return round(FULL * (whole - quantity.parse(left).nano) / whole) if whole else 0


def _slots(group: Group) -> int:
    """Return the number of slots at which partitions of a device can be; 0 without places."""
    ends = [sum(_placement(device)) for device in group if device.parent]
    return max(ends, default=0)


def _placement(device: DeviceAvailability) -> tuple[int, int]:
    return device_values.placement_of(device.device) if device.device is not None else (0, 0)

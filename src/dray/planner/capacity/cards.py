"""Cards: devices with partitions, which of their slices are in use, and what still fits there.

Partitions at places of a card consume one counter for each slice that they lie on, such as
`memory-slice-0` to `memory-slice-7` of an NVIDIA GPU. A profile may be larger than every free place
although enough slices are free: those in use lie in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator import device_groups, device_states
from dray.allocator.device_states import DeviceAvailability
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.formats import quantity
from dray.api.ids import ClaimKey, DeviceId, PoolId
from dray.api.semantics import pools
from dray.api.types.dra import CounterSet
from dray.partitions import largest_partition

_NUMBERED = re.compile(r"(.*?)(\d+)")


class PlacedPartition(NamedTuple):
    """A partition that claims hold, and the slices of the card that it lies on."""

    device: str
    profile: str
    start: int
    size: int
    claims: tuple[ClaimKey, ...] = ()


class BlockedProfile(NamedTuple):
    """A profile that has no free place although as many slices are free as it needs."""

    profile: str
    size: int
    starts: tuple[int, ...]
    """The slices at which it may start."""


class Card(NamedTuple):
    """A device with partitions."""

    node: str
    device: DeviceId
    slices: int
    """The number of slices; 0 if partitions of this device have no places."""
    held: Sequence[PlacedPartition]
    largest: str
    """The profile of the largest partition that a claim can get now; empty if it can get none.

    The name of the device itself if that is free as a whole.
    """
    share: float
    """The part of the device that this is."""
    blocked: Sequence[BlockedProfile] = ()

    @property
    def free_slices(self) -> int:
        return self.slices - sum(part.size for part in self.held)

    def message(self, blocked: BlockedProfile) -> str:
        """Return why a profile does not fit."""
        starts = " or ".join(map(str, blocked.starts))
        return (
            f"{blocked.profile} does not fit: {self.free_slices} of {self.slices} slices are free, "
            f"but no {blocked.size} in a row at a place where it may start ({starts})"
        )


def cards_of(cluster: ClusterInventory, nodes: Iterable[str] | None = None) -> Iterator[Card]:
    """Yield every device with partitions, ordered by pool; only those of `nodes` if given."""
    chosen = None if nodes is None else set(nodes)
    for pool_id, entry in sorted(cluster.pools().items()):
        slices = list(entry.slices.values())
        if chosen is not None and chosen.isdisjoint(item.spec.node_name for item in slices):
            continue
        current = pools.current_slices(slices)
        sets = {item.name: item for found in current for item in found.spec.shared_counters}
        if not sets:
            continue
        for group in device_groups.groups(device_states.devices_of_pool(cluster, pool_id)):
            if len(group) > 1 and group[0].device is not None:
                yield _card(pool_id, device_groups.node_of(group[0], slices), group, sets)


def _card(
    pool_id: PoolId,
    node: str,
    group: Sequence[DeviceAvailability],
    counter_sets: Mapping[str, CounterSet],
) -> Card:
    root = device_groups.root(group[0])
    numbers = _slice_numbers(group, counter_sets)
    held = [_placed(device, numbers) for device in group if device.holders]
    largest = largest_partition.of_group(group)
    name, share = (_profile(largest.device), largest.share) if largest else ("", 0.0)
    card = Card(node, DeviceId(*pool_id, root), len(numbers), held, name, share)
    if not held or not numbers:
        return card
    return card._replace(blocked=tuple(_blocked(card, group, numbers, counter_sets)))


def _slice_numbers(
    group: Sequence[DeviceAvailability], counter_sets: Mapping[str, CounterSet]
) -> dict[str, int]:
    """Return the numbers of the counters that stand for slices: one of each, numbered alike."""
    by_prefix: dict[str, dict[str, int]] = {}
    for set_name in dict.fromkeys(name for device in group for name, _ in _consumption(device)):
        counter_set = counter_sets.get(set_name)
        for name, counter in counter_set.counters.items() if counter_set else ():
            match = _NUMBERED.fullmatch(name)
            if match is not None and quantity.parse(counter.value) == quantity.of(1):
                by_prefix.setdefault(match[1], {})[name] = int(match[2])
    found: dict[str, int] = max(by_prefix.values(), key=len, default={})
    is_complete = sorted(found.values()) == list(range(len(found)))
    return found if len(found) > 1 and is_complete else {}


def _consumption(device: DeviceAvailability) -> Iterator[tuple[str, Mapping[str, int]]]:
    assert device.device is not None
    for consumed in device.device.consumes_counters:
        yield (
            consumed.counter_set,
            {name: quantity.parse(item.value).nano for name, item in consumed.counters.items()},
        )


def _places(device: DeviceAvailability, numbers: Mapping[str, int]) -> list[int]:
    """Return the slices that a device lies on."""
    return sorted(
        numbers[name]
        for _, amounts in _consumption(device)
        for name, amount in amounts.items()
        if name in numbers and amount > 0
    )


def _placed(device: DeviceAvailability, numbers: Mapping[str, int]) -> PlacedPartition:
    places = _places(device, numbers)
    start = places[0] if places else 0
    return PlacedPartition(
        device.id.device, _profile(device), start, len(places), tuple(device.holders)
    )


def _profile(device: DeviceAvailability) -> str:
    """Return the name of a partition's profile; that of the device if it has none."""
    return largest_partition.partition_of(device).type_name or device.id.device


def _blocked(
    card: Card,
    group: Sequence[DeviceAvailability],
    numbers: Mapping[str, int],
    counter_sets: Mapping[str, CounterSet],
) -> Iterator[BlockedProfile]:
    """Yield the profiles that only the places in use keep from fitting."""
    left = _left(group, counter_sets)
    by_profile: dict[str, list[DeviceAvailability]] = {}
    for device in group:
        if device.parent:
            by_profile.setdefault(_profile(device), []).append(device)
    for profile, devices in by_profile.items():
        size = len(_places(devices[0], numbers))
        if not 0 < size <= card.free_slices:
            continue
        if any(device.state in device_groups.AVAILABLE for device in devices):
            continue
        if _needs_other_counters(devices[0], left, numbers):
            continue
        starts = {_places(device, numbers)[0] for device in devices}
        yield BlockedProfile(profile, size, tuple(sorted(starts)))


def _left(
    group: Sequence[DeviceAvailability], counter_sets: Mapping[str, CounterSet]
) -> dict[tuple[str, str], int]:
    left = {
        (set_name, name): quantity.parse(counter.value).nano
        for set_name, counter_set in counter_sets.items()
        for name, counter in counter_set.counters.items()
    }
    for device in group:
        for set_name, amounts in _consumption(device) if device.holders else ():
            for name, amount in amounts.items():
                left[set_name, name] = left.get((set_name, name), 0) - amount
    return left


def _needs_other_counters(
    device: DeviceAvailability,
    left: Mapping[tuple[str, str], int],
    numbers: Mapping[str, int],
) -> bool:
    """Return whether more is missing than the slices at some place."""
    return any(
        amount > left.get((set_name, name), 0)
        for set_name, amounts in _consumption(device)
        for name, amount in amounts.items()
        if name not in numbers
    )

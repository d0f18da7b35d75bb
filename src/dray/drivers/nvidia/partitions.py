"""MIG as shared counters: each profile at each placement is a device that consumes them. Pure.

The counters of a GPU are what its largest profile has, and one for each memory slice, so that
partitions never overlap and a whole GPU excludes all of its partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from dray.api.types.dra import Counter, CounterSet, Device, DeviceCounterConsumption
from dray.drivers.nvidia import devices
from dray.drivers.nvidia.hardware import Gpu, MigProfile, Placement

COMPUTE_SLICES = "compute-slices"

Counters = dict[str, Counter]


@dataclass(frozen=True)
class Cut:
    """A profile at one placement of a GPU."""

    profile: MigProfile
    placement: Placement

    def overlaps(self, other: Cut) -> bool:
        mine, theirs = self.placement.slices, other.placement.slices
        return mine.start < theirs.stop and theirs.start < mine.stop


def counter_set(whole: Device, profiles: Sequence[MigProfile]) -> CounterSet:
    """Return the counter set of a GPU: everything that its partitions can consume."""
    most: dict[str, int] = {}
    slices = 0
    for profile in profiles:
        for name, amount in _amounts(profile).items():
            most[name] = max(amount, most.get(name, 0))
        slices = max(slices, *(placement.slices.stop for placement in profile.placements))
    counters = {name: _counter(name, amount) for name, amount in most.items()}
    return CounterSet(_set_name(whole), {**counters, **_slices(range(slices))})


def partitionable(whole: Device, profiles: Sequence[MigProfile]) -> Device:
    """Return the whole GPU, which consumes every counter."""
    everything = counter_set(whole, profiles)
    largest = max(profiles, key=lambda profile: profile.memory_mebibytes)
    return msgspec.structs.replace(
        whole,
        capacity={**devices.capacities(largest), **whole.capacity},
        consumes_counters=(DeviceCounterConsumption(everything.name, everything.counters),),
    )


def partition(gpu: Gpu, whole: Device, cut: Cut) -> Device:
    name = devices.partition_name(gpu, cut.profile, cut.placement)
    taken = {key: _counter(key, amount) for key, amount in _amounts(cut.profile).items()}
    counters = {**taken, **_slices(cut.placement.slices)}
    return msgspec.structs.replace(
        devices.partition(whole, name, cut.profile, cut.placement),
        consumes_counters=(DeviceCounterConsumption(_set_name(whole), counters),),
    )


def in_order(profiles: Iterable[MigProfile]) -> list[Cut]:
    """Return all cuts in the order in which first fit should try them.

    Small profiles come first, so that a request with a minimum takes no more than it needs. Among
    the placements of one profile, the next is the one that blocks the fewest cuts which earlier
    placements have not blocked already.
    """
    ordered = sorted(profiles, key=_size)
    cuts = [Cut(profile, place) for profile in ordered for place in profile.placements]
    by_profile = ([cut for cut in cuts if cut.profile == profile] for profile in ordered)
    return [cut for places in by_profile for cut in _least_stranding_first(places, cuts)]


def _least_stranding_first(places: Sequence[Cut], cuts: Sequence[Cut]) -> Iterable[Cut]:
    left, whole_cuts = list(places), set(cuts)
    while left:
        chosen = min(left, key=lambda cut: (_spoilt(cut, whole_cuts), -cut.placement.start))
        whole_cuts = {cut for cut in whole_cuts if not cut.overlaps(chosen)}
        left.remove(chosen)
        yield chosen


def _spoilt(chosen: Cut, cuts: Iterable[Cut]) -> int:
    return sum(cut.placement.size for cut in cuts if cut.overlaps(chosen))


def _size(profile: MigProfile) -> tuple[int, ...]:
    slices = profile.placements[0].size
    engines = profile.copy_engines + profile.decoders + profile.jpeg_engines + profile.ofa_engines
    return (slices, profile.compute_slices, profile.memory_mebibytes, engines, profile.id)


def _amounts(profile: MigProfile) -> dict[str, int]:
    """Return the counters that a profile consumes; their names are DNS labels."""
    return {
        COMPUTE_SLICES: profile.compute_slices,
        "multiprocessors": profile.multiprocessors,
        "copy-engines": profile.copy_engines,
        "decoders": profile.decoders,
        "encoders": profile.encoders,
        "jpeg-engines": profile.jpeg_engines,
        "ofa-engines": profile.ofa_engines,
        devices.MEMORY: profile.memory_mebibytes,
    }


def _counter(name: str, amount: int) -> Counter:
    return Counter(f"{amount}Mi" if name == devices.MEMORY else str(amount))


def _slices(numbers: range) -> Counters:
    return {f"memory-slice-{number}": Counter("1") for number in numbers}


def _set_name(whole: Device) -> str:
    return f"{whole.name}-counter-set"

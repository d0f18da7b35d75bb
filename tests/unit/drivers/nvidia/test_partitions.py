"""MIG as counters: what fits together, and in which order it is offered."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from dray.api.formats import quantity
from dray.api.types.dra import Device
from dray.drivers.nvidia import devices, partitions
from dray.drivers.nvidia.devices import HostTopology
from dray.drivers.nvidia.hardware import Gpu, HardwareError, MigProfile, Placement, Versions
from dray.drivers.nvidia.partitions import Cut
from tests.nvidia import fake


class Parent:
    def __init__(self, folder: Path) -> None:
        machine = fake.hardware(folder)
        (self.gpu,) = machine.gpus()
        self.profiles: Sequence[MigProfile] = machine.profiles(self.gpu.uuid)
        self.whole = partitions.partitionable(
            devices.whole(self.gpu, HostTopology("n1", Versions("580.159.04", (13, 0)))),
            self.profiles,
        )
        self.cuts = partitions.in_order(self.profiles)

    def partition(self, cut: Cut) -> Device:
        return partitions.partition(self.gpu, self.whole, cut)

    def named(self, name: str, start: int) -> Device:
        (cut,) = [
            cut for cut in self.cuts if cut.profile.name == name and cut.placement.start == start
        ]
        return self.partition(cut)

    def starts(self, name: str) -> list[int]:
        return [cut.placement.start for cut in self.cuts if cut.profile.name == name]


@pytest.fixture
def parent(tmp_path: Path) -> Parent:
    return Parent(tmp_path)


def fits(parent: Parent, chosen: Iterable[Device]) -> bool:
    """Whether the counters of the GPU allow these devices together."""
    left = {
        name: quantity.parse(counter.value)
        for name, counter in partitions.counter_set(parent.whole, parent.profiles).counters.items()
    }
    for device in chosen:
        (consumption,) = device.consumes_counters
        for name, counter in consumption.counters.items():
            left[name] = left[name] - quantity.parse(counter.value)
    return all(amount.sign() >= 0 for amount in left.values())


def test_every_profile_at_every_place_is_offered(parent: Parent) -> None:
    assert len(parent.cuts) == 25
    assert len({parent.partition(cut).name for cut in parent.cuts}) == 25


def test_the_whole_gpu_excludes_every_partition(parent: Parent) -> None:
    assert fits(parent, [parent.whole])
    assert not any(fits(parent, [parent.whole, parent.partition(cut)]) for cut in parent.cuts)


def test_counters_allow_exactly_what_the_hardware_allows(parent: Parent, tmp_path: Path) -> None:
    gpu, machine = parent.gpu.uuid, fake.hardware(tmp_path / "machine")
    machine.modes[gpu] = True
    for first, second in itertools.combinations(parent.cuts, 2):
        number = machine.create_instance(gpu, first.profile.id, first.placement)
        try:
            other = machine.create_instance(gpu, second.profile.id, second.placement)
            machine.destroy_instance(gpu, other)
            allowed = True
        except HardwareError:
            allowed = False
        machine.destroy_instance(gpu, number)
        assert fits(parent, map(parent.partition, (first, second))) == allowed


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([("1g.18gb", start) for start in range(7)], id="seven-small-ones"),
        pytest.param([("4g.71gb", 0), ("3g.71gb", 4)], id="four-and-three"),
        pytest.param([("2g.35gb", 0), ("2g.35gb", 2), ("3g.71gb", 4)], id="two-two-three"),
        pytest.param([("1g.35gb", start) for start in (0, 2, 4, 6)], id="four-with-more-memory"),
        pytest.param([("1g.18gb", 6), ("1g.18gb", 5), ("3g.71gb", 0)], id="one-one-three"),
    ],
)
def test_layouts_that_nvidia_documents_fit(parent: Parent, names: list[tuple[str, int]]) -> None:
    assert fits(parent, [parent.named(name, start) for name, start in names])


def test_only_one_partition_has_the_media_engine(parent: Parent) -> None:
    first, second = parent.named("1g.18gb+me", 0), parent.named("1g.18gb+me", 1)
    assert fits(parent, [first])
    assert not fits(parent, [first, second])


def test_places_that_spoil_least_come_first(parent: Parent) -> None:
    assert parent.starts("1g.18gb")[:3] == [6, 5, 4]
    assert parent.starts("2g.35gb")[0] == 4
    assert parent.starts("3g.71gb") == [4, 0]
    assert parent.starts("1g.35gb")[0] == 6


def test_small_profiles_come_before_large_ones(parent: Parent) -> None:
    names = list(dict.fromkeys(cut.profile.name for cut in parent.cuts))
    assert names[0] == "1g.18gb"
    assert names[-1] == "7g.141gb"


def test_first_fit_strands_less_in_this_order_than_from_the_left(parent: Parent) -> None:
    def first_fit(cuts: Sequence[Cut], wanted: Sequence[str]) -> int:
        taken: list[Device] = []
        for name in wanted:
            for cut in cuts:
                device = parent.partition(cut)
                if cut.profile.name == name and fits(parent, [*taken, device]):
                    taken.append(device)
                    break
        return len(taken)

    wanted = ["1g.18gb", "2g.35gb", "4g.71gb"]
    from_the_left = sorted(parent.cuts, key=lambda cut: cut.placement.start)
    assert first_fit(parent.cuts, wanted) == 3
    assert first_fit(from_the_left, wanted) == 2


def test_a_partition_says_what_it_is_and_whose(parent: Parent) -> None:
    device = parent.named("1g.18gb+me", 3)
    assert device.name == "gpu-0-mig-1g18gb-me-20-3"
    read = device.attributes
    assert read["type"].string_value == "mig"
    assert read["profile"].string_value == "1g.18gb+me"
    assert read["parentUUID"].string_value == parent.gpu.uuid
    assert "uuid" not in read
    assert {name: each.value for name, each in device.capacity.items()} == {
        "memory": "16384Mi",
        "multiprocessors": "16",
        "copyEngines": "1",
        "decoders": "1",
        "encoders": "0",
        "jpegEngines": "1",
        "ofaEngines": "1",
    }


def test_cuts_overlap_where_they_share_a_slice(parent: Parent) -> None:
    profile = parent.profiles[0]
    left, middle, right = (
        Cut(profile, Placement(0, 2)),
        Cut(profile, Placement(1, 2)),
        Cut(profile, Placement(2, 2)),
    )
    assert left.overlaps(middle)
    assert middle.overlaps(right)
    assert not left.overlaps(right)


def test_names_keep_gpus_apart(tmp_path: Path) -> None:
    machine = fake.hardware(tmp_path, count=2)
    first, second = machine.gpus()
    profile = machine.profiles(first.uuid)[0]
    place = profile.placements[0]

    def name(gpu: Gpu) -> str:
        return devices.partition_name(gpu, profile, place)

    assert name(first) != name(second)

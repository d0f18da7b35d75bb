"""Holding and giving back GPUs and partitions, whatever fails and whenever the process dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.drivers.nvidia import partitions
from dray.drivers.nvidia.hardware import HardwareError, Instance, InUse, Lost, Placement
from dray.drivers.nvidia.partition_state import GpuState
from dray.drivers.nvidia.partitions import Cut
from tests.nvidia import fake
from tests.nvidia.fake import FakeHardware


class Died(BaseException):
    """The process is killed."""


class Site:
    """One GPU and the state of its driver, which may start anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state"
        self.hardware: FakeHardware = fake.hardware(folder / "machine")
        self.gpu = self.hardware.known[0].uuid
        self.cuts = partitions.in_order(self.hardware.profiles(self.gpu))
        self.state = self.start()

    def start(self) -> GpuState:
        self.state = GpuState(self.hardware, self.folder, pause=lambda _seconds: None)
        self.state.reconcile()
        return self.state

    def cut(self, name: str, start: int) -> Cut:
        return next(
            cut for cut in self.cuts if cut.profile.name == name and cut.placement.start == start
        )

    def places(self) -> list[Placement]:
        return [each.placement for each in self.hardware.made.get(self.gpu, ())]

    def is_on(self) -> bool:
        return self.hardware.modes.get(self.gpu, False)

    def die_after(self, call: str) -> None:
        def interrupt(done: str) -> None:
            if done == call:
                self.hardware.interrupt = lambda _call: None
                raise Died

        self.hardware.interrupt = interrupt


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_partition_is_made_at_exactly_the_chosen_place(site: Site) -> None:
    made = site.state.hold_partition("a", site.gpu, site.cut("3g.71gb", 4))
    (instance,) = site.hardware.made[site.gpu]
    assert instance.placement == Placement(4, 4)
    assert [made.compute.uuid] == fake.uuids(site.hardware, site.gpu)
    assert site.is_on()


def test_holding_twice_gives_the_same_partition(site: Site) -> None:
    cut = site.cut("1g.18gb", 0)
    assert site.state.hold_partition("a", site.gpu, cut) == site.state.hold_partition(
        "a", site.gpu, cut
    )
    assert len(site.places()) == 1


def test_the_mode_goes_back_with_the_last_partition(site: Site) -> None:
    site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))
    site.state.hold_partition("b", site.gpu, site.cut("1g.18gb", 1))
    site.state.release("a")
    assert site.is_on()
    site.state.release("b")
    assert not site.is_on()
    assert site.places() == []


def test_a_mode_that_was_on_before_stays_on(site: Site) -> None:
    site.hardware.modes[site.gpu] = True
    site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))
    site.state.release("a")
    assert site.is_on()


def test_a_whole_gpu_is_taken_out_of_mig_mode_and_put_back(site: Site) -> None:
    site.hardware.modes[site.gpu] = True
    site.state.hold_gpu("a", site.gpu, can_partition=True)
    assert not site.is_on()
    site.state.release("a")
    assert site.is_on()


def test_the_mode_is_not_switched_where_that_is_not_permitted(site: Site) -> None:
    state = GpuState(site.hardware, site.folder, may_switch=False)
    with pytest.raises(HardwareError, match="may not switch it"):
        state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))
    assert not site.is_on()


def test_a_gpu_that_somebody_uses_is_not_cut_and_the_users_are_named(site: Site) -> None:
    site.hardware.users[site.gpu] = [4711]
    cut = site.cut("1g.18gb", 0)
    with pytest.raises(InUse, match="used by process 4711"):
        site.state.hold_partition("a", site.gpu, cut)
    site.hardware.users.clear()
    assert site.state.hold_partition("a", site.gpu, cut)


def test_a_gpu_held_whole_is_not_cut(site: Site) -> None:
    site.state.hold_gpu("a", site.gpu, can_partition=True)
    with pytest.raises(InUse, match="held as a whole"):
        site.state.hold_partition("b", site.gpu, site.cut("1g.18gb", 0))


def test_a_cut_gpu_is_not_held_whole(site: Site) -> None:
    site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))
    with pytest.raises(InUse, match="divided into partitions"):
        site.state.hold_gpu("b", site.gpu, can_partition=True)


def test_a_place_that_somebody_else_has_taken_is_named(site: Site) -> None:
    site.hardware.modes[site.gpu] = True
    foreign = Instance(3, 9, Placement(4, 4))
    site.hardware.made[site.gpu] = [foreign]
    with pytest.raises(InUse, match="GPU instance 3 lies on memory slices 4 to 7"):
        site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 6))
    assert site.hardware.made[site.gpu] == [foreign]


@pytest.mark.parametrize("call", ["create_instance", "create_compute", "set_partitioned"])
def test_what_fails_halfway_is_undone(site: Site, call: str) -> None:
    site.hardware.failing[call] = HardwareError("cannot: Insufficient Resources")
    with pytest.raises(HardwareError, match="Insufficient Resources"):
        site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))
    assert site.places() == []
    assert not site.is_on()
    assert site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))


def test_what_cannot_be_undone_now_is_undone_by_the_next_attempt(site: Site) -> None:
    site.hardware.failing["create_compute"] = HardwareError("cannot create")
    site.hardware.failing["destroy_instance"] = HardwareError("cannot destroy")
    cut = site.cut("1g.18gb", 0)
    with pytest.raises(HardwareError, match="cannot create"):
        site.state.hold_partition("a", site.gpu, cut)
    assert len(site.places()) == 1
    assert site.state.hold_partition("a", site.gpu, cut).compute.uuid.startswith("MIG-")
    assert len(site.places()) == 1


@pytest.mark.parametrize("call", ["set_partitioned", "create_instance", "create_compute"])
def test_after_a_death_in_the_middle_nothing_is_left(site: Site, call: str) -> None:
    site.die_after(call)
    with pytest.raises(Died):
        site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))
    site.start()
    assert site.places() == []
    assert not site.is_on()


def test_after_a_death_while_giving_back_the_rest_is_given_back(site: Site) -> None:
    site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))
    site.die_after("destroy_instance")
    with pytest.raises(Died):
        site.state.release("a")
    site.start()
    site.state.release("a")
    assert not site.is_on()


def test_a_restart_keeps_what_claims_hold(site: Site) -> None:
    cut = site.cut("2g.35gb", 2)
    before = site.state.hold_partition("a", site.gpu, cut)
    assert site.start().hold_partition("a", site.gpu, cut) == before


def test_a_restart_leaves_alone_what_others_have_made(site: Site) -> None:
    site.hardware.modes[site.gpu] = True
    foreign = Instance(5, 19, Placement(2, 1))
    site.hardware.made[site.gpu] = [foreign]
    state = site.start()
    assert site.hardware.made[site.gpu] == [foreign]
    assert not state.is_ours(site.gpu, foreign)


def test_after_a_reboot_numbers_mean_nothing(site: Site) -> None:
    """Another partition has got the number of ours: it is not the one we made."""
    made = site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))
    foreign = Instance(made.instance, 9, Placement(4, 4))
    site.hardware.made[site.gpu] = [foreign]
    site.start().release("a")
    assert site.hardware.made[site.gpu] == [foreign]


def test_a_partition_whose_processes_are_just_ending_is_waited_for(site: Site) -> None:
    site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))
    site.hardware.failing["destroy_instance"] = InUse("cannot destroy: In use")
    site.state.release("a")
    assert site.places() == []


def test_a_mode_that_cannot_be_restored_now_is_restored_later(site: Site) -> None:
    site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))
    site.hardware.failing["set_partitioned"] = InUse("cannot turn off: In use")
    site.state.release("a")
    assert site.is_on()
    site.state.settle()
    assert not site.is_on()


def test_a_lost_gpu_does_not_keep_the_driver_from_starting(site: Site) -> None:
    site.state.hold_partition("a", site.gpu, site.cut("1g.18gb", 0))
    site.hardware.lost.add(site.gpu)
    state = site.start()
    with pytest.raises(Lost):
        state.release("a")

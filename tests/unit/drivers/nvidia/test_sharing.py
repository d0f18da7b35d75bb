"""Turns and services: set up once, told to containers, taken back with the last claim."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dray.drivers.nvidia.config import Mps, Sharing, TimeSlicing
from dray.drivers.nvidia.hardware import HardwareError
from dray.drivers.nvidia.host import Host
from dray.drivers.nvidia.sharing import SharingRequest, SharingState, SystemCommands
from tests.nvidia import fake

PARTITION = "MIG-1"


@dataclass
class Recorded:
    """Notes commands instead of running them; fails on demand."""

    said: list[str] = field(default_factory=list)
    fails_on: str = ""
    before: Callable[..., None] = lambda *_: None

    def run(self, argv: Sequence[str], env: Mapping[str, str] = {}, stdin: str = "") -> None:
        self.before(argv)
        line = " ".join([Path(argv[0]).name, *argv[1:], stdin]).strip()
        if self.fails_on and self.fails_on in line:
            raise HardwareError(f"{line}: refused")
        self.said.append(line)


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hardware = fake.hardware(folder / "machine")
        for name in ("nvidia-smi", "nvidia-cuda-mps-control"):
            fake.write(folder / "machine/usr/bin" / name, "")
        self.gpu = self.hardware.known[0].uuid
        self.commands = Recorded()
        self.state = self.start()

    def start(self) -> SharingState:
        host = Host(self.folder / "machine")
        self.state = SharingState(self.hardware, host, self.folder / "state", self.commands)
        return self.state

    def wish(
        self, key: str, sharing: Sharing, uuid: str = "", **more: int | bool
    ) -> SharingRequest:
        memory = more.get("memory_mebibytes")
        return SharingRequest(
            key, self.gpu, uuid or self.gpu, sharing, memory, bool(more.get("is_shared"))
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_usual_turns_need_nothing(site: Site) -> None:
    edits = site.state.arrange(site.wish("a", TimeSlicing()))
    assert (edits.env, edits.mounts, site.commands.said) == ({}, (), [])


def test_longer_turns_are_set_and_taken_back(site: Site) -> None:
    site.state.arrange(site.wish("a", TimeSlicing("Long")))
    site.state.release("a")
    command = f"nvidia-smi compute-policy -i {site.gpu} --set-timeslice"
    assert site.commands.said == [f"{command} 3", f"{command} 0"]


def test_a_restarted_driver_takes_back_what_it_has_set(site: Site) -> None:
    site.state.arrange(site.wish("a", TimeSlicing("Short")))
    site.start().release("a")
    assert site.commands.said[-1].endswith("--set-timeslice 0")


def test_after_a_reboot_services_are_started_anew(site: Site) -> None:
    boot = site.folder / "machine/proc/sys/kernel/random/boot_id"
    for key in ("a", "b"):
        site.state.arrange(site.wish(key, Mps(), is_shared=True))
    fake.write(boot, "the next one\n")
    site.hardware.exclusive.clear()
    site.start().arrange(site.wish("a", Mps(), is_shared=True))
    assert sum(line.startswith("unshare") for line in site.commands.said) == 2
    assert site.gpu in site.hardware.exclusive
    site.state.release("a")
    assert site.hardware.exclusive == set()


def test_partitions_have_no_turns_of_their_own(site: Site) -> None:
    site.state.arrange(site.wish("a", TimeSlicing("Long"), PARTITION))
    assert site.commands.said == []


def test_a_service_is_started_once_and_ends_with_the_last_claim(site: Site) -> None:
    wanted = Mps(thread_percentage=50)
    first = site.state.arrange(site.wish("a", wanted, memory_mebibytes=10240, is_shared=True))
    second = site.state.arrange(site.wish("b", wanted, memory_mebibytes=2048, is_shared=True))
    assert site.gpu in site.hardware.exclusive
    assert [line.partition(" ")[0] for line in site.commands.said] == [
        "mount",
        "unshare",
        "nvidia-cuda-mps-control",
    ]
    assert first.env == {
        "CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=10240M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
    }
    assert second.env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=2048M"
    assert [mount.container_path for mount in first.mounts] == ["/tmp/nvidia-mps", "/dev/shm"]
    site.state.release("a")
    assert site.gpu in site.hardware.exclusive
    site.state.release("b")
    assert site.commands.said[-2] == "nvidia-cuda-mps-control quit"
    assert site.gpu not in site.hardware.exclusive
    assert not list((site.folder / "state" / "mps").iterdir())


def test_a_service_for_a_partition_leaves_the_gpus_mode_alone(site: Site) -> None:
    site.state.arrange(site.wish("a", Mps(), PARTITION))
    assert site.hardware.exclusive == set()


def test_a_mode_that_was_exclusive_before_stays_so(site: Site) -> None:
    site.hardware.exclusive.add(site.gpu)
    site.state.arrange(site.wish("a", Mps()))
    site.state.release("a")
    assert site.gpu in site.hardware.exclusive


def test_one_gpu_is_shared_in_one_way(site: Site) -> None:
    site.state.arrange(site.wish("a", TimeSlicing(), is_shared=True))
    with pytest.raises(HardwareError, match=r"shared by TimeSlicing .* cannot be by MPS"):
        site.state.arrange(site.wish("b", Mps(), is_shared=True))
    site.state.release("a")
    site.state.arrange(site.wish("b", Mps(), is_shared=True))


def test_the_sockets_of_a_service_have_short_names(site: Site) -> None:
    edits = site.state.arrange(site.wish("a", Mps()))
    pipe = edits.mounts[0].host_path.removeprefix(str(site.folder / "state"))
    longest = f"/var/lib/kubelet/plugins/gpu.nvidia.com{pipe}/control_privileged"
    assert len(longest) < 100


def test_a_service_that_does_not_start_is_quoted(site: Site) -> None:
    def write_log(_argv: object, *_: object) -> None:
        for folder in (site.folder / "state" / "mps").glob("*/log"):
            (folder / "control.log").write_text("one\ntwo\nthree\nno such user\n", "utf-8")

    site.commands.before = write_log
    site.commands.fails_on = "unshare"
    with pytest.raises(HardwareError, match="refused two three no such user"):
        site.state.arrange(site.wish("a", Mps()))


def test_what_failed_halfway_can_be_taken_back(site: Site) -> None:
    site.commands.fails_on = "unshare"
    with pytest.raises(HardwareError, match="refused"):
        site.state.arrange(site.wish("a", Mps()))
    site.commands.fails_on = "quit"
    site.state.release("a")
    assert site.hardware.exclusive == set()


def test_in_a_container_the_machines_programs_run_on_the_machine(tmp_path: Path) -> None:
    hardware = fake.hardware(tmp_path / "machine")
    host, commands = Host(tmp_path / "machine", is_elsewhere=True), Recorded()
    gpu = hardware.known[0].uuid
    SharingState(hardware, host, tmp_path / "state", commands).arrange(
        SharingRequest("a", gpu, gpu, TimeSlicing("Long"))
    )
    (line,) = commands.said
    assert line.startswith(
        "nsenter --target 1 --mount -- /opt/nvidia/bin/nvidia-smi compute-policy"
    )


def test_a_command_ends_though_its_service_goes_on() -> None:
    started = time.monotonic()
    SystemCommands().run(["sh", "-c", "sleep 30 & cat"], stdin="input")
    assert time.monotonic() - started < 25


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        pytest.param(["sh", "-c", "echo no; exit 3"], "failed with 3: no", id="refuses"),
        pytest.param(["/does/not/exist"], "cannot be run", id="missing"),
    ],
)
def test_a_command_that_fails_says_what_it_said(argv: list[str], message: str) -> None:
    with pytest.raises(HardwareError, match=message):
        SystemCommands().run(argv)


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    hardware = fake.hardware(tmp_path / "machine")
    (tmp_path / "machine/opt/nvidia/bin/nvidia-smi").unlink()
    state = SharingState(hardware, Host(tmp_path / "machine"), tmp_path / "state", Recorded())
    gpu = hardware.known[0].uuid
    with pytest.raises(HardwareError, match="nvidia-smi is not installed"):
        state.arrange(SharingRequest("a", gpu, gpu, TimeSlicing("Long")))

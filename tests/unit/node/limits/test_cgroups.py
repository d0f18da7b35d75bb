"""The files of control groups, on folders that stand in for the kernel's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.node import mounts
from dray.node.limits import cgroup_v1, cgroup_v2, hierarchy
from dray.node.limits.cgroup_v1 import CgroupV1
from dray.node.limits.cgroup_v2 import CgroupV2
from dray.node.limits.hierarchy import LimitsUnusable
from dray.node.mounts import MountedFileSystem
from dray.node.runtimes.interface import ResourceLimits

ASKED = ResourceLimits(cpus=0.2, cpu_request=0.1, memory_bytes=100 * 2**20, pids=40)
V2_FILES = ("cgroup.procs", "cpu.max", "cpu.weight", "memory.max", "memory.swap.max", "pids.max")
V1_FILES = {
    "cpu": ("cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us"),
    "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    "pids": ("pids.max",),
}


def group(folder: Path, *files: str, controllers: str = "cpu io memory pids") -> Path:
    """A folder with the files that the kernel would put there."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        (folder / file).write_text("")
    (folder / "cgroup.controllers").write_text(controllers)
    (folder / "cgroup.subtree_control").write_text("")
    (folder / "cgroup.procs").write_text("")
    return folder


def content(folder: Path, file: str) -> str:
    return (folder / file).read_text("ascii")


def v2(folder: Path) -> list[MountedFileSystem]:
    return [MountedFileSystem(folder, "cgroup2", frozenset({"rw"}))]


def test_version_2_has_the_limits_of_a_kubelet(tmp_path: Path) -> None:
    group(tmp_path)
    group(tmp_path / "g", *V2_FILES, "memory.oom.group")
    made = CgroupV2(tmp_path)
    made.make("g", ASKED)
    made.kill_together("g")
    assert content(tmp_path, "cgroup.subtree_control") == "+cpu +memory +pids"
    found = {file: content(tmp_path / "g", file) for file in V2_FILES[1:]}
    assert found == {
        "cpu.max": "20000 100000",
        "cpu.weight": "4",
        "memory.max": str(100 * 2**20),
        "memory.swap.max": "0",
        "pids.max": "40",
    }
    assert content(tmp_path / "g", "memory.oom.group") == "1"


def test_version_2_without_limits_and_without_swap(tmp_path: Path) -> None:
    group(tmp_path)
    group(tmp_path / "g", *(file for file in V2_FILES if file != "memory.swap.max"))
    CgroupV2(tmp_path).make("g", ResourceLimits())
    assert content(tmp_path / "g", "memory.max") == "max"
    assert content(tmp_path / "g", "cpu.max") == "max 100000"
    assert content(tmp_path / "g", "cpu.weight") == "1"
    assert not (tmp_path / "g" / "memory.swap.max").exists()


def test_version_1_has_the_limits_of_a_kubelet(tmp_path: Path) -> None:
    for controller, files in V1_FILES.items():
        group(tmp_path / controller / "g", *files)
    made = CgroupV1(*(tmp_path / controller for controller in V1_FILES))
    made.make("g", ASKED)
    found = {
        file: content(tmp_path / controller / "g", file)
        for controller, files in V1_FILES.items()
        for file in files
    }
    assert found == {
        "cpu.shares": "102",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "20000",
        "memory.limit_in_bytes": str(100 * 2**20),
        "memory.memsw.limit_in_bytes": str(100 * 2**20),
        "pids.max": "40",
    }


def test_a_limit_that_the_kernel_cannot_hold_is_an_error(tmp_path: Path) -> None:
    for controller in V1_FILES:
        group(tmp_path / controller / "g", "cpu.shares", "pids.max")
    made = CgroupV1(*(tmp_path / controller for controller in V1_FILES))
    made.set_limits("g", ResourceLimits(cpu_request=1.0))
    with pytest.raises(OSError, match="cannot limit CPU time"):
        made.set_limits("g", ResourceLimits(cpus=1.0))


@pytest.mark.parametrize(
    ("request_", "shares", "weight"),
    [(None, 2, 1), (0.001, 2, 1), (0.1, 102, 4), (1.0, 1024, 39), (1000.0, 262_144, 10_000)],
)
def test_weights_are_those_of_a_kubelet(request_: float | None, shares: int, weight: int) -> None:
    assert hierarchy.shares(request_) == shares
    assert cgroup_v2.weight(request_) == weight


def test_a_quota_is_at_least_what_the_kernel_takes() -> None:
    assert hierarchy.quota(0.001) == 1000
    assert hierarchy.quota(1.5) == 150_000


def test_root_takes_the_top_of_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cgroup_v2, "SYSTEMD", tmp_path)
    group(tmp_path)
    found = cgroup_v2.find(v2(tmp_path), "0::/system.slice/dray.service\n")
    assert found == CgroupV2(tmp_path)


def test_others_need_a_group_that_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(cgroup_v2, "SYSTEMD", tmp_path)
    group(tmp_path)
    group(tmp_path / "own")
    with pytest.raises(LimitsUnusable, match="no group is delegated"):
        cgroup_v2.find(v2(tmp_path), "0::/own\n")


def test_what_runs_in_a_delegated_group_moves_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(cgroup_v2, "_has_mark", lambda folder, name: folder.name == "own")
    monkeypatch.setattr(cgroup_v2, "SYSTEMD", tmp_path)
    group(tmp_path)
    own = group(tmp_path / "own")
    (own / "cgroup.procs").write_text("4242\n")
    leaf = group(own / cgroup_v2.LEAF)
    found = cgroup_v2.find(v2(tmp_path), "1:name=systemd:/x\n0::/own\n")
    assert found == CgroupV2(own)
    assert content(leaf, "cgroup.procs") == "4242"
    assert content(own, "cgroup.subtree_control") == "+cpu +memory +pids"
    again = cgroup_v2.find(v2(tmp_path), f"0::/own/{cgroup_v2.LEAF}\n")
    assert again == found


def test_controllers_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(LimitsUnusable, match="not mounted"):
        cgroup_v2.find([], "")
    group(tmp_path, controllers="io hugetlb memory")
    with pytest.raises(LimitsUnusable, match="no cpu, pids controller"):
        cgroup_v2.find(v2(tmp_path), "0::/\n")
    with pytest.raises(LimitsUnusable, match="no memory, pids controller"):
        cgroup_v1.find([MountedFileSystem(tmp_path, "cgroup", frozenset({"rw", "cpu"}))])


def test_mounts_are_read_as_the_kernel_writes_them() -> None:
    text = (
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
        "31 23 0:27 / /with\\040space rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 23 0:28 / /with\\040space rw - tmpfs tmpfs rw\n"
    )
    assert mounts.read(text) == [
        MountedFileSystem(Path("/sys/fs/cgroup"), "cgroup2", frozenset({"rw", "nsdelegate"})),
        MountedFileSystem(Path("/with space"), "tmpfs", frozenset({"rw"})),
    ]

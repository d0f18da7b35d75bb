"""What containers get: the device they claimed, the vendor's files, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.drivers.nvidia import cdi_edits
from dray.drivers.nvidia.cdi_edits import Shown
from dray.drivers.nvidia.hardware import Gpu, HardwareError
from dray.drivers.nvidia.host import Host
from tests.nvidia import fake

COMMON = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
LIBRARIES = "/opt/nvidia/lib64"


@pytest.fixture
def gpus(tmp_path: Path) -> list[Gpu]:
    return fake.hardware(tmp_path, count=2).known


def test_a_gpu_comes_with_its_node_and_no_other(tmp_path: Path, gpus: list[Gpu]) -> None:
    edits = cdi_edits.of_gpu(Host(tmp_path), gpus[1], "gpu-1")
    assert [node.path for node in edits.device_nodes] == [*COMMON, "/dev/nvidia1"]


def test_the_container_is_told_what_it_has(tmp_path: Path, gpus: list[Gpu]) -> None:
    edits = cdi_edits.of_gpu(Host(tmp_path), gpus[0], "gpu-0")
    assert edits.env == {
        "NVIDIA_VISIBLE_DEVICES": "void",
        "GPU_DEVICE_GPU_0": gpus[0].uuid,
        "LD_LIBRARY_PATH": LIBRARIES,
    }


def test_libraries_come_under_the_names_that_programs_ask_for(
    tmp_path: Path, gpus: list[Gpu]
) -> None:
    edits = cdi_edits.of_gpu(Host(tmp_path), gpus[0], "gpu-0")
    mounts = {mount.container_path: mount.host_path for mount in edits.mounts}
    real = f"{LIBRARIES}/libcuda.so.580.159.04"
    assert mounts[f"{LIBRARIES}/libcuda.so.1"] == real
    assert mounts[real] == real
    assert mounts["/opt/bin/nvidia-smi"] == "/opt/nvidia/bin/nvidia-smi"
    assert not any("unrelated" in path for path in mounts)
    assert all("ro" in mount.options for mount in edits.mounts)


def test_files_at_usual_places_need_no_search_path(tmp_path: Path, gpus: list[Gpu]) -> None:
    usual = tmp_path / "usr/lib/x86_64-linux-gnu"
    usual.parent.mkdir(parents=True)
    (tmp_path / "opt/nvidia/lib64").rename(usual)
    fake.write(tmp_path / "usr/bin/nvidia-smi", "")
    edits = cdi_edits.of_gpu(Host(tmp_path), gpus[0], "gpu-0")
    assert "LD_LIBRARY_PATH" not in edits.env
    assert "/usr/bin/nvidia-smi" in {mount.container_path for mount in edits.mounts}


def test_sockets_of_services_come_writable_where_there_are_any(
    tmp_path: Path, gpus: list[Gpu]
) -> None:
    path = "/run/nvidia-persistenced/socket"
    fake.write(tmp_path / path.lstrip("/"), "")
    (mount,) = [
        each
        for each in cdi_edits.of_gpu(Host(tmp_path), gpus[0], "gpu-0").mounts
        if each.container_path == path
    ]
    assert "rw" in mount.options


def test_nvidias_tool_tells_the_containers_linker(tmp_path: Path, gpus: list[Gpu]) -> None:
    fake.write(tmp_path / "usr/bin/nvidia-cdi-hook", "")
    (hook,) = cdi_edits.of_gpu(Host(tmp_path), gpus[0], "gpu-0").hooks
    assert hook.args == ("nvidia-cdi-hook", "update-ldcache", "--folder", LIBRARIES)


def test_a_partition_comes_with_its_own_capabilities_only(tmp_path: Path) -> None:
    hardware = fake.hardware(tmp_path)
    (gpu,) = hardware.known
    hardware.modes[gpu.uuid] = True
    profile = hardware.profiles(gpu.uuid)[0]
    for place in profile.placements[:2]:
        number = hardware.create_instance(gpu.uuid, profile.id, place)
        hardware.create_compute(gpu.uuid, number)
    edits = cdi_edits.of_partition(Host(tmp_path), gpu, Shown(2, 0, "MIG-x"), "gpu-0-mig")
    nodes = [node.path for node in edits.device_nodes]
    assert nodes == [
        *COMMON,
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap20",
        "/dev/nvidia-caps/nvidia-cap21",
    ]
    assert edits.env["MIG_DEVICE_GPU_0_MIG"] == "MIG-x"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_a_capability_node_that_is_missing_is_made(tmp_path: Path) -> None:
    fake.write(tmp_path / "proc/devices", "Character devices:\n  1 mem\n511 nvidia-caps\n")
    grant = tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig/gi1"
    fake.write(grant / "access", "DeviceFileMinor: 12\n")
    fake.write(grant / "ci0/access", "DeviceFileMinor: 13\n")
    (tmp_path / "dev").mkdir()
    try:
        Host(tmp_path).capability_nodes(0, 1, 0)
    except HardwareError as error:
        pytest.skip(f"no device nodes here: {error}")
    made = (tmp_path / "dev/nvidia-caps/nvidia-cap13").stat()
    assert (os.major(made.st_rdev), os.minor(made.st_rdev)) == (511, 13)
    assert made.st_mode & 0o777 == 0o444


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "names no device", id="empty"),
        pytest.param(None, "cannot read", id="missing"),
    ],
)
def test_a_capability_that_cannot_be_read_is_named(
    tmp_path: Path, text: str | None, message: str
) -> None:
    if text is not None:
        fake.write(tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", text)
    with pytest.raises(HardwareError, match=message):
        Host(tmp_path).capability_nodes(0, 1, 0)


def test_a_missing_device_node_is_named(tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match="there is no device node /dev/nvidia7"):
        Host(tmp_path).gpu_node(7)


def test_the_bus_of_a_gpu(tmp_path: Path, gpus: list[Gpu]) -> None:
    host = Host(tmp_path)
    assert host.pcie_root(gpus[0].pci_bus_id) == "pci0000:00"
    assert host.numa_node(gpus[0].pci_bus_id) == 0
    assert (host.pcie_root("0000:99:00.0"), host.numa_node("0000:99:00.0")) == (None, None)
    fake.write(tmp_path / "sys/devices/pci0000:00" / gpus[0].pci_bus_id / "numa_node", "-1\n")
    assert host.numa_node(gpus[0].pci_bus_id) is None


def test_links_that_leave_the_mounted_root_are_followed_inside_it(
    tmp_path: Path, gpus: list[Gpu]
) -> None:
    """A container gets the files where they really are: there, no link leads out of it."""
    for folder, name in (("usr/bin", "nvidia-smi"), ("usr/lib", "libcuda.so.1")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        target = "bin/nvidia-smi" if name == "nvidia-smi" else f"lib64/{name}"
        (tmp_path / folder / name).symlink_to(f"/opt/nvidia/{target}")
    host = Host(tmp_path)
    assert str(host.program("nvidia-smi")) == "/opt/nvidia/bin/nvidia-smi"
    assert host.library("libcuda.so.1") == tmp_path / "opt/nvidia/lib64/libcuda.so.580.159.04"
    mounts = cdi_edits.of_gpu(host, gpus[0], "gpu-0").mounts
    targets = {mount.container_path for mount in mounts}
    assert {f"{LIBRARIES}/libcuda.so.1", "/opt/bin/nvidia-smi"} <= targets
    assert not any(path.startswith("/usr") for path in targets)

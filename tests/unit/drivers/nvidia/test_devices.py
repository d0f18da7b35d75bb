"""GPUs as devices: the vendor's names, the limits of the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api import features
from dray.api.types.dra import Device, ResourceSlice
from dray.driverkit import pool_layout
from dray.driverkit.pool_layout import PublishedPool
from dray.drivers.nvidia import devices, partitions
from dray.drivers.nvidia.devices import HostTopology
from dray.drivers.nvidia.hardware import Versions
from dray.drivers.nvidia.host import Host
from dray.drivers.nvidia.inventory import Machine, Settings
from dray.drivers.nvidia.partition_state import GpuState
from dray.validation.dra import slices
from tests.nvidia import fake

AROUND = HostTopology("n1", Versions("580.159.04", (13, 0)), "pci0000:00", 0)
MOST = 32


def plain(device: Device) -> dict[str, Any]:
    return {
        name: next(iter(msgspec.to_builtins(value).values()))
        for name, value in device.attributes.items()
    }


def test_a_gpu_has_the_names_that_selectors_use(tmp_path: Path) -> None:
    (gpu,) = fake.hardware(tmp_path).gpus()
    device = devices.whole(gpu, AROUND)
    assert device.name == "gpu-0"
    assert plain(device) == {
        "type": "gpu",
        "uuid": "GPU-f7a4a22d-afd7-60bf-7ab2-b9312bf6a3f5",
        "productName": "NVIDIA H200",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "cudaComputeCapability": "9.0.0",
        "driverVersion": "580.159.4",
        "cudaDriverVersion": "13.0.0",
        "index": 0,
        "minor": 0,
        "resource.kubernetes.io/pciBusID": "0000:00:06.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:00",
        "resource.kubernetes.io/numaNode": 0,
        "vendorID": "0x10de",
        "deviceID": "0x2335",
        "ecc": True,
        "persistence": True,
    }
    assert device.capacity["memory"].value == "143771Mi"


def test_what_a_gpu_does_not_report_is_not_published(tmp_path: Path) -> None:
    (gpu,) = fake.hardware(tmp_path).gpus()
    found = plain(devices.whole(gpu, HostTopology("n1", Versions("580.65", (12, 9)))))
    assert found["driverVersion"] == "580.65.0"
    assert not {"powerLimitWatts", "nvlinks", "nvswitchDomain", devices.PCIE_ROOT} & set(found)


def test_gpus_behind_one_nvswitch_share_a_domain(tmp_path: Path) -> None:
    eight = fake.hardware(tmp_path, count=8, has_nvswitch=True).gpus()
    domains = {plain(devices.whole(gpu, AROUND))["nvswitchDomain"] for gpu in eight}
    assert domains == {"n1"}


def test_gpus_of_one_rack_name_their_clique(tmp_path: Path) -> None:
    (gpu,) = fake.hardware(tmp_path).gpus()
    found = plain(devices.whole(fake.everything(gpu), AROUND))
    assert found["cliqueID"] == "3ed5e4ee-2e5e-4c5c-8e5e-0c2f5c6f7a8b.32766"
    assert found["nvswitchDomain"] == "3ed5e4ee-2e5e-4c5c-8e5e-0c2f5c6f7a8b"


def test_with_every_optional_attribute_a_device_stays_within_the_limit(tmp_path: Path) -> None:
    machine = fake.hardware(tmp_path)
    gpu = fake.everything(machine.gpus()[0])
    profiles = machine.profiles(gpu.uuid)
    whole = partitions.partitionable(devices.whole(gpu, AROUND), profiles)
    made = [
        whole,
        *(partitions.partition(gpu, whole, cut) for cut in partitions.in_order(profiles)),
    ]
    assert max(len(each.attributes) + len(each.capacity) for each in made) <= MOST
    assert len(whole.attributes) == 23


@pytest.mark.parametrize(
    ("count", "can_partition", "shares", "published"),
    [
        pytest.param(1, True, False, 26, id="one-with-mig"),
        pytest.param(8, True, False, 208, id="eight-with-mig"),
        pytest.param(8, False, False, 8, id="eight-without"),
        pytest.param(2, True, True, 2, id="shared"),
    ],
)
def test_what_is_published_is_valid(
    tmp_path: Path, count: int, can_partition: bool, shares: bool, published: int
) -> None:
    machine = fake.hardware(tmp_path, count=count, can_partition=can_partition, has_nvswitch=True)
    machine.known = [fake.everything(gpu) for gpu in machine.known]
    settings = Settings("n1", shares_memory=shares)
    state = GpuState(machine, tmp_path / "state")
    found = Machine(machine, Host(tmp_path), settings).take_inventory(state)
    assert len(found.devices) == published == len(found.parts)
    pool = PublishedPool(devices.DRIVER, "n1", found.devices, found.counter_sets, node_name="n1")
    for each in pool_layout.lay_out(pool):
        assert errors_of(each) == []


def errors_of(found: ResourceSlice) -> list[str]:
    return [str(error) for error in slices.resource_slice(found, features.DEFAULT)]

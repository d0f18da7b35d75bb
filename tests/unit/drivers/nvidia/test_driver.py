"""The driver as its kit calls it: devices, prepare, unprepare, health; whatever the GPU refuses."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.types.dra import ResourceClaim
from dray.driverkit import cdi
from dray.driverkit.driver import Health, PrepareError
from dray.driverkit.prepared_claims import PreparedClaims, PreparedDevice
from dray.drivers.nvidia import devices, nvml
from dray.drivers.nvidia import driver as drivers
from dray.drivers.nvidia.driver import NvidiaDriver, Options
from dray.drivers.nvidia.hardware import (
    ComputeInstance,
    GpuFault,
    GpuUnavailable,
    Hardware,
    HardwareError,
    Placement,
)
from dray.drivers.nvidia.host import Host
from dray.drivers.nvidia.inventory import Settings
from tests.nvidia import fake
from tests.waiting import until

NODE = "n1"
SMALL, OTHER, LARGE = (
    "gpu-0-mig-1g18gb-19-6",
    "gpu-0-mig-1g18gb-19-5",
    "gpu-0-mig-3g71gb-9-0",
)
CALLS = sorted(
    name for name, _ in inspect.getmembers(Hardware, inspect.isfunction) if name[0] != "_"
)


class Site:
    """One machine and the driver's claims on it; both may start anew."""

    def __init__(self, folder: Path, **machine: Any) -> None:
        self.folder = folder
        self.hardware = fake.hardware(folder / "machine", **machine)
        self.gpu = self.hardware.known[0].uuid
        self.start()

    def start(self, settings: Settings | None = None) -> None:
        self.driver = NvidiaDriver(
            self.hardware,
            self.folder / "state",
            Options(settings or Settings(NODE)),
            host=Host(self.folder / "machine"),
        )
        self.claims = PreparedClaims(self.driver, self.folder / "state", self.folder / "cdi")

    def prepare(self, uid: str, *names: str, **result: Any) -> tuple[PreparedDevice, ...]:
        return asyncio.run(self.claims.prepare(claim(uid, *names, **result)))

    def unprepare(self, uid: str) -> None:
        asyncio.run(self.claims.unprepare(uid))

    def names(self) -> list[str]:
        return [device.name for device in self.driver.devices()]

    def health(self) -> dict[str, Health]:
        return {each.device: each.health for each in asyncio.run(self.driver.health())}

    def edits(self, prepared: tuple[PreparedDevice, ...]) -> cdi.Edits:
        ids = [name for device in prepared for name in device.cdi_ids]
        return cdi.resolve(ids, [self.folder / "cdi"])


def claim(uid: str, *names: str, config: Any = (), **result: Any) -> ResourceClaim:
    results = [
        {"request": "gpu", "driver": devices.DRIVER, "pool": NODE, "device": name, **result}
        for name in names
    ]
    opaque = [
        {"source": "FromClaim", "opaque": {"driver": devices.DRIVER, "parameters": each}}
        for each in config
    ]
    body = {
        "metadata": {"name": f"claim-{uid}", "namespace": "default", "uid": uid},
        "status": {"allocation": {"devices": {"results": results, "config": opaque}}},
    }
    return msgspec.convert(body, ResourceClaim)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_partitions_come_before_gpus(site: Site) -> None:
    assert site.names()[0] == SMALL
    assert site.names()[-1] == "gpu-0"


def test_a_partitions_uuid_is_told_when_it_exists(site: Site) -> None:
    (device,) = site.prepare("a", SMALL)
    (uuid,) = fake.uuids(site.hardware, site.gpu)
    assert device.status is not None
    assert device.status.data == {"uuid": uuid, "parentUUID": site.gpu}


def test_two_partitions_of_one_claim_come_together(site: Site) -> None:
    edits = site.edits(site.prepare("a", SMALL, LARGE))
    nodes = [node.path for node in edits.device_nodes if "caps" in node.path]
    assert len(nodes) == len(set(nodes)) == 4
    assert {instance.placement for instance in site.hardware.made[site.gpu]} == {
        Placement(6, 1),
        Placement(0, 4),
    }
    site.unprepare("a")
    assert site.hardware.made[site.gpu] == []


def test_admin_access_changes_nothing(site: Site) -> None:
    site.prepare("a", SMALL)
    site.prepare("b", "gpu-0", OTHER, adminAccess=True)
    assert len(site.hardware.made[site.gpu]) == 1
    site.unprepare("b")
    assert len(site.hardware.made[site.gpu]) == 1


@pytest.mark.parametrize("call", CALLS)
def test_whatever_call_fails_the_claim_fails_alone_and_works_later(site: Site, call: str) -> None:
    site.hardware.failing[call] = HardwareError(f"cannot {call}")
    with contextlib.suppress(PrepareError):
        site.prepare("a", SMALL)
    expected = 1 if "a" in {each.uid for each in site.claims if each.is_complete} else 0
    assert len(site.hardware.made.get(site.gpu, [])) == expected
    site.hardware.failing.clear()
    site.prepare("a", SMALL)
    site.hardware.failing[call] = HardwareError(f"cannot {call}")
    with contextlib.suppress(PrepareError):
        site.unprepare("a")
    site.unprepare("a")
    site.hardware.failing.clear()
    assert site.hardware.made[site.gpu] == []
    site.health()
    assert not site.hardware.modes[site.gpu]


@pytest.mark.parametrize("call", CALLS)
def test_whatever_call_fails_health_can_be_asked(site: Site, call: str) -> None:
    site.prepare("a", SMALL)
    site.hardware.failing[call] = HardwareError(f"cannot {call}")
    assert set(site.health().values()) <= {Health.UNKNOWN}


def test_a_fault_of_a_partition_is_not_the_others(site: Site) -> None:
    site.prepare("a", SMALL)
    site.prepare("b", OTHER)
    (instance,) = [
        each for each in site.hardware.made[site.gpu] if each.placement == Placement(6, 1)
    ]
    site.hardware.faults.append(GpuFault(site.gpu, 94, instance.id))
    assert site.health() == {SMALL: Health.UNHEALTHY}


def test_of_several_faults_the_worst_decides_and_all_are_told(site: Site) -> None:
    site.hardware.faults.extend([GpuFault(site.gpu, 79), GpuFault(site.gpu, 94)])
    (found,) = [each for each in asyncio.run(site.driver.health()) if each.device == "gpu-0"]
    assert (found.effect, found.reason) == ("NoExecute", "xid-79")
    assert found.message.count("XID") == 2


def test_work_that_is_cancelled_goes_to_its_end_before_others_have_their_turn(site: Site) -> None:
    async def cancelled() -> None:
        preparing = asyncio.ensure_future(site.claims.prepare(claim("a", SMALL)))
        await until(lambda: "create_instance" in site.hardware.calls, "an instance")
        preparing.cancel()
        await asyncio.wait({preparing})

    asyncio.run(cancelled())
    assert len(fake.uuids(site.hardware, site.gpu)) == 1
    site.prepare("a", SMALL)
    assert len(site.hardware.made[site.gpu]) == 1


def test_a_fault_of_the_gpu_is_everybodys(site: Site) -> None:
    site.hardware.faults.append(GpuFault(site.gpu, 79))
    assert set(site.health()) == set(site.names())


def test_a_lost_gpu_stays_published_and_unhealthy(tmp_path: Path) -> None:
    site = Site(tmp_path, count=2)
    site.hardware.lost.add(site.gpu)
    found = site.health()
    assert found["gpu-0"] is Health.UNHEALTHY
    assert "gpu-1" not in found
    assert {"gpu-0", "gpu-1"} <= set(site.names())


def test_a_layout_that_appears_while_the_driver_runs_is_offered(site: Site) -> None:
    site.hardware.modes[site.gpu] = True
    number = site.hardware.create_instance(site.gpu, 9, Placement(4, 4))
    compute = site.hardware.create_compute(site.gpu, number)
    site.health()
    (device,) = site.driver.devices()
    assert device.name == "gpu-0-mig-3g71gb-9-4"
    assert device.attributes["uuid"].string_value == compute.uuid
    assert list(site.driver.shared_counters()) == []
    edits = site.edits(site.prepare("a", device.name))
    assert edits.env["MIG_DEVICE_GPU_0_MIG_3G71GB_9_4"] == compute.uuid
    site.unprepare("a")
    assert len(site.hardware.made[site.gpu]) == 1


def test_a_partition_that_was_cut_further_is_offered_in_its_parts(site: Site) -> None:
    site.hardware.modes[site.gpu] = True
    number = site.hardware.create_instance(site.gpu, 9, Placement(0, 4))
    site.hardware.computing[site.gpu, number] = [
        ComputeInstance(0, "MIG-one", 1),
        ComputeInstance(1, "MIG-two", 2),
    ]
    site.health()
    found = {
        device.name: (
            device.attributes["profile"].string_value,
            device.attributes["uuid"].string_value,
            device.capacity["multiprocessors"].value,
        )
        for device in site.driver.devices()
    }
    assert found == {
        "gpu-0-mig-3g71gb-9-0-ci0": ("1c.3g.71gb", "MIG-one", "20"),
        "gpu-0-mig-3g71gb-9-0-ci1": ("2c.3g.71gb", "MIG-two", "40"),
    }


def test_what_claims_hold_stays_published_beside_a_foreign_layout(site: Site) -> None:
    site.prepare("a", SMALL)
    number = site.hardware.create_instance(site.gpu, 9, Placement(0, 4))
    site.hardware.create_compute(site.gpu, number)
    site.health()
    assert set(site.names()) == {SMALL, "gpu-0-mig-3g71gb-9-0"}
    assert len(list(site.driver.shared_counters())) == 1


def test_with_static_mig_partitions_are_offered_as_they_are(site: Site) -> None:
    site.start(Settings(NODE, makes_partitions=False))
    assert site.names() == ["gpu-0"]
    site.hardware.modes[site.gpu] = True
    site.health()
    assert site.names() == []


def test_a_gpu_that_only_a_reset_takes_out_of_mig_mode_is_not_offered_whole(site: Site) -> None:
    site.hardware.known = [replace(gpu, compute_capability=(8, 0)) for gpu in site.hardware.known]
    site.start()
    assert "gpu-0" in site.names()
    site.hardware.modes[site.gpu] = True
    site.health()
    assert "gpu-0" not in site.names()
    assert SMALL in site.names()


def test_after_a_reboot_a_claim_gets_its_partition_anew(site: Site) -> None:
    site.prepare("a", SMALL)
    site.hardware.made[site.gpu].clear()
    site.hardware.modes[site.gpu] = False
    for path in (site.folder / "cdi").iterdir():
        path.unlink()
    site.start()
    (device,) = site.prepare("a", SMALL)
    assert device.status is not None
    assert [device.status.data["uuid"]] == fake.uuids(site.hardware, site.gpu)


def test_two_drivers_take_turns_during_an_upgrade(site: Site) -> None:
    old, old_claims = site.driver, site.claims
    site.start()
    asyncio.run(old_claims.prepare(claim("a", SMALL)))
    site.prepare("b", OTHER)
    assert len(site.hardware.made[site.gpu]) == 2
    asyncio.run(old_claims.unprepare("b"))
    site.unprepare("a")
    assert site.hardware.made[site.gpu] == []
    assert old.name == site.driver.name


def test_wrong_parameters_change_nothing(site: Site) -> None:
    with pytest.raises(PrepareError, match=r"parameters\.kind: Unsupported value"):
        asyncio.run(
            site.claims.prepare(
                claim("a", SMALL, config=[{"apiVersion": "resource.nvidia.com/v1beta1"}])
            )
        )
    assert "create_instance" not in site.hardware.calls
    assert "set_partitioned" not in site.hardware.calls


def test_without_a_library_there_is_no_driver_and_the_reason_is_told(tmp_path: Path) -> None:
    if nvml.is_here():
        pytest.skip("there is a GPU here")
    with pytest.raises(GpuUnavailable, match="NVIDIA"):
        drivers.find(tmp_path / "state")

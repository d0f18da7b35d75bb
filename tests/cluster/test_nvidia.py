"""NVIDIA GPUs from a recording, in a whole cluster: what is published, claimed, cut and seen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from dray.api import kinds
from dray.driverkit.cdi import DeviceNode, Edits, Mount
from dray.driverkit.driver import Allocated, Prepared
from dray.drivers.nvidia.driver import NvidiaDriver, Options
from dray.drivers.nvidia.hardware import GpuFault, Instance, Placement
from dray.drivers.nvidia.host import Host
from dray.drivers.nvidia.inventory import Settings
from dray.node.runtimes import sandbox
from tests.nvidia import fake, site
from tests.nvidia.fake import FakeHardware
from tests.nvidia.site import MIG_CLASS, NODE, Site, claim_template, profile, shell

pytestmark = pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")

SEEN = "ls /dev | grep -c 'nvidia[0-9]'; nvidia-smi -L"
STAY = f"{SEEN}; exec sleep 100"


class FakeMachineDriver(NvidiaDriver):
    """Shows containers the files of the fake machine at the paths of a real one."""

    def __init__(self, hardware: FakeHardware, folder: Path, options: Options) -> None:
        super().__init__(hardware, folder, options, host=Host(hardware.root))
        self._root = hardware.root

    async def prepare(self, allocated: Allocated) -> Prepared:
        made = await super().prepare(allocated)
        replace = msgspec.structs.replace
        nodes = [DeviceNode(node.path, self._on(node.path)) for node in made.edits.device_nodes]
        mounts = [
            Mount(self._on(mount.host_path), mount.container_path) for mount in made.edits.mounts
        ]
        edits: Edits = replace(made.edits, device_nodes=tuple(nodes), mounts=tuple(mounts))
        return Prepared(edits, made.status, made.attributes)

    def _on(self, path: str) -> str:
        return str(self._root / path.lstrip("/"))


Story = Callable[[Site, FakeHardware], Awaitable[None]]


def on_machine(
    tmp_path: Path, story: Story, *, settings: Settings | None = None, **machine: bool | int
) -> None:
    hardware = fake.hardware(tmp_path / "machine", **machine)  # type: ignore[arg-type]
    on_hardware(hardware, story, settings)


def on_hardware(hardware: FakeHardware, story: Story, settings: Settings | None = None) -> None:
    options = Options(settings or Settings(NODE))

    async def test(here: Site) -> None:
        await story(here, hardware)

    site.with_site(test, lambda folder: FakeMachineDriver(hardware, folder, options))


async def running(here: Site, name: str, *lines: str) -> None:
    """Wait until a pod runs and has written so many lines that hold these texts."""

    async def written() -> bool:
        with contextlib.suppress(OSError, IndexError):
            found = (await here.log(name)).splitlines()
            return len(found) >= len(lines) and all(map(_contains, found, lines))
        return False

    await here.world.pod_phase(name, "Running")
    await here.world.until(written, f"{lines} from {name}")


def _contains(line: str, text: str) -> bool:
    return text in line


def test_a_claimed_gpu_is_the_only_one_that_a_container_sees(tmp_path: Path) -> None:
    async def story(here: Site, hardware: FakeHardware) -> None:
        await here.world.create(claim_template("t"))
        await here.world.create(shell("p", STAY, "t"))
        await here.world.create(
            shell(
                "free", "ls /dev | grep -c nvidia || nvidia-smi -L >/dev/null 2>&1 || echo no GPU"
            )
        )
        uuid = await here.told("p")
        await running(here, "p", "1", f"GPU {uuid}")
        assert uuid == hardware.known[0].uuid
        assert await here.finished("free") == "0\nno GPU\n"

    on_machine(tmp_path, story, count=8, has_nvswitch=True)


def test_three_partitions_at_once_and_a_whole_gpu_that_waits(tmp_path: Path) -> None:
    async def story(here: Site, hardware: FakeHardware) -> None:
        gpu = hardware.known[0].uuid
        wanted = {"small": "1g.18gb", "other": "1g.18gb", "large": "3g.71gb"}
        for name, wish in wanted.items():
            await here.world.create(claim_template(name, MIG_CLASS, profile(wish)))
            await here.world.create(shell(name, STAY, name))
        uuids = [await here.told(name) for name in wanted]
        for name, uuid in zip(wanted, uuids, strict=True):
            await running(here, name, "1", "MIG instance", f"MIG {uuid}", f"GPU {gpu}")
            assert (await here.log(name)).count("MIG-") == 1
        assert len(set(uuids)) == 3
        for name in wanted:
            start = int((await here.device_of(name)).rpartition("-")[2])
            assert start in {each.placement.start for each in hardware.made[gpu]}
        assert fake.profile_counts(hardware, gpu) == {19: 2, 9: 1}
        await here.world.create(claim_template("whole"))
        await here.world.create(shell("whole", STAY, "whole"))
        assert "gpu-0" in await here.world.unschedulable("whole")
        await here.remove(*wanted)
        await running(here, "whole", "1", f"GPU {gpu}")
        assert hardware.made[gpu] == []
        assert hardware.modes[gpu] is False

    on_machine(tmp_path, story)


def test_a_part_of_a_gpu_can_be_asked_for_by_its_size(tmp_path: Path) -> None:
    async def story(here: Site, hardware: FakeHardware) -> None:
        template = claim_template("t")
        template["spec"]["spec"]["devices"]["requests"] = [
            {
                "name": "gpu",
                "exactly": {"deviceClassName": "gpu.nvidia.com"},
                "partitionRequest": {"resources": {"memory": "30Gi"}},
            }
        ]
        await here.world.create(template)
        await here.world.create(shell("p", STAY, "t"))
        await running(here, "p", "1", "MIG instance")
        assert await here.device_of("p") == "gpu-0-mig-1g35gb-15-6"

    on_machine(tmp_path, story)


def test_a_gpu_that_somebody_uses_is_cut_when_they_have_gone(tmp_path: Path) -> None:
    async def story(here: Site, hardware: FakeHardware) -> None:
        hardware.users[hardware.known[0].uuid] = [4711]
        await here.world.create(claim_template("t", MIG_CLASS, profile("7g.141gb")))
        await here.world.create(shell("p", STAY, "t"))
        assert "used by process 4711" in await here.note("used by process")
        hardware.users.clear()
        await running(here, "p", "1", "MIG instance")

    on_machine(tmp_path, story)


def test_a_layout_made_by_hand_is_published_and_left_alone(tmp_path: Path) -> None:
    hardware = fake.hardware(tmp_path / "machine")
    gpu = hardware.known[0].uuid
    hardware.modes[gpu] = True
    for start in (0, 4):
        number = hardware.create_instance(gpu, 9, Placement(start, 4))
        hardware.create_compute(gpu, number)
    layout: list[Instance] = list(hardware.made[gpu])

    async def story(here: Site, hardware: FakeHardware) -> None:
        (published,) = await here.world.all(kinds.RESOURCE_SLICE)
        uuids = [device["attributes"]["uuid"]["string"] for device in published["spec"]["devices"]]
        assert uuids == fake.uuids(hardware, gpu)
        await here.world.create(claim_template("t", MIG_CLASS))
        await here.world.create(shell("p", STAY, "t"))
        await running(here, "p", "1", "MIG instance", f"MIG {uuids[0]}")
        await here.remove("p")
        assert hardware.made[gpu] == layout
        assert hardware.modes[gpu] is True

    on_hardware(hardware, story)


def test_eight_gpus_are_cut_from_the_last_and_given_whole_from_the_first(tmp_path: Path) -> None:
    async def story(here: Site, hardware: FakeHardware) -> None:
        await here.world.create(claim_template("cut", MIG_CLASS, profile("1g.18gb")))
        await here.world.create(claim_template("whole"))
        for name, template in (("a", "cut"), ("b", "whole"), ("c", "cut")):
            await here.world.create(shell(name, STAY, template))
            await here.world.pod_phase(name, "Running")
        assert await here.device_of("b") == "gpu-0"
        assert {(await here.device_of(name))[:5] for name in "ac"} == {"gpu-7"}

    on_machine(tmp_path, story, count=8, has_nvswitch=True)


def test_a_fault_taints_the_gpu_and_evicts_its_pod(tmp_path: Path) -> None:
    async def story(here: Site, hardware: FakeHardware) -> None:
        await here.world.create(claim_template("t"))
        await here.world.create(shell("p", STAY, "t"))
        await here.world.pod_phase("p", "Running")
        hardware.faults.append(GpuFault(hardware.known[0].uuid, 79))
        here.driver.changed()

        async def is_evicted() -> bool:
            found = [
                each for each in await here.world.all(kinds.POD) if each["metadata"]["name"] == "p"
            ]
            return not found or "deletionTimestamp" in found[0]["metadata"]

        await here.world.until(is_evicted, "the pod being evicted")
        slices = await here.world.all(kinds.RESOURCE_SLICE)
        taints = [
            taint
            for resource_slice in slices
            for device in resource_slice["spec"].get("devices", ())
            if device["name"] == "gpu-0"
            for taint in device.get("taints", ())
        ]
        assert [(each["key"], each["value"]) for each in taints] == [
            ("gpu.nvidia.com/unhealthy", "xid-79")
        ]

    on_machine(tmp_path, story, count=2, can_partition=False)


def test_wrong_parameters_are_named_and_nothing_is_changed(tmp_path: Path) -> None:
    async def story(here: Site, hardware: FakeHardware) -> None:
        parameters = {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "GpuConfig",
            "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Tiny"}},
        }
        config = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
        await here.world.create(claim_template("t", config=config))
        await here.world.create(shell("p", STAY, "t"))
        note = await here.note("timeSlicingConfig.interval")
        assert 'Unsupported value: "Tiny"' in note
        assert "set_partitioned" not in hardware.calls
        assert "set_exclusive" not in hardware.calls
        (claim,) = await here.world.all(kinds.RESOURCE_CLAIM)
        assert "devices" not in claim["status"]

    on_machine(tmp_path, story)


def test_claims_share_a_gpus_memory_and_are_told_that_nothing_limits_them(tmp_path: Path) -> None:
    async def story(here: Site, hardware: FakeHardware) -> None:
        template = claim_template("t")
        (wanted,) = template["spec"]["spec"]["devices"]["requests"]
        wanted["exactly"]["capacity"] = {"requests": {"memory": "60Gi"}}
        await here.world.create(template)
        for name in ("a", "b", "c"):
            await here.world.create(shell(name, STAY, "t"))
        gpu = hardware.known[0].uuid
        for name in ("a", "b"):
            await running(here, name, "1", f"GPU {gpu}")
        await here.world.unschedulable("c")
        note = await here.note("nothing limits programs")
        assert note.startswith(f"nothing limits programs to their 60Gi of {gpu}: ask for MPS")
        await here.remove("a")
        await running(here, "c", "1", f"GPU {gpu}")

    on_hardware(fake.hardware(tmp_path / "machine"), story, Settings(NODE, shares_memory=True))


def test_pods_may_come_and_go_all_at_once(tmp_path: Path) -> None:
    async def story(here: Site, hardware: FakeHardware) -> None:
        await here.world.create(claim_template("t", MIG_CLASS, profile("1g.18gb")))
        names = [f"p{number}" for number in range(7)]
        await asyncio.gather(*(here.world.create(shell(name, "sleep 0.1", "t")) for name in names))
        await asyncio.gather(*(here.finished(name) for name in names))

        async def is_whole() -> bool:
            gpu = hardware.known[0].uuid
            return not hardware.made[gpu] and not hardware.modes[gpu]

        await here.world.until(is_whole, "the GPU being whole again")

    on_machine(tmp_path, story)

"""A simulated machine as a driver: what containers get, and faults that annotations ask for."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.types.dra import DeviceRequestAllocationResult, ResourceClaim
from dray.api.types.meta import ObjectMeta
from dray.driverkit.driver import Allocated, Health, Released
from dray.drivers.simulated import faults
from dray.drivers.simulated import fleet as fleets
from dray.drivers.simulated.faults import Faults
from dray.drivers.simulated.plugin import GPU_FOLDER, NVIDIA, SimulatedPlugin

CLAIM: ResourceClaim = msgspec.convert({"metadata": {"uid": "u1", "name": "c"}}, ResourceClaim)


def plugin(folder: Path, fleet: str = "h100", driver: str = NVIDIA) -> SimulatedPlugin:
    machine = next(iter(fleets.load(fleet, nodes=1).machines.values()))
    return SimulatedPlugin(machine, driver, folder)


def allocated(driver: SimulatedPlugin, name: str) -> Allocated:
    device = {each.name: each for each in driver.devices()}[name]
    return Allocated(CLAIM, DeviceRequestAllocationResult(device=name), device)


def annotated(**annotations: str) -> ObjectMeta:
    return ObjectMeta(
        annotations={f"dray.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
    )


def shown(folder: Path, driver: SimulatedPlugin, devices: list[str], *arguments: str) -> str:
    """What the tool prints in a container that has these devices."""
    gpus = folder / "gpus"
    gpus.mkdir(exist_ok=True)
    script = (folder / "nvidia-smi").read_text("utf-8").replace(GPU_FOLDER, str(gpus))
    (folder / "tool").write_text(script, "utf-8")
    for name in devices:
        edits = asyncio.run(driver.prepare(allocated(driver, name)))
        (card,) = [mount for mount in edits.mounts if mount.container_path.startswith(GPU_FOLDER)]
        (gpus / Path(card.container_path).name).write_bytes(Path(card.host_path).read_bytes())
    ran = subprocess.run(
        ["sh", str(folder / "tool"), *arguments], capture_output=True, text=True, check=False
    )
    return ran.stdout


def attribute(driver: SimulatedPlugin, device: str, name: str) -> Any:
    return allocated(driver, device).attribute(name)


def test_variables_name_the_device(tmp_path: Path) -> None:
    driver = plugin(tmp_path)
    edits = asyncio.run(driver.prepare(allocated(driver, "gpu-3")))
    assert edits.env == {
        "NVIDIA_VISIBLE_DEVICES": "void",
        "GPU_DEVICE_GPU_3": attribute(driver, "gpu-3", "uuid"),
    }


def test_devices_of_other_vendors_get_no_nvidia_tool(tmp_path: Path) -> None:
    driver = plugin(tmp_path, "tpu-v5e", "tpu.google.com")
    edits = asyncio.run(driver.prepare(allocated(driver, "tpu-0")))
    assert edits.mounts == ()
    assert list(edits.env) == ["DEVICE_DEVICE_TPU_0"]


def test_unprepare_leaves_nothing(tmp_path: Path) -> None:
    driver = plugin(tmp_path)
    before = sorted(tmp_path.iterdir())
    asyncio.run(driver.prepare(allocated(driver, "gpu-3")))
    for _ in range(2):
        driver.unprepare(Released("default", "c", "u1", "h100-0", "gpu-3"))
    assert sorted(tmp_path.iterdir()) == before


def test_the_tool_lists_the_claimed_devices_in_their_order(tmp_path: Path) -> None:
    driver = plugin(tmp_path)
    lines = shown(tmp_path, driver, ["gpu-5", "gpu-2"], "-L").splitlines()
    ids = [attribute(driver, name, "uuid") for name in ("gpu-2", "gpu-5")]
    assert lines == [
        f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: {uuid})" for number, uuid in enumerate(ids)
    ]


def test_partitions_are_listed_under_their_gpu(tmp_path: Path) -> None:
    driver = plugin(tmp_path, "a100-mig")
    names = ["gpu-1-mig-1g10gb-19-0", "gpu-1-mig-3g40gb-9-4"]
    lines = shown(tmp_path, driver, names, "-L").splitlines()
    assert lines[0] == f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {attribute(driver, 'gpu-1', 'uuid')})"
    assert [line.split()[:2] for line in lines[1:]] == [["MIG", "1g.10gb"], ["MIG", "3g.40gb"]]


def test_the_tool_answers_queries(tmp_path: Path) -> None:
    driver = plugin(tmp_path)
    fields = "--query-gpu=index,uuid,name,memory.total,power.limit,compute_cap,nonsense"
    uuid = attribute(driver, "gpu-2", "uuid")
    text = shown(tmp_path, driver, ["gpu-2"], fields, "--format=csv")
    assert text.splitlines() == [
        "index, uuid, name, memory.total, power.limit, compute_cap, nonsense",
        f"0, {uuid}, NVIDIA H100 80GB HBM3, 81559 MiB, 700.00 W, 9.0, [N/A]",
    ]
    bare = shown(tmp_path, driver, [], "--query-gpu=memory.total", "--format=csv,noheader,nounits")
    assert bare == "81559\n"


def test_the_table_has_a_row_for_each_device(tmp_path: Path) -> None:
    text = shown(tmp_path, plugin(tmp_path), ["gpu-0", "gpu-7"])
    rows = [line for line in text.splitlines() if "H100" in line]
    assert len(rows) == 2
    assert "0MiB / 81559MiB" in rows[0]
    assert {len(line) for line in text.splitlines()[1:]} == {len(text.splitlines()[1])}


def test_without_devices_the_tool_says_so(tmp_path: Path) -> None:
    for arguments in ([], ["-L"], ["--query-gpu=uuid"]):
        assert shown(tmp_path, plugin(tmp_path), [], *arguments) == "No devices were found\n"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, Faults({}), id="none"),
        pytest.param(
            {"failed_devices": "gpu-0, gpu-1:NoSchedule,,"},
            Faults({"gpu-0": "NoExecute", "gpu-1": "NoSchedule"}),
            id="devices",
        ),
        pytest.param({"slow_prepare": "5"}, Faults({}, 5.0), id="seconds"),
        pytest.param({"slow_prepare": "1m500ms"}, Faults({}, 60.5), id="duration"),
        pytest.param({"slow_prepare": "soon"}, Faults({}), id="no duration"),
        pytest.param({"crash_on_prepare": "true"}, Faults({}, 0.0, True), id="crash"),
        pytest.param({"crash_on_prepare": "false"}, Faults({}), id="no crash"),
    ],
)
def test_annotations_ask_for_faults(annotations: dict[str, str], expected: Faults) -> None:
    assert faults.read(annotated(**annotations).annotations) == expected


def test_annotated_devices_are_unhealthy_until_the_annotation_goes(tmp_path: Path) -> None:
    driver = plugin(tmp_path)
    driver.node_changed(annotated(failed_devices="gpu-1:NoSchedule,nic-0"))
    driver.fail("gpu-2", "too hot")
    found = {each.device: each for each in driver.health()}
    assert {name: each.effect for name, each in found.items()} == {
        "gpu-1": "NoSchedule",
        "gpu-2": "NoExecute",
    }
    assert {each.health for each in found.values()} == {Health.UNHEALTHY}
    driver.node_changed(annotated())
    driver.recover("gpu-2")
    assert list(driver.health()) == []


def test_a_slow_driver_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    driver = plugin(tmp_path)
    driver.node_changed(annotated(slow_prepare="7"))
    asyncio.run(driver.prepare(allocated(driver, "gpu-0")))
    assert slept == [7.0]


def test_a_crash_ends_the_driver_and_answers_nobody(tmp_path: Path) -> None:
    driver = plugin(tmp_path)
    ended: list[str] = []
    driver.abort = lambda error: ended.append(str(error))
    driver.node_changed(annotated(crash_on_prepare="true"))

    async def test() -> None:
        async with asyncio.timeout(0.05):
            await driver.prepare(allocated(driver, "gpu-0"))

    with pytest.raises(TimeoutError):
        asyncio.run(test())
    assert ended == ["gpu.nvidia.com crashes while it prepares gpu-0"]

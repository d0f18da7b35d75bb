"""The example drivers do what their first lines say."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from examples.drivers import hello, shared_gpu

from dray import driverkit
from dray.api import features
from dray.api.types.dra import DeviceRequestAllocationResult, ResourceClaim
from dray.driverkit import pool_layout
from dray.driverkit.driver import Allocated, Driver
from dray.driverkit.pool_layout import PublishedPool
from dray.validation.dra import slices


def allocated(driver: Driver, device: str, **result: object) -> Allocated:
    found = {each.name: each for each in driver.devices()}[device]
    made = msgspec.convert({"device": device, **result}, DeviceRequestAllocationResult)
    return Allocated(ResourceClaim(), made, found)


@pytest.mark.parametrize("driver", [hello.Hello(), shared_gpu.SharedGpu()])
def test_an_example_publishes_valid_slices(driver: Driver) -> None:
    pool = PublishedPool(driver.name, "n1", tuple(driver.devices()), node_name="n1")
    for each in pool_layout.lay_out(pool):
        assert [str(error) for error in slices.resource_slice(each, features.DEFAULT)] == []


def test_the_first_example_is_thirty_lines() -> None:
    assert len(Path(hello.__file__).read_text("utf-8").splitlines()) <= 30


def test_a_share_says_how_much_memory_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_gpu, "FAULT", tmp_path / "fault")
    driver = shared_gpu.SharedGpu()
    share = allocated(driver, "gpu-0", consumedCapacity={"memory": "2Gi"}, shareID="s")
    prepared = driver.prepare(share)
    assert prepared.edits.env == {"GPU_MEMORY_LIMIT": "2Gi"}
    assert prepared.status == driverkit.DeviceStatus(data={"memory": "2Gi"})
    assert list(driver.health()) == []


def test_an_ill_device_is_reported_and_not_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_gpu, "FAULT", tmp_path / "fault")
    (tmp_path / "fault").write_text("too hot\n", "utf-8")
    driver = shared_gpu.SharedGpu()
    (report,) = driver.health()
    assert (report.health, report.message) == (driverkit.Health.UNHEALTHY, "too hot")
    with pytest.raises(driverkit.PrepareError, match="gpu-0 is ill: too hot"):
        driver.prepare(allocated(driver, "gpu-0"))

"""Claims prepared for pods: once, on disk first, given back after the last pod."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.types.containers import Container
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.node.devices import preparation
from dray.node.devices.claim_access import NotUsable
from dray.node.devices.drivers import ClaimReference, DriverDevice, DriverError
from dray.node.devices.preparation import Preparation

DRIVER = "gpu.example.com"


class FakeDriver:
    def __init__(self, name: str = DRIVER) -> None:
        self.name = name
        self.calls: list[str] = []
        self.fails = False

    async def prepare(self, claim: ClaimReference) -> tuple[DriverDevice, ...]:
        self.calls.append(f"prepare {claim.uid}")
        if self.fails:
            raise DriverError(f"driver {self.name}: no")
        return (
            DriverDevice(self.name, ("gpu",), "n1", "gpu-0", (f"{self.name}/claim={claim.uid}",)),
        )

    async def unprepare(self, claim: ClaimReference) -> None:
        self.calls.append(f"unprepare {claim.uid}")


class FakeDrivers:
    def __init__(self, *drivers: FakeDriver) -> None:
        self.by_name = {driver.name: driver for driver in drivers}

    def find(self, name: str) -> FakeDriver | None:
        return self.by_name.get(name)


class FakeClient:
    def __init__(self, *claims: JsonObject) -> None:
        self._claims = {each["metadata"]["name"]: each for each in claims}

    async def get(self, _kind: object, name: str, _namespace: str = "") -> JsonObject:
        return self._claims[name]


def claim(*pods: str, uid: str = "c", **result: Any) -> JsonObject:
    made = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0", **result}
    consumers = [{"resource": "pods", "name": each, "uid": each} for each in pods]
    return {
        "metadata": {"name": uid, "namespace": "default", "uid": uid},
        "status": {"allocation": {"devices": {"results": [made]}}, "reservedFor": consumers},
    }


def pod(uid: str, *claims: str) -> Pod:
    sources = [{"name": each, "resourceClaimName": each} for each in claims or ("c",)]
    document = {
        "metadata": {"name": uid, "namespace": "default", "uid": uid},
        "spec": {"resourceClaims": sources},
    }
    return msgspec.convert(document, Pod)


def prepared(folder: Path, driver: FakeDriver | None, *claims: JsonObject) -> Preparation:
    client: Any = FakeClient(*claims)
    drivers: Any = FakeDrivers(*([driver] if driver else []))
    return Preparation(client, drivers, folder)


def test_a_shared_claim_is_prepared_once_and_given_back_after_the_last_pod(tmp_path: Path) -> None:
    async def run() -> None:
        driver = FakeDriver()
        made = prepared(tmp_path, driver, claim("a", "b"))
        for uid in ("a", "b", "a"):
            await made.prepare(pod(uid))
        await made.unprepare("a")
        assert driver.calls == ["prepare c"]
        await made.unprepare("b")
        await made.unprepare("b")
        assert driver.calls == ["prepare c", "unprepare c"]
        assert made.records == []

    asyncio.run(run())


def test_a_claim_waits_until_the_older_one_of_the_same_name_is_given_back(tmp_path: Path) -> None:
    async def run() -> None:
        driver = FakeDriver()
        await prepared(tmp_path, driver, claim("a")).prepare(pod("a"))
        newer = claim("b")
        newer["metadata"]["uid"] = "d"
        # An agent that was restarted knows it too.
        made = prepared(tmp_path, driver, newer)
        expected = "old ResourceClaim with same name c and different UID c still exists"
        with pytest.raises(NotUsable, match=expected):
            await made.prepare(pod("b"))
        await made.unprepare("a")
        await made.prepare(pod("b"))
        assert driver.calls == ["prepare c", "unprepare c", "prepare d"]

    asyncio.run(run())


def test_a_claim_of_the_same_name_in_another_namespace_does_not_wait(tmp_path: Path) -> None:
    async def run() -> None:
        driver = FakeDriver()
        await prepared(tmp_path, driver, claim("a")).prepare(pod("a"))
        other = claim("b")
        other["metadata"] |= {"uid": "d", "namespace": "other"}
        await prepared(tmp_path, driver, other).prepare(pod("b"))
        assert driver.calls == ["prepare c", "prepare d"]

    asyncio.run(run())


def test_the_next_agent_gives_back_what_pods_left_that_are_gone(tmp_path: Path) -> None:
    async def run() -> None:
        await prepared(tmp_path, FakeDriver(), claim("a")).prepare(pod("a"))
        driver = FakeDriver()
        await prepared(tmp_path, driver).unprepare_all_but(["b"])
        assert driver.calls == ["unprepare c"]

    asyncio.run(run())


def test_a_claim_whose_preparation_failed_is_given_back_all_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        failing, later = FakeDriver(), FakeDriver()
        failing.fails = True
        with pytest.raises(DriverError):
            await prepared(tmp_path, failing, claim("a")).prepare(pod("a"))
        await prepared(tmp_path, later).unprepare_all_but([])
        assert later.calls == ["unprepare c"]

    asyncio.run(run())


def test_a_driver_that_was_never_called_need_not_unprepare(tmp_path: Path) -> None:
    async def run() -> None:
        made = prepared(tmp_path, None, claim("a"))
        expected = f"driver {DRIVER} is not registered on this node, and claim default/c needs it"
        with pytest.raises(DriverError, match=expected):
            await made.prepare(pod("a"))
        await made.unprepare("a")
        assert made.records == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("skipped", "calls"),
    [
        pytest.param(["NodePrepareResources"], ["unprepare c"], id="prepare"),
        pytest.param(["NodeUnprepareResources"], ["prepare c"], id="unprepare"),
        pytest.param(["*"], [], id="both"),
    ],
)
def test_operations_that_a_driver_does_not_need_are_skipped(
    tmp_path: Path, skipped: list[str], calls: list[str]
) -> None:
    async def run() -> None:
        driver = FakeDriver()
        made = prepared(tmp_path, driver, claim("a", skipNodeOperations=skipped))
        await made.prepare(pod("a"))
        await made.unprepare("a")
        assert driver.calls == calls

    asyncio.run(run())


def test_a_claim_that_is_reserved_for_another_pod_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        driver = FakeDriver()
        with pytest.raises(NotUsable, match=r"pod a \(a\) is not allowed to use ResourceClaim c"):
            await prepared(tmp_path, driver, claim("b")).prepare(pod("a"))
        assert driver.calls == []

    asyncio.run(run())


def test_a_truncated_checkpoint_is_set_aside_and_the_one_before_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        claims = [claim("a", uid="c"), claim("a", uid="d")]
        made = prepared(tmp_path, FakeDriver(), *claims)
        await made.prepare(pod("a", "c"))
        await made.prepare(pod("a", "d"))
        path = tmp_path / "claims.json"
        path.write_bytes(path.read_bytes()[:40])
        with caplog.at_level(logging.ERROR):
            found = prepared(tmp_path, FakeDriver(), *claims)
        assert {each.uid for each in found.records} == {"c", "d"}
        assert "claims.json cannot be read" in caplog.text
        assert (tmp_path / "claims.json.broken").exists()

    asyncio.run(run())


def test_many_at_once_are_all_on_disk_when_they_are_prepared(tmp_path: Path) -> None:
    async def run() -> None:
        names = [f"c{number}" for number in range(30)]
        driver = FakeDriver()
        made = prepared(tmp_path, driver, *(claim("a", uid=name) for name in names))
        await asyncio.gather(*(made.prepare(pod("a", name)) for name in names))
        found = prepared(tmp_path, driver)
        assert sorted(each.uid for each in found.records) == sorted(names)
        assert all(each.is_prepared for each in found.records)

    asyncio.run(run())


def test_a_container_gets_the_devices_of_the_claims_and_requests_it_names() -> None:
    devices = (
        DriverDevice(DRIVER, ("a",), "n1", "gpu-0", ("v/c=0",)),
        DriverDevice(DRIVER, ("b",), "n1", "gpu-1", ("v/c=1", "v/m=1")),
    )
    held = {"gpus": preparation.ClaimRecord("ns", "c", "u", (), ("p",), devices, True)}

    def ids(*claims: JsonObject) -> list[str]:
        document = {"name": "main", "resources": {"claims": claims}}
        return preparation.cdi_ids(pod("p"), msgspec.convert(document, Container), held)

    assert ids() == []
    assert ids({"name": "other"}) == []
    assert ids({"name": "gpus"}) == ["v/c=0", "v/c=1", "v/m=1"]
    assert ids({"name": "gpus", "request": "b"}) == ["v/c=1", "v/m=1"]

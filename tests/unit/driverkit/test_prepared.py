"""Prepared claims: the same answer twice, nothing half done, no device for two."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray import driverkit
from dray.api.claims import ResourceClaim
from dray.api.slices import Device
from dray.driverkit import cdi
from dray.driverkit.prepared import PreparedClaims, PreparedDevice


class Recorded(driverkit.Driver):
    """Notes its calls; fails on demand."""

    name = "gpu.example.com"

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.configs: list[Any] = []
        self.fails_on = ""
        self.dies_on = ""

    def devices(self) -> Iterable[Device]:
        return [driverkit.device(f"gpu-{number}", uuid=f"GPU-{number}") for number in range(4)]

    async def prepare(self, allocated: driverkit.Allocated) -> driverkit.Edits:
        self.calls.append(f"prepare {allocated.name}")
        self.configs += allocated.config
        if allocated.name == self.dies_on:
            raise KeyboardInterrupt
        if allocated.name == self.fails_on:
            raise driverkit.PrepareError(f"{allocated.name} has fallen off the bus")
        return driverkit.Edits(env={f"UUID_{allocated.name[-1]}": allocated.attribute("uuid")})

    def unprepare(self, released: driverkit.Released) -> None:
        self.calls.append(f"unprepare {released.name}")


def claim(
    uid: str, *devices: str, request: str = "gpu", annotations: Any = None, **status: Any
) -> ResourceClaim:
    results = [
        {"request": request, "driver": Recorded.name, "pool": "n1", "device": name, **status}
        for name in devices
    ]
    foreign = {"request": "nic", "driver": "nic.example.com", "pool": "n1", "device": "nic-0"}
    opaque = {"driver": Recorded.name, "parameters": {"mode": "fast"}}
    config = [
        {"source": "FromClass", "opaque": opaque},
        {"source": "FromClaim", "requests": ["other"], "opaque": opaque},
        {"source": "FromClaim", "opaque": {"driver": "nic.example.com", "parameters": {}}},
    ]
    return msgspec.convert(
        {
            "metadata": {
                "name": f"claim-{uid}",
                "namespace": "default",
                "uid": uid,
                "annotations": annotations or {},
            },
            "status": {
                "allocation": {"devices": {"results": [*results, foreign], "config": config}}
            },
        },
        ResourceClaim,
    )


class Node:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.driver = Recorded()
        self.claims = self.restarted()

    def restarted(self) -> PreparedClaims:
        return PreparedClaims(self.driver, self.directory / "data", self.directory / "cdi")

    def prepare(self, wanted: ResourceClaim) -> tuple[PreparedDevice, ...]:
        return asyncio.run(self.claims.prepare(wanted))

    def unprepare(self, uid: str) -> None:
        asyncio.run(self.claims.unprepare(uid))

    def edits(self, devices: Iterable[PreparedDevice]) -> cdi.Edits:
        ids = [name for device in devices for name in device.cdi_ids]
        return cdi.resolve(ids, [self.directory / "cdi"])

    def files(self) -> list[str]:
        found = [each for each in self.directory.rglob("*") if each.is_file()]
        return sorted(each.name for each in found if "prepared-claims" not in each.name)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_each_device_gets_its_own_edits(node: Node) -> None:
    devices = node.prepare(claim("a", "gpu-0", "gpu-2"))
    assert [device.device for device in devices] == ["gpu-0", "gpu-2"]
    assert node.edits(devices).env == {"UUID_0": "GPU-0", "UUID_2": "GPU-2"}
    assert node.edits(devices[:1]).env == {"UUID_0": "GPU-0"}


def test_preparing_twice_asks_the_driver_once(node: Node) -> None:
    assert node.prepare(claim("a", "gpu-0")) == node.prepare(claim("a", "gpu-0"))
    assert node.driver.calls == ["prepare gpu-0"]


def test_a_restarted_driver_remembers(node: Node) -> None:
    before = node.prepare(claim("a", "gpu-0"))
    node.claims = node.restarted()
    assert node.prepare(claim("a", "gpu-0")) == before
    assert node.driver.calls == ["prepare gpu-0"]


def test_unprepare_leaves_no_file_and_may_be_repeated(node: Node) -> None:
    node.prepare(claim("a", "gpu-0"))
    node.unprepare("a")
    node.unprepare("a")
    assert node.driver.calls == ["prepare gpu-0", "unprepare gpu-0"]
    assert node.files() == []


def test_a_failure_undoes_what_was_done(node: Node) -> None:
    node.driver.fails_on = "gpu-1"
    with pytest.raises(driverkit.PrepareError, match="gpu-1 has fallen off the bus"):
        node.prepare(claim("a", "gpu-0", "gpu-1"))
    assert node.driver.calls[2:] == ["unprepare gpu-0", "unprepare gpu-1"]
    assert node.files() == []
    assert list(node.claims) == []


def test_what_was_half_done_at_a_crash_is_undone_before_the_next_try(node: Node) -> None:
    node.driver.dies_on = "gpu-1"
    with pytest.raises(KeyboardInterrupt):
        node.prepare(claim("a", "gpu-0", "gpu-1"))
    node.driver.dies_on = ""
    node.driver.calls.clear()
    node.claims = node.restarted()
    node.prepare(claim("a", "gpu-0", "gpu-1"))
    assert node.driver.calls == [
        "unprepare gpu-0",
        "unprepare gpu-1",
        "prepare gpu-0",
        "prepare gpu-1",
    ]


def test_what_was_half_done_at_a_crash_can_be_unprepared(node: Node) -> None:
    node.driver.dies_on = "gpu-0"
    with pytest.raises(KeyboardInterrupt):
        node.prepare(claim("a", "gpu-0"))
    node.claims = node.restarted()
    node.unprepare("a")
    assert node.driver.calls[-1] == "unprepare gpu-0"
    assert list(node.claims) == []


def test_an_exclusive_device_is_refused_to_a_second_claim(node: Node) -> None:
    node.prepare(claim("a", "gpu-0"))
    with pytest.raises(
        driverkit.PrepareError, match=r"gpu-0 is still prepared for claim default/claim-a \(a\)"
    ):
        node.prepare(claim("b", "gpu-0"))
    assert node.driver.calls == ["prepare gpu-0"]


@pytest.mark.parametrize(
    "second", [{"adminAccess": True}, {"shareID": "4f3b2a1c-0000-4000-8000-000000000001"}]
)
def test_shares_and_admins_may_have_a_device_together(node: Node, second: Any) -> None:
    node.prepare(claim("a", "gpu-0", shareID="4f3b2a1c-0000-4000-8000-000000000002"))
    (device,) = node.prepare(claim("b", "gpu-0", **second))
    assert node.edits([device]).env == {"UUID_0": "GPU-0"}


def test_a_device_that_is_gone_is_named(node: Node) -> None:
    with pytest.raises(driverkit.PrepareError, match="there is no device gpu-9 any more"):
        node.prepare(claim("a", "gpu-9"))


def test_a_claim_without_an_allocation_is_refused(node: Node) -> None:
    with pytest.raises(driverkit.PrepareError, match="is not allocated"):
        node.prepare(ResourceClaim())


def test_the_driver_gets_its_own_parameters_only(node: Node) -> None:
    node.prepare(claim("a", "gpu-0"))
    assert node.driver.configs == [{"mode": "fast"}]


def test_request_names_lose_the_alternative(node: Node) -> None:
    (device,) = node.prepare(claim("a", "gpu-0", request="gpu/large"))
    assert device.requests == ("gpu",)


@pytest.mark.parametrize(
    ("annotations", "path"),
    [
        pytest.param({}, "resourceclaims/claim-a", id="named-claim"),
        pytest.param(
            {"resource.kubernetes.io/pod-claim-name": "mine"},
            "resourceclaimtemplates/mine",
            id="from-template",
        ),
    ],
)
def test_metadata_is_mounted_once_for_each_request(
    node: Node, annotations: dict[str, str], path: str
) -> None:
    devices = node.prepare(
        claim("a", "gpu-0", "gpu-1", request="gpu/large", annotations=annotations)
    )
    (mount,) = node.edits(devices).mounts
    root = "/var/run/kubernetes.io/dra-device-attributes"
    assert mount.container_path == f"{root}/{path}/gpu/gpu.example.com-metadata.json"
    assert mount.options == ("ro", "bind")
    text = Path(mount.host_path).read_text("utf-8")
    decoder, versions = json.JSONDecoder(), []
    while text.strip():
        document, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        versions.append(document["apiVersion"].rpartition("/")[2])
        assert document.get("podClaimName") == annotations.get(
            "resource.kubernetes.io/pod-claim-name"
        )
        (request,) = document["requests"]
        assert request["name"] == "gpu/large"
        assert [each["attributes"]["uuid"]["string"] for each in request["devices"]] == [
            "GPU-0",
            "GPU-1",
        ]
    assert versions == ["v1beta1", "v1alpha1"]

"""Prepared claims: the same answer twice, nothing half done, no device for two."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray import driverkit, durable_files
from dray.api.types.dra import Device, ResourceClaim
from dray.driverkit import cdi
from dray.driverkit.prepared_claims import PreparedClaims, PreparedDevice

DATA = driverkit.DeviceStatus(data=object())


class Recorded(driverkit.Driver):
    """Notes its calls; fails on demand."""

    name = "gpu.example.com"

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.configs: list[Any] = []
        self.fails_on = ""
        self.dies_on = ""
        self.keeps = ""
        self.raises: Exception | None = None
        self.returns: Any = None

    def devices(self) -> Iterable[Device]:
        return [driverkit.device(f"gpu-{number}", uuid=f"GPU-{number}") for number in range(4)]

    async def prepare(self, allocated: driverkit.Allocated) -> Any:
        self.calls.append(f"prepare {allocated.name}")
        self.configs += allocated.config
        if self.raises is not None:
            raise self.raises
        if self.returns is not None:
            return self.returns
        if allocated.name == self.dies_on:
            raise KeyboardInterrupt
        if allocated.name == self.fails_on:
            raise driverkit.PrepareError(f"{allocated.name} has fallen off the bus")
        return driverkit.Edits(env={f"UUID_{allocated.name[-1]}": allocated.attribute("uuid")})

    def unprepare(self, released: driverkit.Released) -> None:
        self.calls.append(f"unprepare {released.name}")
        if released.name == self.keeps:
            raise driverkit.PrepareError(f"{released.name} does not let go")


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
        assert [device["attributes"]["uuid"]["string"] for device in request["devices"]] == [
            "GPU-0",
            "GPU-1",
        ]
    assert versions == ["v1beta1", "v1alpha1"]


def test_a_claim_may_have_the_longest_name(node: Node) -> None:
    long = claim("a", "gpu-0")
    metadata = msgspec.structs.replace(long.metadata, namespace="n" * 63, name="c" * 253)
    devices = node.prepare(msgspec.structs.replace(long, metadata=metadata))
    (mount,) = node.edits(devices).mounts
    assert Path(mount.host_path).exists()
    asyncio.run(node.claims.unprepare("a"))
    assert not Path(mount.host_path).exists()


def test_two_processes_of_a_driver_keep_one_state(node: Node) -> None:
    older, newer = node.claims, node.restarted()
    asyncio.run(older.prepare(claim("a", "gpu-0")))
    asyncio.run(newer.prepare(claim("b", "gpu-1")))
    with pytest.raises(driverkit.PrepareError, match="still prepared for claim default/claim-b"):
        asyncio.run(older.prepare(claim("c", "gpu-1")))
    asyncio.run(newer.unprepare("a"))
    assert node.driver.calls[-1] == "unprepare gpu-0"
    assert [each.uid for each in node.restarted()] == ["b"]


def test_what_a_driver_raises_is_told_with_its_kind(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.driver.raises = ZeroDivisionError("by zero")
    text = "gpu.example.com cannot prepare gpu-0: ZeroDivisionError: by zero"
    with pytest.raises(driverkit.PrepareError, match=text):
        node.prepare(claim("a", "gpu-0"))
    assert "Traceback" in caplog.text
    assert node.files() == []


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        pytest.param({"env": {}}, "not Edits or Prepared", id="a dict"),
        pytest.param(driverkit.Prepared(cdi.Edits(), DATA), "unsupported", id="no JSON"),
    ],
)
def test_what_cannot_be_written_down_is_refused(node: Node, returned: Any, words: str) -> None:
    node.driver.returns = returned
    with pytest.raises(driverkit.PrepareError, match=words):
        node.prepare(claim("a", "gpu-0"))
    node.driver.returns = None
    node.prepare(claim("a", "gpu-0"))
    with pytest.raises(TypeError, match="unsupported"):
        asyncio.run(node.claims.report("a", "gpu-0", DATA))
    node.unprepare("a")
    assert node.files() == []


def test_what_cannot_be_undone_is_undone_before_the_next_try(node: Node) -> None:
    node.driver.fails_on, node.driver.keeps = "gpu-0", "gpu-0"
    with pytest.raises(driverkit.PrepareError, match="off the bus; and it could not be undone"):
        node.prepare(claim("a", "gpu-0"))
    node.driver.fails_on = node.driver.keeps = ""
    node.driver.calls.clear()
    node.claims = node.restarted()
    node.prepare(claim("a", "gpu-0"))
    assert node.driver.calls == ["unprepare gpu-0", "prepare gpu-0"]


@pytest.mark.parametrize("operation", ["prepare", "unprepare"])
@pytest.mark.parametrize("number", range(4))
def test_a_full_disk_fails_one_call_and_loses_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch, operation: str, number: int
) -> None:
    """Whichever write fails: the next call finds what is there and finishes it."""
    if operation == "unprepare":
        node.prepare(claim("a", "gpu-0"))
    written = []
    really_replace = durable_files.replace_file

    def replace(*arguments: Any, **options: Any) -> None:
        written.append(arguments[0])
        if len(written) == number + 1:
            raise OSError(28, "No space left on device")
        really_replace(*arguments, **options)

    with (
        monkeypatch.context() as patched,
        contextlib.suppress(driverkit.PrepareError, OSError),
    ):
        patched.setattr(durable_files, "replace_file", replace)
        if operation == "prepare":
            node.prepare(claim("a", "gpu-0"))
        else:
            node.unprepare("a")
    assert node.edits(node.prepare(claim("a", "gpu-0"))).env == {"UUID_0": "GPU-0"}
    node.unprepare("a")
    assert node.files() == []
    assert list(node.restarted()) == []


def test_devices_of_one_name_in_several_pools_are_told_apart(node: Node) -> None:
    far = next(iter(node.driver.devices()))
    node.driver.devices_elsewhere = lambda: {"rack": (far,), "row/two": (far,)}  # type: ignore[method-assign]
    near = claim("a", "gpu-0")
    assert near.status.allocation is not None
    found = near.status.allocation.devices
    others = [msgspec.structs.replace(found.results[0], pool=pool) for pool in ("rack", "row/two")]
    both = msgspec.structs.replace(found, results=(*found.results, *others))
    allocation = msgspec.structs.replace(near.status.allocation, devices=both)
    status = msgspec.structs.replace(near.status, allocation=allocation)
    devices = node.prepare(msgspec.structs.replace(near, status=status))
    assert [device.pool for device in devices] == ["n1", "rack", "row/two"]
    assert len({device.cdi_ids[0] for device in devices}) == 3
    assert node.edits(devices).env == {"UUID_0": "GPU-0"}

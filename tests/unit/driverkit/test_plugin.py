"""A whole driver on its sockets, called as a kubelet calls it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from examples.drivers.hello import Hello

from dray import devicemetadata, driverkit
from dray.api import features
from dray.api.types.dra import Device, NetworkDeviceData
from dray.api.types.meta import JsonObject, ObjectMeta
from dray.clock import utc_now
from dray.driverkit import cdi
from dray.driverkit import plugin as driver_plugin
from dray.driverkit.driver import DeviceHealth, DeviceStatus, Health, condition
from dray.driverkit.plugin import Directories, Plugin
from dray.protocol import services
from dray.protocol.services import Caller, Service
from tests.unit.controllers import world
from tests.unit.controllers.world import World

NAME = Hello.name


class Fragile(Hello):
    """Can be told that a device is broken."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: tuple[str, ...] = ()
        self.fault: Exception | None = None
        self.status: DeviceStatus | None = None
        self.nodes: list[ObjectMeta] = []

    def node_changed(self, node: ObjectMeta) -> None:
        self.nodes.append(node)

    def prepare(self, allocated: driverkit.Allocated) -> Any:
        if self.fault is not None:
            raise self.fault
        return driverkit.Prepared(super().prepare(allocated), self.status)

    def health(self) -> Iterable[DeviceHealth]:
        return [DeviceHealth(name, Health.UNHEALTHY, "on fire") for name in self.broken]

    def devices(self) -> Iterable[Device]:
        if self.fault is not None:
            raise self.fault
        return super().devices()


@dataclass
class Kubelet:
    """What a kubelet sees of a node's drivers."""

    here: World
    driver: Fragile
    plugin: Plugin
    directories: Directories

    @contextlib.asynccontextmanager
    async def caller(self, service: Service, path: Path) -> AsyncIterator[Caller]:
        async with grpc.aio.insecure_channel(services.address(path)) as channel:
            yield Caller(channel, service)

    @property
    def registration_socket(self) -> Path:
        return self.directories.registry / f"{NAME}-reg.sock"

    @property
    def plugin_socket(self) -> Path:
        return self.directories.plugins / NAME / "dra.sock"

    async def claim(self, name: str, device: str) -> JsonObject:
        request = {"name": "hi", "exactly": {"deviceClassName": NAME}}
        await self.here.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name},
                "spec": {"devices": {"requests": [request]}},
            }
        )
        result = {"request": "hi", "driver": NAME, "pool": "n1", "device": device}
        status = {"allocation": {"devices": {"results": [result]}}}
        return await self.here.set_status("resourceclaims", name, status)

    async def call(self, service: Service, method: str, *claims: JsonObject) -> Any:
        """Prepare or unprepare; the answers by the names of the claims."""
        async with self.caller(service, self.plugin_socket) as caller:
            request = service.methods[method].request(
                claims=[
                    caller.messages.Claim(namespace="default", uid=uid(claim), name=name(claim))
                    for claim in claims
                ]
            )
            response = await caller.call(method, request)
        return {name(claim): response.claims[uid(claim)] for claim in claims}


def uid(document: JsonObject) -> str:
    return str(document["metadata"]["uid"])


def name(document: JsonObject) -> str:
    return str(document["metadata"]["name"])


def with_driver(test: Callable[[Kubelet], Awaitable[None]]) -> None:
    async def run(directory: Path) -> None:
        directories = Directories(directory / "registry", directory / "plugins", directory / "cdi")
        async with world.world([], features.DEFAULT, None) as here:
            await here.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
            driver = Fragile()
            plugin = Plugin(driver, here.client, "n1", directories=directories)
            async with asyncio.TaskGroup() as group:
                task = group.create_task(plugin.run())
                await here.until_true(lambda: plugin.is_published)
                await test(Kubelet(here, driver, plugin, directories))
                task.cancel()

    # Paths of sockets must be short, which pytest's own folders are not.
    with tempfile.TemporaryDirectory(prefix="dray-") as directory:
        asyncio.run(run(Path(directory)))


def test_it_says_that_no_agent_knows_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_plugin, "REGISTRATION_SECONDS", 0.0)

    async def test(kubelet: Kubelet) -> None:
        said = f"no node agent has registered {NAME} yet"
        await kubelet.here.until_true(
            lambda: any(message.startswith(said) for message in caplog.messages)
        )

    with_driver(test)


def test_it_publishes_its_devices_as_the_nodes_own() -> None:
    async def test(kubelet: Kubelet) -> None:
        (found,) = await kubelet.here.list("resourceslices")
        assert [device["name"] for device in found["spec"]["devices"]] == ["hello-0", "hello-1"]
        assert found["spec"]["nodeName"] == "n1"
        assert found["metadata"]["ownerReferences"][0]["kind"] == "Node"

    with_driver(test)


def test_it_registers_with_every_version_it_serves(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "dray.driverkit")

    async def test(kubelet: Kubelet) -> None:
        path = kubelet.registration_socket
        async with kubelet.caller(services.REGISTRATION, path) as caller:
            info = await caller.call("GetInfo", caller.messages.InfoRequest())
            assert (info.type, info.name) == ("DRAPlugin", NAME)
            assert info.endpoint == str(kubelet.plugin_socket)
            assert list(info.supported_versions) == [
                "v1.DRAPlugin",
                "v1beta1.DRAPlugin",
                "v1.DRAResourceHealth",
                "v1alpha1.DRAResourceHealth",
            ]
            status = caller.messages.RegistrationStatus(plugin_registered=True)
            await caller.call("NotifyRegistrationStatus", status)
        assert kubelet.plugin.server.registered.is_set()

    with_driver(test)
    said = f"{NAME} is registered by the node agent that watches "
    assert any(message.startswith(said) for message in caplog.messages)


@pytest.mark.parametrize("service", [services.DRA_V1, services.DRA_V1BETA1])
def test_a_claim_is_prepared_and_unprepared(service: Service) -> None:
    async def test(kubelet: Kubelet) -> None:
        claim = await kubelet.claim("one", "hello-1")
        for _ in range(2):
            answer = (await kubelet.call(service, "NodePrepareResources", claim))["one"]
            assert answer.error == ""
            (device,) = answer.devices
            assert (device.pool_name, device.device_name) == ("n1", "hello-1")
            assert list(device.request_names) == ["hi"]
            edits = cdi.resolve(device.cdi_device_ids, [kubelet.directories.cdi])
            assert edits.env == {"GREETING": "ahoy from hello-1"}
        for _ in range(2):
            answer = (await kubelet.call(service, "NodeUnprepareResources", claim))["one"]
            assert answer.error == ""
        assert list(kubelet.directories.cdi.iterdir()) == []

    with_driver(test)


def test_one_claim_that_fails_does_not_fail_the_others() -> None:
    async def test(kubelet: Kubelet) -> None:
        good = await kubelet.claim("good", "hello-0")
        bad = await kubelet.claim("bad", "hello-7")
        gone = {"metadata": {"name": "gone", "uid": "no-such-uid"}}
        stale = {"metadata": {"name": "good", "uid": "another-uid"}}
        prepare = "NodePrepareResources"
        answers = await kubelet.call(services.DRA_V1, prepare, good, bad, gone)
        assert [device.device_name for device in answers["good"].devices] == ["hello-0"]
        assert "there is no device hello-7 any more" in answers["bad"].error
        assert "not found" in answers["gone"].error
        answers = await kubelet.call(services.DRA_V1, prepare, stale)
        assert answers["good"].error == "claim default/good was replaced by another"

    with_driver(test)


@pytest.mark.parametrize("service", [services.HEALTH_V1, services.HEALTH_V1ALPHA1])
def test_health_is_told_and_an_unhealthy_device_is_tainted(service: Service) -> None:
    async def test(kubelet: Kubelet) -> None:
        async with kubelet.caller(service, kubelet.plugin_socket) as caller:
            stream = caller.stream(
                "NodeWatchResources", caller.messages.NodeWatchResourcesRequest()
            )
            first = await stream.read()
            assert {device.device.device_name: device.health for device in first.devices} == {
                "hello-0": 1,
                "hello-1": 1,
            }
            kubelet.driver.broken = ("hello-1",)
            kubelet.driver.changed()
            second = await stream.read()
            found = {device.device.device_name: device for device in second.devices}
            assert (found["hello-1"].health, found["hello-1"].message) == (2, "on fire")
            stream.cancel()

        async def tainted() -> bool:
            (found,) = await kubelet.here.list("resourceslices")
            taints = [device.get("taints") for device in found["spec"]["devices"]]
            return taints[0] is None and bool(taints[1]) and taints[1][0]["effect"] == "NoExecute"

        await kubelet.here.until(tainted)

    with_driver(test)


def test_a_taint_keeps_its_time_when_the_driver_is_restarted() -> None:
    async def test(kubelet: Kubelet) -> None:
        async def taints() -> list[JsonObject]:
            (published,) = await kubelet.here.list("resourceslices")
            return [
                taint
                for device in published["spec"]["devices"]
                for taint in device.get("taints", ())
            ]

        async def is_tainted() -> bool:
            return len(await taints()) == 1

        async def is_clean() -> bool:
            return not await taints()

        kubelet.driver.broken = ("hello-1",)
        kubelet.driver.changed()
        await kubelet.here.until(is_tainted)
        (before,) = await taints()
        restarted = Fragile()
        restarted.broken = ("hello-1",)
        later = utc_now() + datetime.timedelta(hours=1)
        plugin = Plugin(
            restarted,
            kubelet.here.client,
            "n1",
            directories=kubelet.directories,
            instance="restarted",
            now=lambda: later,
        )
        task = asyncio.ensure_future(plugin.run())
        await kubelet.here.until_true(lambda: plugin.is_published)
        assert await taints() == [before]
        # The device recovers and fails again: that is a new taint.
        restarted.broken = ()
        restarted.changed()
        await kubelet.here.until(is_clean)
        restarted.broken = ("hello-1",)
        restarted.changed()
        await kubelet.here.until(is_tainted)
        (after,) = await taints()
        assert after["timeAdded"] > before["timeAdded"]
        task.cancel()
        await asyncio.wait({task})

    with_driver(test)


def test_a_registry_that_was_emptied_is_filled_again() -> None:
    async def test(kubelet: Kubelet) -> None:
        for path in (kubelet.registration_socket, kubelet.plugin_socket):
            path.unlink()
        path = kubelet.registration_socket
        await kubelet.here.until_true(path.exists)
        async with kubelet.caller(services.REGISTRATION, path) as caller:
            info = await caller.call("GetInfo", caller.messages.InfoRequest())
        assert info.name == NAME
        await kubelet.here.until_true(kubelet.plugin_socket.exists)
        claim = await kubelet.claim("one", "hello-1")
        answer = await kubelet.call(services.DRA_V1, "NodePrepareResources", claim)
        assert answer["one"].error == ""

    with_driver(test)


def test_a_fault_of_the_driver_concerns_one_claim_and_ends_nothing() -> None:
    async def test(kubelet: Kubelet) -> None:
        claim = await kubelet.claim("one", "hello-0")
        gone = {"metadata": {"name": "gone", "uid": "no-such-uid"}}
        kubelet.driver.fault = ZeroDivisionError("by zero")
        kubelet.driver.changed()
        answers = await kubelet.call(services.DRA_V1, "NodePrepareResources", claim, gone)
        assert "by zero" in answers["one"].error
        assert "not found" in answers["gone"].error
        kubelet.driver.fault = None
        answers = await kubelet.call(services.DRA_V1, "NodePrepareResources", claim)
        assert answers["one"].error == ""
        (found,) = await kubelet.here.list("resourceslices")
        assert len(found["spec"]["devices"]) == 2

    with_driver(test)


def test_what_a_driver_says_of_a_device_is_in_the_status_of_its_claim() -> None:
    async def test(kubelet: Kubelet) -> None:
        network = NetworkDeviceData("eth1", ("10.0.0.9/24",), "02:00:00:00:00:01")
        kubelet.driver.status = DeviceStatus((condition("Ready", True, "Up"),), {"vlan": 7})
        claim = await kubelet.claim("one", "hello-0")
        await kubelet.call(services.DRA_V1, "NodePrepareResources", claim)

        async def reported() -> Any:
            found = await kubelet.here.get("resourceclaims", "one")
            return found["status"].get("devices")

        async def says(field: str) -> bool:
            return any(field in each for each in await reported() or ())

        await kubelet.here.until(lambda: says("data"))
        (first,) = await reported()
        assert (first["driver"], first["pool"], first["device"]) == (NAME, "n1", "hello-0")
        assert first["data"] == {"vlan": 7}
        (ready,) = first["conditions"]
        assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "Up")
        later = DeviceStatus((condition("Ready", True, "StillUp"),), None, network)
        kubelet.driver.report(uid(claim), "hello-0", later)
        await kubelet.here.until(lambda: says("networkData"))
        (second,) = await reported()
        assert second["networkData"]["ips"] == ["10.0.0.9/24"]
        assert "data" not in second
        since = [each["conditions"][0]["lastTransitionTime"] for each in (first, second)]
        assert since[0] == since[1]
        folder = kubelet.directories.plugins / NAME / "dra-device-metadata" / "default_one"
        told = devicemetadata.read((folder / "hi" / "metadata.json").read_text("utf-8"))
        assert told.generation == 2
        assert told.devices[0].network == devicemetadata.Network(
            "eth1", ("10.0.0.9/24",), "02:00:00:00:00:01"
        )

    with_driver(test)


def test_the_driver_is_told_of_its_node() -> None:
    async def test(kubelet: Kubelet) -> None:
        await kubelet.here.patch("nodes", "n1", {"metadata": {"annotations": {"mode": "fast"}}})
        nodes = kubelet.driver.nodes
        await kubelet.here.until_true(lambda: nodes[-1].annotations.get("mode") == "fast")

    with_driver(test)


def test_of_two_versions_the_younger_publishes_until_it_ends() -> None:
    class Newer(Fragile):
        def devices(self) -> Iterable[Device]:
            return [*super().devices(), driverkit.device("hello-2")]

    async def test(kubelet: Kubelet) -> None:
        async def count() -> tuple[int, int]:
            (found,) = await kubelet.here.list("resourceslices")
            return len(found["spec"]["devices"]), found["metadata"]["generation"]

        async def has(number: int) -> bool:
            return (await count())[0] == number

        places = kubelet.directories
        newer = Plugin(Newer(), kubelet.here.client, "n1", directories=places, instance="new")
        task = asyncio.ensure_future(newer.run())
        await kubelet.here.until(lambda: has(3))
        _, generation = await count()
        kubelet.driver.changed()
        await kubelet.here.until_true(lambda: kubelet.plugin.is_published)
        assert await count() == (3, generation)
        task.cancel()
        await asyncio.wait({task})
        kubelet.driver.changed()
        await kubelet.here.until(lambda: has(2))

    with_driver(test)


def test_a_driver_that_cannot_speak_yet_leaves_what_is_published_alone() -> None:
    async def test(kubelet: Kubelet) -> None:
        mute = Fragile()
        mute.fault = OSError("no such bus")
        places = kubelet.directories
        plugin = Plugin(mute, kubelet.here.client, "n1", directories=places, instance="mute")
        task = asyncio.ensure_future(plugin.run())
        await kubelet.here.until_true(lambda: bool(mute.nodes))
        patch = {"metadata": {"annotations": {"touched": "yes"}}}
        (found,) = await kubelet.here.list("resourceslices")
        await kubelet.here.patch("resourceslices", name(found), patch)
        await kubelet.here.patch("nodes", "n1", patch)
        await kubelet.here.until_true(lambda: len(mute.nodes) == 2)
        assert len(await kubelet.here.list("resourceslices")) == 1
        mute.fault = None
        mute.changed()
        await kubelet.here.until_true(lambda: plugin.is_published)
        task.cancel()
        await asyncio.wait({task})

    with_driver(test)


def test_slices_follow_a_node_that_was_made_anew() -> None:
    async def test(kubelet: Kubelet) -> None:
        await kubelet.here.delete("nodes", "n1")
        await kubelet.here.until_true(lambda: not kubelet.plugin.is_published)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        wanted = uid(await kubelet.here.create(node))

        async def owned() -> bool:
            found = await kubelet.here.list("resourceslices")
            owners = [
                owner["uid"] for each in found for owner in each["metadata"]["ownerReferences"]
            ]
            return owners == [wanted]

        await kubelet.here.until(owned)

    with_driver(test)


def test_an_unknown_name_of_the_kit_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Drivr'"):
        _ = driverkit.Drivr

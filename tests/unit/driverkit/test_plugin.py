"""A whole driver on its sockets, called as a kubelet calls it."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from examples.drivers.hello import Hello

from dray import driverkit
from dray.api import features
from dray.api.slices import Device
from dray.client.verbs import Object
from dray.driverkit import cdi
from dray.driverkit.driver import DeviceHealth, Health
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

    def health(self) -> Iterable[DeviceHealth]:
        return [DeviceHealth(name, Health.UNHEALTHY, "on fire") for name in self.broken]

    def devices(self) -> Iterable[Device]:
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

    async def claim(self, name: str, device: str) -> Object:
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

    async def call(self, service: Service, method: str, *claims: Object) -> Any:
        """Prepare or unprepare; the answers by the names of the claims."""
        async with self.caller(service, self.plugin_socket) as caller:
            request = service.methods[method].request(
                claims=[
                    caller.messages.Claim(namespace="default", uid=uid(each), name=name(each))
                    for each in claims
                ]
            )
            response = await caller.call(method, request)
        return {name(each): response.claims[uid(each)] for each in claims}


def uid(document: Object) -> str:
    return str(document["metadata"]["uid"])


def name(document: Object) -> str:
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


def test_it_publishes_its_devices_as_the_nodes_own() -> None:
    async def test(kubelet: Kubelet) -> None:
        (found,) = await kubelet.here.list("resourceslices")
        assert [each["name"] for each in found["spec"]["devices"]] == ["hello-0", "hello-1"]
        assert found["spec"]["nodeName"] == "n1"
        assert found["metadata"]["ownerReferences"][0]["kind"] == "Node"

    with_driver(test)


def test_it_registers_with_every_version_it_serves() -> None:
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
        assert [each.device_name for each in answers["good"].devices] == ["hello-0"]
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
            assert {each.device.device_name: each.health for each in first.devices} == {
                "hello-0": 1,
                "hello-1": 1,
            }
            kubelet.driver.broken = ("hello-1",)
            kubelet.driver.changed()
            second = await stream.read()
            found = {each.device.device_name: each for each in second.devices}
            assert (found["hello-1"].health, found["hello-1"].message) == (2, "on fire")
            stream.cancel()

        async def tainted() -> bool:
            (found,) = await kubelet.here.list("resourceslices")
            taints = [each.get("taints") for each in found["spec"]["devices"]]
            return taints[0] is None and bool(taints[1]) and taints[1][0]["effect"] == "NoExecute"

        await kubelet.here.until(tainted)

    with_driver(test)


def test_an_unknown_name_of_the_kit_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Drivr'"):
        _ = driverkit.Drivr

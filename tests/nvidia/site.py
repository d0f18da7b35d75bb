"""One node with NVIDIA GPUs, real or fake, in a whole cluster: its pods run in sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dray.api import kinds
from dray.api.http_messages import User
from dray.api.types.meta import JsonObject, ObjectMeta
from dray.api.types.nodes import Node, NodeStatus
from dray.apiserver.server import Settings
from dray.client.api_client import Client
from dray.cluster import assembly
from dray.cluster.assembly import ADMIN, ClusterPlan, RunningCluster
from dray.driverkit.plugin import Directories
from dray.drivers.nvidia import device_classes
from dray.drivers.nvidia.driver import NvidiaDriver
from dray.drivers.nvidia.runner import Running
from dray.node.agent import Agent, AgentDirectories
from dray.node.containers.container_attempts import Starter
from dray.node.pods.context import RuntimeConfig
from dray.node.registration import Registration
from dray.node.runtimes.sandbox import Sandbox
from dray.store import memory
from tests.cluster.world import World

NODE = "gpu-node"
GPU_CLASS, MIG_CLASS = "gpu.nvidia.com", "mig.nvidia.com"
AGENT = User(f"system:node:{NODE}", frozenset({"system:nodes", "system:authenticated"}))
ENDED = ("Succeeded", "Failed")
SIZES = {"cpu": "16", "memory": "64Gi", "pods": "110"}


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass
class Site:
    world: World
    folder: Path
    driver: NvidiaDriver
    agent: Agent
    node_client: Client

    async def log(self, pod: str, container: str = "main") -> str:
        """What a container has written so far."""
        uid = (await self.world.get(kinds.POD, pod))["metadata"]["uid"]
        found = sorted((self.folder / "state" / "pods" / uid / "containers" / container).glob("*"))
        lines = (found[-1] / "output.log").read_text("utf-8").splitlines(keepends=True)
        return "".join(line.split(" ", 3)[3] for line in lines)

    async def phase(self, pod: str) -> str:
        return str((await self.world.get(kinds.POD, pod))["status"].get("phase"))

    async def finished(self, pod: str) -> str:
        """What a pod has written when it has ended well."""

        async def has_ended() -> bool:
            return await self.phase(pod) in ENDED

        await self.world.until(has_ended, f"the end of {pod}")
        written = await self.log(pod)
        assert await self.phase(pod) == ENDED[0], written
        return written

    async def written(self, pod: str, text: str) -> str:
        """What a pod has written once some text is among it, or else when it has ended."""

        async def look() -> str:
            has_ended = await self.phase(pod) in ENDED
            with contextlib.suppress(OSError, IndexError):
                log = await self.log(pod)
                return log if has_ended or text in log else ""
            return ""

        log = str(await self.world.until(look, f"{text} from {pod}"))
        assert text in log, log
        return log

    async def device_of(self, pod: str) -> str:
        """The one device that a pod's claim has."""
        claim = await self.world.get(kinds.RESOURCE_CLAIM, await self.world.claim_of(pod))
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        return str(result["device"])

    async def told(self, pod: str) -> str:
        """The UUID that the driver has written into the status of a pod's claim."""

        async def data() -> str:
            claim = await self.world.get(kinds.RESOURCE_CLAIM, await self.world.claim_of(pod))
            told = [device.get("data", {}) for device in claim["status"].get("devices", ())]
            return str(told[0]["uuid"]) if told else ""

        await self.world.bound(pod)
        return str(await self.world.until(data, f"the UUID of {pod}'s device"))

    async def remove(self, *pods: str) -> None:
        for name in pods:
            await self.world.client.delete(kinds.POD, name, "default", {"gracePeriodSeconds": 1})

        async def are_gone() -> bool:
            left = {each["metadata"]["name"] for each in await self.world.all(kinds.POD)}
            return not left & set(pods)

        await self.world.until(are_gone, "the pods being gone")

    async def notes(self) -> list[str]:
        return [str(each["message"]) for each in await self.world.all(kinds.EVENT)]

    async def note(self, text: str) -> str:
        """The first event that says something."""

        async def said() -> str:
            return next((note for note in await self.notes() if text in note), "")

        return str(await self.world.until(said, f"an event with {text!r}"))


MakeDriver = Callable[[Path], NvidiaDriver]
"""Gets the folder in which the driver keeps what must survive."""
Prepare = Callable[[RunningCluster], Awaitable[None]]


async def _nothing(_made: RunningCluster) -> None:
    return None


@contextlib.asynccontextmanager
async def site(
    folder: Path, make_driver: MakeDriver, account: User, prepare: Prepare, settings: Settings
) -> AsyncIterator[Site]:
    """A node whose driver acts in the name of `account`, in a cluster that was prepared for it."""
    async with (
        memory.open() as store,
        assembly.running(store, folder, ClusterPlan(settings)) as running,
        Starter() as starter,
    ):
        world = World(running, running.client())
        await prepare(running)
        for device_class in device_classes.device_classes():
            body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
            await world.client.create(kinds.DEVICE_CLASS, body | msgspec.to_builtins(device_class))
        node = Node(ObjectMeta(name=NODE), status=NodeStatus(capacity=SIZES, allocatable=SIZES))
        node_client = running.client(AGENT)
        registration = Registration(
            running.client(ADMIN), [node], lease=NODE, runtime="sandbox", now=now
        )
        places = Directories(folder / "registry", folder / "plugins", folder / "cdi")
        driver = make_driver(places.plugins / GPU_CLASS)
        plugin = Running(driver, running.client(account), NODE, directories=places)
        agent = Agent(
            node_client,
            NODE,
            "10.0.0.1",
            AgentDirectories(
                folder / "state", places.registry, (places.cdi,), folder / "resources.sock"
            ),
            RuntimeConfig(runtime=Sandbox(), starter=starter, allows_host=True),
            now=now,
        )
        here = Site(world, folder, driver, agent, node_client)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run()) for each in (registration, plugin, agent)]
            try:
                await world.until(
                    lambda: world.all(kinds.RESOURCE_SLICE), "the devices being published"
                )
                await world.until(lambda: _is_registered(agent), "the driver being registered")
                yield here
            finally:
                for task in tasks:
                    task.cancel()


async def _is_registered(agent: Agent) -> bool:
    return agent.drivers.names != []


def with_site(
    test: Callable[[Site], Awaitable[None]],
    make_driver: MakeDriver,
    *,
    account: User | None = None,
    prepare: Prepare = _nothing,
    settings: Settings | None = None,
) -> None:
    """Run a test, then see that nothing is left of its pods."""

    async def run(folder: Path) -> AssertionError | None:
        chosen = settings or Settings()
        async with site(folder, make_driver, account or AGENT, prepare, chosen) as here:
            try:
                await test(here)
                await here.remove(
                    *[each["metadata"]["name"] for each in await here.world.all(kinds.POD)]
                )
            except AssertionError as failure:
                # Raised outside, where no task group wraps it.
                return AssertionError(f"{failure}\nevents: {await here.notes()}")
        return None

    # Paths of sockets must be short, which pytest's own folders are not.
    folder = Path(tempfile.mkdtemp(prefix="dray-"))
    try:
        failure = asyncio.run(run(folder))
    finally:
        shutil.rmtree(folder)
    if failure is not None:
        raise failure


def claim_template(
    name: str, device_class: str = GPU_CLASS, *selectors: str, **more: Any
) -> JsonObject:
    chosen = [{"cel": {"expression": text}} for text in selectors]
    exactly = {"deviceClassName": device_class, "selectors": chosen}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **more}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": spec},
    }


def profile(name: str) -> str:
    return f'device.attributes["{GPU_CLASS}"].profile == "{name}"'


def pod(name: str, command: list[str], template: str = "", **fields: Any) -> JsonObject:
    """A pod with one container, which has the claim of a template if one is named."""
    claims = [{"name": "gpu"}] if template else []
    container = {"name": "main", "image": "host", "command": command, "resources": {}}
    spec: JsonObject = {"restartPolicy": "Never"}
    if claims:
        container["resources"] = {"claims": claims}
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    container |= fields.pop("container", {})
    body = {"containers": [container], **spec, **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def shell(name: str, script: str, template: str = "", **fields: Any) -> JsonObject:
    return pod(name, ["/bin/sh", "-c", script], template, **fields)

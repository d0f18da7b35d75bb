"""A whole cluster whose pods run in real containers, and the pods to try it with."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dray.api import kinds, remote_command
from dray.api.http_messages import Request, Response
from dray.api.remote_command import CommandOutcome
from dray.api.types.meta import JsonObject
from dray.apiserver import standalone
from dray.client import api_client, rest
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan
from dray.drivers.simulated import fleet as fleets
from dray.drivers.simulated.faults import FAILED_ANNOTATION
from dray.node.limits import groups
from dray.node.runtimes import sandbox
from dray.store import memory
from dray.store.store import Store
from tests.cluster.world import CLASS, World, sound

needs_sandbox = pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")

FORTY = f'device.capacity["{CLASS}"].memory.compareTo(quantity("40Gi")) >= 0'
LIST = "nvidia-smi -L"


@dataclass
class Site:
    """A running cluster with real nodes; `node` is the first of them."""

    world: World
    folder: Path
    node: str

    @property
    def node_folder(self) -> Path:
        return self.folder / "nodes" / self.node

    def container_folder(self, pod: JsonObject, container: str = "main") -> Path:
        uid = str(pod["metadata"]["uid"])
        return self.node_folder / "pods" / uid / "containers" / container

    async def ask(self, pod: str, what: str, *query: tuple[str, str], **headers: str) -> Response:
        path = api_client.object_path(kinds.POD, pod, "default", what)
        return await self.world.client.raw(Request("GET", path, query, headers))

    async def log(self, pod: str, container: str = "main", **options: str) -> str:
        """What a container has printed, through the API."""
        response = await self.ask(pod, "log", ("container", container), *options.items())
        if response.status != 200:
            raise api_client.error_of(response)
        return response.body.decode()

    async def output(
        self, pod: str, container: str = "main", *, lines: int = 1, until: str = ""
    ) -> str:
        """What a container has printed, once that is so many lines and contains a text."""

        async def written() -> str:
            response = await self.ask(pod, "log", ("container", container))
            text = response.body.decode() if response.status == 200 else ""
            return text if text.count("\n") >= lines and until in text else ""

        return str(await self.world.until(written, f"output of {pod}/{container}"))

    async def execute(
        self, pod: str, *command: str, typed: bytes = b"", container: str = "main"
    ) -> tuple[CommandOutcome, bytes, bytes]:
        """Run a command in a container: how it ended, its output and what it said of errors."""
        query = [("command", part) for part in command]
        query += [(name, "true") for name in ("stdin", "stdout", "stderr")]
        seat = await self.converse(pod, "exec", query, Seat([typed] if typed else []), container)
        return (
            seat.outcome,
            seat.printed[remote_command.STDOUT],
            seat.printed[remote_command.STDERR],
        )

    async def converse(
        self,
        pod: str,
        what: str,
        query: list[tuple[str, str]],
        seat: Seat,
        container: str = "main",
    ) -> Seat:
        headers = {"upgrade": "websocket", "sec-websocket-protocol": remote_command.V5}
        response = await self.ask(pod, what, ("container", container), *query, **headers)
        if response.upgrade is None:
            raise api_client.error_of(response)
        await response.upgrade.converse(seat)
        return seat

    async def uuid(self, claim: str) -> str:
        """The unique id of the one device of a claim."""
        status = (await self.world.get(kinds.RESOURCE_CLAIM, claim))["status"]
        (result,) = status["allocation"]["devices"]["results"]
        for each in await self.world.all(kinds.RESOURCE_SLICE):
            for device in each["spec"].get("devices", ()):
                if device["name"] == result["device"]:
                    return str(device["attributes"]["uuid"]["string"])
        raise AssertionError(result)

    async def fail_device(self, device: str) -> None:
        annotations = {FAILED_ANNOTATION: device}
        patch = {"metadata": {"annotations": annotations}}
        await self.world.client.patch(kinds.NODE, self.node, patch)

    async def delete(self, pod: str, grace_seconds: int = 1) -> None:
        options = {"gracePeriodSeconds": grace_seconds}
        await self.world.client.delete(kinds.POD, pod, "default", options)

    async def gone(self, pod: str) -> None:
        async def is_gone() -> bool:
            return pod not in {each["metadata"]["name"] for each in await self.world.all(kinds.POD)}

        await self.world.until(is_gone, f"{pod} being gone")

    async def event(self, text: str) -> str:
        """The note of an event that contains a text, once there is one."""

        async def told() -> str:
            notes = [str(each["message"]) for each in await self.world.all(kinds.EVENT)]
            return next((note for note in notes if text in note), "")

        return str(await self.world.until(told, f"an event about {text!r}"))

    async def waiting(self, pod: str, reason: str) -> str:
        """The message of a container that waits for a reason, once it does."""

        async def told() -> str:
            status = (await self.world.get(kinds.POD, pod))["status"]
            states = [each["state"] for each in status.get("containerStatuses", ())]
            waiting = states[0].get("waiting", {}) if states else {}
            return str(waiting["message"]) if waiting.get("reason") == reason else ""

        return str(await self.world.until(told, f"{pod} waiting for {reason}"))

    async def empty(self) -> None:
        """When every pod is deleted, nothing of them is left on the node."""
        for pod in await self.world.all(kinds.POD):
            await self.delete(pod["metadata"]["name"])
        for pod in await self.world.all(kinds.POD):
            await self.gone(pod["metadata"]["name"])

        async def nothing() -> bool:
            return not self.left()

        try:
            await self.world.until(nothing, "the node being empty")
        except AssertionError as error:
            raise AssertionError(f"left on the node: {self.left()}") from error

    def left(self) -> list[str]:
        """Files, mounts, control groups and processes of containers."""
        patterns = ("pods/*", "cdi/*", "cards/*.card")
        nodes = self.folder / "nodes"
        files = [str(path) for pattern in patterns for path in nodes.glob(f"*/{pattern}")]
        mounted = Path("/proc/self/mounts").read_text("utf-8").splitlines()
        mounts = [line for line in mounted if str(self.folder) in line]
        limited = [uid for node in nodes.iterdir() for uid in groups.open_limits(node).pods()]
        return [*files, *mounts, *limited, *processes_of(self.folder)]


class Seat:
    """Somebody at a container who types what he has to type, and keeps what he sees."""

    def __init__(self, typed: list[bytes]) -> None:
        self.messages = [remote_command.message(remote_command.STDIN, each) for each in typed]
        self.messages.append(remote_command.closing(remote_command.STDIN))
        self.printed = {remote_command.STDOUT: b"", remote_command.STDERR: b""}
        self.outcome = CommandOutcome(None, "nothing was said about the end")

    async def receive(self) -> bytes | None:
        if self.messages:
            return self.messages.pop(0)
        await asyncio.Event().wait()
        return None

    async def send(self, message: bytes) -> None:
        channel, data = message[0], message[1:]
        if channel == remote_command.ERROR:
            self.outcome = remote_command.outcome(data)
        else:
            self.printed[channel] += data


def processes_of(folder: Path) -> list[str]:
    """Processes with a folder in their command line, zombies of ours included."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            state = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
            is_zombie = state[0] == "Z" and int(state[1]) == os.getpid()
            if str(folder) in words or is_zombie:
                found.append(f"{entry.name}: {words or 'zombie'}")
    return found


@contextlib.asynccontextmanager
async def running(
    store: Store, folder: Path, fleet: str = "h100", nodes: int = 1, **choices: Any
) -> AsyncIterator[Site]:
    plan = ClusterPlan(
        fleet=fleets.load(fleet, nodes=nodes), **{"runtime": sandbox.NAME, **choices}
    )
    async with assembly.running(store, folder, plan) as made:
        world = World(made, made.client())
        node = next(iter(plan.fleet.machines)) if plan.fleet else ""
        here = Site(world, folder, node)
        await world.until(lambda: world.all(kinds.RESOURCE_SLICE), "the devices being published")
        await world.until(lambda: _has_drivers(here), "the drivers being registered")
        yield here


async def _has_drivers(here: Site) -> bool:
    machines, plan_node = here.world.cluster.nodes, here.node
    assert machines is not None
    try:
        return bool(machines.agent(plan_node).drivers.names)
    except LookupError:
        return False


def on_folder(test: Callable[[Path], Awaitable[None]]) -> None:
    """Run a test in a folder of its own, whose name is short enough for sockets."""

    async def run(folder: Path) -> AssertionError | None:
        try:
            await test(folder)
        except* AssertionError as failures:
            found: BaseException = failures
            while isinstance(found, BaseExceptionGroup):
                found = found.exceptions[0]
            assert isinstance(found, AssertionError)
            failure = found
        else:
            return None
        return failure

    folder = Path(tempfile.mkdtemp(prefix="dray-"))
    try:
        failure = asyncio.run(run(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if failure is not None:
        raise failure


def with_node(test: Callable[[Site], Awaitable[None]], fleet: str = "h100", **choices: Any) -> None:
    """Run a test on a cluster with one real node; at the end nothing may be left there."""

    async def run(folder: Path) -> None:
        async with memory.open() as store, running(store, folder, fleet, **choices) as here:
            await test(here)
            # Without controllers nobody removes the reservations of pods that are gone.
            is_controlled = choices.get("controls", True)
            if is_controlled:
                await sound(here.world)
            await here.empty()
            if is_controlled:
                await sound(here.world)

    on_folder(run)


def pod(name: str, *containers: JsonObject, claims: Any = (), **spec: Any) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": list(containers), "resourceClaims": list(claims), **spec},
    }


def container(script: str, name: str = "main", claims: Any = (), **fields: Any) -> JsonObject:
    return {
        "name": name,
        "image": "host",
        "command": ["/bin/sh", "-c", script],
        "resources": {"claims": [{"name": claim} for claim in claims]},
        **fields,
    }


def template(name: str, *requests: JsonObject) -> JsonObject:
    forty = {"deviceClassName": CLASS, "selectors": [{"cel": {"expression": FORTY}}]}
    chosen = requests or ({"name": "gpu", "exactly": forty},)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": list(chosen)}}},
    }


def from_template(name: str, template: str = "t") -> JsonObject:
    return {"name": name, "resourceClaimTemplateName": template}


def client_tls(folder: Path, url: str, *groups: str) -> ssl.SSLContext:
    """The context of a client of the API server with keys in this folder."""
    found = standalone.connection(folder, url, "somebody", *groups)
    context = ssl.create_default_context(cadata=found.certificate_authority.decode())
    rest.load_pair(context, found.client_certificate, found.client_key)
    return context

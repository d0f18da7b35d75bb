"""kill -9 of a node agent that is a process of its own: containers and claims are found again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from dray.api import kinds, well_known
from dray.api.types.dra import Device
from dray.apiserver import standalone
from dray.apiserver.access.certificates import Authority
from dray.client import kubeconfig
from dray.client.api_client import Client
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan
from dray.driverkit import driver as kit
from dray.driverkit.cdi import Edits
from dray.driverkit.driver import Allocated, Driver, Released
from dray.driverkit.plugin import Directories, Plugin
from dray.store import memory
from tests.cluster.site import Site, container, from_template, needs_sandbox, on_folder, pod
from tests.cluster.world import World

pytestmark = needs_sandbox

NAME = "worker-1"
DRIVER = "gate.example.com"


class Gated(Driver):
    """A driver that waits in the middle of its work until somebody opens the gate."""

    name = DRIVER

    def __init__(self) -> None:
        super().__init__()
        self.gates = {"prepare": asyncio.Event(), "unprepare": asyncio.Event()}
        self.reached = {"prepare": asyncio.Event(), "unprepare": asyncio.Event()}
        self.held: set[str] = set()
        for gate in self.gates.values():
            gate.set()

    def devices(self) -> Iterable[Device]:
        return [kit.device("d-0"), kit.device("d-1")]

    async def prepare(self, allocated: Allocated) -> Edits:
        self.held.add(allocated.claim.metadata.uid)
        await self._pass("prepare")
        return Edits(env={"DEVICE": allocated.name})

    async def unprepare(self, released: Released) -> None:
        await self._pass("unprepare")
        self.held.discard(released.claim_uid)

    async def _pass(self, gate: str) -> None:
        self.reached[gate].set()
        await self.gates[gate].wait()


@dataclass
class Node:
    """A cluster, and a node of it whose agent is another process."""

    site: Site
    kubeconfig: Path
    driver: Gated
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.site.folder

    def start(self) -> None:
        program = str(Path(sys.executable).with_name("dray"))
        command = [program, "node", "--name", NAME, "--port", "0"]
        command += ["--kubeconfig", str(self.kubeconfig), "--data", str(self.site.node_folder)]
        command += ["--registry", str(self.folder / "registry"), "--cdi", str(self.folder / "cdi")]
        log = (self.folder / "agent.log").open("ab")
        with log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def kill(self) -> None:
        process = self.processes.pop()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    async def ready(self) -> None:
        world = self.site.world

        async def has_endpoint() -> bool:
            names = [each["metadata"]["name"] for each in await world.all(kinds.NODE)]
            if NAME not in names:
                return False
            status = (await world.get(kinds.NODE, NAME))["status"]
            return bool(status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port"))

        await world.until(has_endpoint, f"the agent answering\n{self.said()}")

    def said(self) -> str:
        path = self.folder / "agent.log"
        return path.read_text("utf-8") if path.exists() else ""


@contextlib.asynccontextmanager
async def node_in(folder: Path) -> AsyncIterator[Node]:
    async with (
        memory.open() as store,
        assembly.running(store, folder, ClusterPlan()) as made,
    ):
        authority = Authority.load_or_create(folder)
        pair = authority.server_pair(("127.0.0.1",))
        listening = made.opened.server.listening("127.0.0.1", 0, pair, authority.certificate)
        async with listening as url:
            path = folder / "node.kubeconfig"
            user = f"system:node:{NAME}"
            kubeconfig.write(path, standalone.connection(folder, url, user, "system:nodes"))
            site = Site(World(made, made.client()), folder, NAME)
            node = Node(site, path, Gated())
            node.start()
            try:
                await node.ready()
                async with _driver(node, made.client()):
                    yield node
            finally:
                for process in node.processes:
                    process.kill()
                    process.wait()


async def _is_registered(world: World) -> bool:
    annotations = (await world.get(kinds.NODE, NAME))["metadata"].get("annotations") or {}
    return DRIVER in annotations.get(well_known.DRIVERS_ANNOTATION, "")


@contextlib.asynccontextmanager
async def _driver(node: Node, client: Client) -> AsyncIterator[None]:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    spec = {"selectors": [selector]}
    await client.create(kinds.DEVICE_CLASS, {**body, "metadata": {"name": DRIVER}, "spec": spec})
    places = Directories(node.folder / "registry", node.folder / "plugins", node.folder / "cdi")
    plugin = asyncio.ensure_future(Plugin(node.driver, client, NAME, directories=places).run())
    try:
        await node.site.world.until(
            lambda: node.site.world.all(kinds.RESOURCE_SLICE), "the devices"
        )
        await node.site.world.until(lambda: _is_registered(node.site.world), "its driver")
        yield
    finally:
        plugin.cancel()
        await asyncio.wait({plugin})


def with_device(script: str) -> dict[str, object]:
    main = container(script, claims=["d"])
    return pod("p", main, claims=[from_template("d")], restartPolicy="Never")


async def _make_template(site: Site) -> None:
    requests = [{"name": "d", "exactly": {"deviceClassName": DRIVER}}]
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    spec = {"spec": {"devices": {"requests": requests}}}
    await site.world.create({**body, "metadata": {"name": "t"}, "spec": spec})


def test_a_container_that_ends_while_the_agent_is_dead_is_reported_by_the_next() -> None:
    async def story(folder: Path) -> None:
        async with node_in(folder) as node:
            site = node.site
            await _make_template(site)
            script = "echo $DEVICE; while [ ! -e /go/on ]; do sleep 0.05; done; echo bye; exit 3"
            body = with_device(script)
            body["spec"]["volumes"] = [{"name": "go", "emptyDir": {}}]  # type: ignore[index]
            mounts = [{"name": "go", "mountPath": "/go"}]
            body["spec"]["containers"][0]["volumeMounts"] = mounts  # type: ignore[index]
            made = await site.world.create(body)
            assert await site.output("p") == "d-0\n"
            node.kill()
            uid = made["metadata"]["uid"]
            (site.node_folder / "pods" / uid / "volumes" / "go" / "on").touch()
            ended = site.container_folder(made) / "0" / "exit.json"
            await site.world.until(lambda: _exists(ended), "the container ending")
            node.start()
            found = await site.world.pod_phase("p", "Failed")
            state = found["status"]["containerStatuses"][0]["state"]["terminated"]
            assert state["exitCode"] == 3
            assert await site.output("p", lines=2) == "d-0\nbye\n"
            await site.delete("p")
            await site.gone("p")
            assert node.driver.held == set()

    on_folder(story)


async def _exists(path: Path) -> bool:
    return path.exists()


def test_an_agent_killed_while_a_claim_is_prepared_goes_on_with_it() -> None:
    async def story(folder: Path) -> None:
        async with node_in(folder) as node:
            site = node.site
            await _make_template(site)
            node.driver.gates["prepare"].clear()
            await site.world.create(with_device("echo $DEVICE"))
            await asyncio.wait_for(node.driver.reached["prepare"].wait(), 30)
            node.kill()
            node.driver.gates["prepare"].set()
            node.start()
            await site.world.pod_phase("p", "Succeeded")
            assert await site.log("p") == "d-0\n"
            assert node.driver.held == set()

    on_folder(story)


def test_what_was_being_prepared_for_a_pod_that_is_gone_is_given_back() -> None:
    async def story(folder: Path) -> None:
        async with node_in(folder) as node:
            site = node.site
            await _make_template(site)
            node.driver.gates["prepare"].clear()
            await site.world.create(with_device("echo $DEVICE"))
            await asyncio.wait_for(node.driver.reached["prepare"].wait(), 30)
            node.kill()
            await site.delete("p", 0)
            await site.gone("p")
            node.driver.gates["prepare"].set()
            node.start()
            await site.world.until(lambda: _holds_nothing(node), "the claim being given back")
            await site.world.until(lambda: _is_empty(node), "the node being empty")

    on_folder(story)


def test_an_agent_killed_while_a_claim_is_given_back_goes_on_with_that() -> None:
    async def story(folder: Path) -> None:
        async with node_in(folder) as node:
            site = node.site
            await _make_template(site)
            node.driver.gates["unprepare"].clear()
            await site.world.create(with_device("echo $DEVICE"))
            await asyncio.wait_for(node.driver.reached["unprepare"].wait(), 30)
            assert (await site.world.get(kinds.POD, "p"))["status"]["phase"] == "Running"
            node.kill()
            node.driver.gates["unprepare"].set()
            node.start()
            await site.world.pod_phase("p", "Succeeded")
            assert node.driver.held == set()
            await site.delete("p")
            await site.gone("p")
            await site.world.until(lambda: _is_empty(node), "the node being empty")

    on_folder(story)


async def _holds_nothing(node: Node) -> bool:
    return not node.driver.held


async def _is_empty(node: Node) -> bool:
    return not [*node.site.node_folder.glob("pods/*"), *(node.folder / "cdi").glob("*")]

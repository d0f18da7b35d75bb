"""The machines of a simulated fleet as real nodes: of each an agent, and its drivers on sockets.

What they keep is under `nodes` in the data directory: containers that outlive this process are
found there by the next one. One endpoint answers for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray import supervision
from dray.api.features import Features
from dray.api.http_messages import User
from dray.client.api_client import Client
from dray.driverkit.plugin import Directories, Plugin
from dray.drivers.simulated.fleet import FLEET_LABEL, Fleet, FleetNode
from dray.drivers.simulated.plugin import SimulatedPlugin
from dray.drivers.simulated.publisher import SimulatedDriver
from dray.node import registration
from dray.node.agent import Agent, AgentDirectories
from dray.node.containers import container_attempts
from dray.node.containers.container_attempts import Starter
from dray.node.devices.preparation import HeldClaim
from dray.node.endpoint import Endpoint, Identity
from dray.node.node_status import AgentAddress, NodeStatusUpdater
from dray.node.pods.container_access import ContainerAccess
from dray.node.pods.context import RuntimeConfig
from dray.node.registration import Registration
from dray.node.runtimes.interface import Runtime

ADDRESS: Final = "127.0.0.1"
NODE_GROUPS: Final = frozenset({"system:nodes", "system:authenticated"})
SOCKET_PATH_BYTES: Final = 107

Part = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class NodeEnvironment:
    """What the machines of a fleet have in common."""

    client_of: Callable[[User], Client]
    fleet_client: Client
    directory: Path
    runtime: Runtime
    identity: Identity
    features: Features
    now: Callable[[], datetime.datetime]
    allows_host: bool = False

    def node_client(self, node: str) -> Client:
        """What a node says itself, it says in its own name."""
        user = User(f"system:node:{node}", NODE_GROUPS)
        return self.client_of(user).managed_by(registration.FIELD_MANAGER)


class SimulatedNodes:
    """Runs a fleet on real nodes."""

    def __init__(self, site: NodeEnvironment) -> None:
        self._site = site
        self._agents: dict[str, Agent] = {}
        self.keeps_pods = False
        """Whether containers run on after the end, for the next process to find."""

    def agent(self, node: str) -> Agent:
        """The running agent of a node; LookupError where there is none."""
        return self._agents[node]

    def prepared_claims(self) -> list[HeldClaim]:
        """Return the claims that are prepared on any of the nodes."""
        return [claim for agent in self._agents.values() for claim in agent.prepared_claims]

    def end(self) -> None:
        """To be called before the machines are ended for good."""
        for agent in self._agents.values():
            agent.stops_pods = not self.keeps_pods

    async def run(self, fleet: Fleet) -> None:
        site, root = self._site, sockets_root(self._site.directory / "nodes", socket_paths(fleet))
        with contextlib.suppress(FileNotFoundError):
            await _remove_surplus(root, fleet)
        registered = Registration(
            site.fleet_client.managed_by(registration.FIELD_MANAGER),
            fleet.nodes(),
            lease=f"fleet-{fleet.name}",
            runtime=site.runtime.name,
            now=site.now,
        )
        shared = SimulatedDriver(site.fleet_client, fleet, now=site.now, machines=False)
        async with self.serving() as (means, reach), asyncio.TaskGroup() as group:
            group.create_task(registered.run(), name="registration")
            group.create_task(shared.run(), name="shared-pools")
            for machine in fleet.machines.values():
                for name, part in self._parts(machine, root / machine.name, means, reach):
                    group.create_task(supervision.run_forever(name, part), name=name)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[tuple[RuntimeConfig, AgentAddress]]:
        """What agents run containers with, and where the API server reaches them."""
        site = self._site
        endpoint = Endpoint(self._find, site.identity)
        async with Starter() as starter, endpoint.listening(ADDRESS) as port:
            reach = AgentAddress(ADDRESS, port, site.identity.certificate)
            runtime_config = RuntimeConfig(
                runtime=site.runtime, starter=starter, allows_host=site.allows_host
            )
            yield runtime_config, reach

    def _find(self, namespace: str, pod: str) -> ContainerAccess | None:
        for agent in self._agents.values():
            if (containers := agent.containers(namespace, pod)) is not None:
                return containers
        return None

    def _parts(
        self, machine: FleetNode, folder: Path, means: RuntimeConfig, reach: AgentAddress
    ) -> Iterator[tuple[str, Part]]:
        site, name = self._site, machine.name
        client = site.node_client(name)
        presence = NodeStatusUpdater(client, name, site.runtime.name, reach, site.features)
        yield f"presence-{name}", presence.run
        yield f"agent-{name}", lambda: self.run_agent(client, name, folder, means)
        places = Directories(folder / "registry", folder / "plugins", folder / "cdi")
        labels = {FLEET_LABEL: machine.fleet.name}
        for driver in machine.drivers:
            simulated = SimulatedPlugin(machine, driver, folder / "cards")
            plugin = Plugin(simulated, client, name, directories=places, labels=labels)
            yield f"{driver}-{name}", plugin.run

    async def run_agent(
        self, client: Client, name: str, folder: Path, means: RuntimeConfig
    ) -> None:
        socket = folder / "pod-resources" / "kubelet.sock"
        folders = AgentDirectories(folder, folder / "registry", folder / "cdi", socket)
        agent = Agent(client, name, ADDRESS, folders, means, now=self._site.now)
        self._agents[name] = agent
        try:
            await agent.run()
        finally:
            self._agents.pop(name, None)


def sockets_root(wanted: Path, sockets: Iterable[str]) -> Path:
    """The folder of the nodes under a name that is short enough for the sockets in it."""
    wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
    absolute = wanted.resolve()
    longest = max((len(str(absolute / socket)) for socket in sockets), default=0)
    if longest <= SOCKET_PATH_BYTES:
        return absolute
    short = _private_folder() / hashlib.blake2s(str(absolute).encode(), digest_size=6).hexdigest()
    with contextlib.suppress(FileNotFoundError):
        short.unlink()
    short.symlink_to(absolute)
    return short


def socket_paths(fleet: Fleet) -> Iterator[str]:
    for machine in fleet.machines.values():
        for driver in machine.drivers:
            yield f"{machine.name}/registry/{driver}-reg.sock"
            yield f"{machine.name}/plugins/{driver}/dra.sock"


def _private_folder() -> Path:
    """A folder with a short name that is ours alone."""
    folder = (
        Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"dray-{os.getuid()}"
    )
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} must be a folder that belongs to you alone")
    return folder


async def _remove_surplus(root: Path, fleet: Fleet) -> None:
    """What is left of machines that the fleet had and no longer has."""
    for folder in root.iterdir():
        if folder.name in fleet.machines:
            continue
        for container in folder.glob("pods/*/containers/*"):
            if (attempt := container_attempts.last_attempt(container)) is not None:
                attempt.kill()
                await attempt.wait()
        container_attempts.remove(folder)

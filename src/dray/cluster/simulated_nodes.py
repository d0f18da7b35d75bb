"""Runs the nodes of a simulated fleet with real containers: an agent per node, drivers on sockets.

Their state is under `nodes` in the data directory, where the next process finds containers that
outlive this one. One endpoint serves all nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
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
from dray.node.devices.preparation import ClaimRecord
from dray.node.endpoint import Endpoint, Identity
from dray.node.limits import groups
from dray.node.node_status import AgentAddress, NodeStatusUpdater
from dray.node.pods.container_access import ContainerAccess
from dray.node.pods.context import RuntimeConfig
from dray.node.registration import Registration
from dray.node.runtimes.interface import Runtime
from dray.node.runtimes.pod_networks import PodNetwork

ADDRESS: Final = "127.0.0.1"
NODE_GROUPS: Final = frozenset({"system:nodes", "system:authenticated"})
SOCKET_PATH_BYTES: Final = 107

Part = Callable[[], Awaitable[None]]
Serving = tuple[RuntimeConfig, AgentAddress]
"""The agents' runtime, and the address at which the API server reaches them."""


@dataclass(frozen=True, kw_only=True)
class NodeEnvironment:
    """The dependencies that the nodes of a cluster share."""

    client_of: Callable[[User], Client]
    fleet_client: Client
    directory: Path
    runtime: Runtime
    identity: Identity
    features: Features
    now: Callable[[], datetime.datetime]
    allows_host: bool = False
    pod_max_pids: int = groups.DEFAULT_POD_MAX_PIDS
    network: PodNetwork = field(default_factory=PodNetwork)

    def node_client(self, node: str) -> Client:
        """Return a client with the identity of a node."""
        user = User(f"system:node:{node}", NODE_GROUPS)
        return self.client_of(user).managed_by(registration.FIELD_MANAGER)


class SimulatedNodes:
    """Runs the nodes of a fleet with real containers."""

    def __init__(self, environment: NodeEnvironment) -> None:
        self._environment = environment
        self._agents: dict[str, Agent] = {}
        self.keeps_pods = False
        """Whether containers run on after the end, for the next process to find."""

    def agent(self, node: str) -> Agent:
        """Return the running agent of a node. Raises LookupError where it does not run."""
        return self._agents[node]

    def prepared_claims(self) -> list[ClaimRecord]:
        """Return the claims that are prepared on any of the nodes."""
        return [claim for agent in self._agents.values() for claim in agent.prepared_claims]

    def end(self) -> None:
        """Decide whether containers stop with the agents; call it before cancelling them."""
        for agent in self._agents.values():
            agent.stops_pods = not self.keeps_pods

    async def run(self, fleet: Fleet) -> None:
        environment = self._environment
        root = sockets_root(environment.directory / "nodes", socket_paths(fleet))
        with contextlib.suppress(FileNotFoundError):
            await _remove_surplus(root, fleet)
        registered = Registration(
            environment.fleet_client.managed_by(registration.FIELD_MANAGER),
            fleet.nodes(),
            lease=f"fleet-{fleet.name}",
            runtime=environment.runtime.name,
            now=environment.now,
        )
        shared = SimulatedDriver(
            environment.fleet_client, fleet, now=environment.now, machines=False
        )
        async with self.serving() as served, asyncio.TaskGroup() as group:
            group.create_task(registered.run(), name="registration")
            group.create_task(shared.run(), name="shared-pools")
            for node in fleet.machines.values():
                for name, part in self._parts(node, root / node.name, served):
                    group.create_task(supervision.run_forever(name, part), name=name)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Serving]:
        """Serve logs and exec; yield the agents' runtime and the address for the API server."""
        environment = self._environment
        endpoint = Endpoint(self._find, environment.identity)
        async with Starter() as starter, endpoint.listening(ADDRESS) as port:
            served = environment.identity.served
            agent_address = AgentAddress(ADDRESS, port, served.certificate)
            runtime_config = RuntimeConfig(
                runtime=environment.runtime,
                starter=starter,
                allows_host=environment.allows_host,
                pod_max_pids=environment.pod_max_pids,
                network=environment.network,
            )
            if environment.runtime.takes_network_helper:
                environment.network.prepare()
            renewing = asyncio.create_task(served.run(agent_address.publish))
            try:
                yield runtime_config, agent_address
            finally:
                renewing.cancel()

    def _find(self, namespace: str, pod: str) -> ContainerAccess | None:
        found = (agent.containers(namespace, pod) for agent in self._agents.values())
        return next((containers for containers in found if containers is not None), None)

    def agent_parts(
        self, client: Client, name: str, folder: Path, served: Serving, suffix: str = ""
    ) -> Iterator[tuple[str, Part]]:
        """Yield what every node runs: the updates of its status, and its agent."""
        environment, (runtime_config, agent_address) = self._environment, served
        status_updater = NodeStatusUpdater(
            client, name, environment.runtime.name, agent_address, environment.features
        )
        yield f"presence{suffix}", status_updater.run
        yield f"agent{suffix}", lambda: self._run_agent(client, name, folder, runtime_config)

    def _parts(self, node: FleetNode, folder: Path, served: Serving) -> Iterator[tuple[str, Part]]:
        name = node.name
        client = self._environment.node_client(name)
        yield from self.agent_parts(client, name, folder, served, f"-{name}")
        places = Directories(folder / "registry", folder / "plugins", folder / "cdi")
        labels = {FLEET_LABEL: node.fleet.name}
        for driver in node.drivers:
            simulated = SimulatedPlugin(node, driver, folder / "cards")
            plugin = Plugin(simulated, client, name, directories=places, labels=labels)
            yield f"{driver}-{name}", plugin.run

    async def _run_agent(
        self, client: Client, name: str, folder: Path, runtime_config: RuntimeConfig
    ) -> None:
        socket = folder / "pod-resources" / "kubelet.sock"
        folders = AgentDirectories(folder, folder / "registry", folder / "cdi", socket)
        agent = Agent(client, name, ADDRESS, folders, runtime_config, now=self._environment.now)
        self._agents[name] = agent
        try:
            await agent.run()
        finally:
            self._agents.pop(name, None)


def sockets_root(wanted: Path, sockets: Iterable[str]) -> Path:
    """Return the folder of the nodes, or a link to it that is short enough for sockets."""
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
    for node in fleet.machines.values():
        for driver in node.drivers:
            yield f"{node.name}/registry/{driver}-reg.sock"
            yield f"{node.name}/plugins/{driver}/dra.sock"


def _private_folder() -> Path:
    """Return a folder with a short name. Raises PermissionError where others can write to it."""
    parent = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    folder = Path(parent, f"dray-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} must be a folder that belongs to you alone")
    return folder


async def _remove_surplus(root: Path, fleet: Fleet) -> None:
    """Stop and remove what is left of nodes that the fleet no longer has."""
    for folder in root.iterdir():
        if folder.name in fleet.machines:
            continue
        for container in folder.glob("pods/*/containers/*"):
            if (attempt := container_attempts.last_attempt(container)) is not None:
                attempt.kill()
                await attempt.wait()
        limits = groups.open_limits(folder)
        for uid in limits.pods():
            await limits.remove_pod(uid)
        container_attempts.remove(folder)

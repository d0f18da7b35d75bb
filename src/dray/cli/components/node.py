"""`dray node`: the agent of one node as a process of its own, against dray or Kubernetes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click

from dray import telemetry
from dray.api import features
from dray.api.features import Features
from dray.apiserver.access.certificates import Authority
from dray.apiserver.access.renewal import RenewedPair
from dray.cli.command_errors import CommandError, DrayCommand, WrongUsage
from dray.cli.components import foreground, metrics_endpoint
from dray.cli.inputs import pod_options
from dray.cli.session import connection
from dray.cli.session.connection import Target
from dray.client.api_client import ObjectSelection
from dray.client.kubeconfig import ClusterConnection
from dray.clock import utc_now
from dray.driverkit.plugin import Directories
from dray.node import host_info
from dray.node.agent import Agent, AgentDirectories
from dray.node.containers.container_attempts import Starter
from dray.node.endpoint import API_SERVERS, Endpoint, Identity
from dray.node.node_status import AgentAddress, NodeStatusUpdater
from dray.node.pods.context import RuntimeConfig
from dray.node.registration import FIELD_MANAGER, Registration
from dray.node.runtimes import pod_networks, sandbox, selection, simulated
from dray.node.runtimes.interface import Runtime, RuntimeUnusable
from dray.node.runtimes.pod_networks import NetworkUnusable, PodNetwork
from dray.node.runtimes.selection import Choice
from dray.node.specs import image_stand_ins
from dray.node.specs.image_stand_ins import ImagesError, ImageStandIns

DEFAULT_DATA = "~/.dray/node"
REGISTRY = Directories().registry
CDI_DIRECTORIES = ("/etc/cdi", str(Directories().cdi))
"""As the CDI specification has them: the one that is written at run time wins."""


@dataclass(frozen=True)
class Settings:
    """The options of the command."""

    name: str
    address: str
    port: int
    labels: dict[str, str]
    folders: AgentDirectories
    gates: Features
    allows_host: bool
    allows_privileged: bool
    images: ImageStandIns
    pod_max_pids: int
    pod_network: str
    client_authority: bytes
    clients: tuple[str, ...]
    metrics_listen: str


@click.command("node", cls=DrayCommand)
@connection.options_of_cluster
@click.option("--name", default=platform.node(), show_default=True, help="Of the Node.")
@click.option(
    "--address", default="", help="Address at which the API server reaches this computer."
)
@click.option("--port", default=10250, show_default=True, help="For logs and exec; 0 takes any.")
@click.option("--labels", default="", metavar="A=B,C=D", help="Of the Node.")
@click.option("--data", default=DEFAULT_DATA, show_default=True, metavar="DIR")
@click.option(
    "--kubelet-root-dir",
    default="",
    metavar="DIR",
    help="Has plugins, plugins_registry and pod-resources, as a kubelet's.",
)
@click.option("--registry", default="", metavar="DIR", help=f"Instead of {REGISTRY}.")
@click.option(
    "--cdi",
    multiple=True,
    default=CDI_DIRECTORIES,
    show_default=True,
    metavar="DIR",
    help="May be given several times; later ones win.",
)
@click.option("--client-ca", default="", metavar="FILE", help="Instead of the kubeconfig's.")
@click.option("--client", "clients", multiple=True, help=f"Instead of {API_SERVERS[0]}.")
@click.option(
    "--runtime",
    type=click.Choice([known for known in selection.NAMES if known != simulated.NAME]),
    default=selection.AUTO,
    show_default=True,
    help="Container runtime; auto takes the first that works here.",
)
@click.option(
    "--allow-host-access",
    is_flag=True,
    help="Allow hostPath, hostNetwork, seccomp Unconfined and --runtime process.",
)
@click.option(
    "--allow-privileged",
    is_flag=True,
    help="Allow privileged containers: root of their pods is root of this computer.",
)
@click.option(
    "--images",
    default="",
    metavar="FILE",
    help="Commands and files that stand in for images, which the sandbox has not.",
)
@pod_options.max_pids
@pod_options.network
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="As in Kubernetes.")
@metrics_endpoint.option
def node(
    target: Target,
    name: str,
    address: str,
    port: int,
    labels: str,
    data: str,
    kubelet_root_dir: str,
    registry: str,
    cdi: tuple[str, ...],
    client_ca: str,
    clients: tuple[str, ...],
    runtime: str,
    allow_host_access: bool,
    allow_privileged: bool,
    images: str,
    pod_max_pids: int,
    pod_network: str,
    feature_gates: str,
    metrics_listen: str,
) -> None:
    """Make this computer a node and run the pods that are bound to it, until stopped.

    Containers keep running when it stops, and the next `dray node` finds them, as with a kubelet.
    Drivers put their sockets into --registry, or into plugins_registry of --kubelet-root-dir.
    """
    control_plane = target.connect()
    folder = foreground.private_directory(data)
    settings = Settings(
        name=name,
        address=address or _own_address(control_plane.server),
        port=port,
        labels=_labels(labels),
        folders=agent_directories(folder, kubelet_root_dir, registry, cdi),
        gates=features.parse(feature_gates),
        allows_host=allow_host_access,
        allows_privileged=allowed_privileged(allow_privileged),
        images=images_of(images, runtime),
        pod_max_pids=pod_max_pids,
        pod_network=pod_network,
        client_authority=_client_authority(client_ca, control_plane),
        clients=clients or API_SERVERS,
        metrics_listen=metrics_listen,
    )
    chosen = _chosen(runtime, allow_host_access)
    _check_network(pod_network, chosen)
    assert chosen.runtime is not None
    containers_in = chosen.runtime
    click.echo(f"Containers run in: {chosen.name} ({chosen.why}).")
    foreground.run(foreground.until_signalled(lambda: _run(target, settings, containers_in)))


def agent_directories(
    state: Path, root: str, registry: str, cdi: tuple[str, ...]
) -> AgentDirectories:
    """Return the directories of the agent. Raises WrongUsage for two registries."""
    if root and registry:
        raise WrongUsage("--registry: --kubelet-root-dir has one already; give one of them")
    found, resources = Path(registry or REGISTRY), state
    if root:
        resources = Path(root)
        found = resources / "plugins_registry"
        try:
            # Drivers expect it there, as of a kubelet.
            (resources / "plugins").mkdir(parents=True, exist_ok=True, mode=0o750)
        except OSError as error:
            raise WrongUsage(f"--kubelet-root-dir {root}: {error.strerror}") from error
    socket = resources / "pod-resources" / "kubelet.sock"
    return AgentDirectories(state, found, tuple(map(Path, cdi)), socket)


def allowed_privileged(is_wanted: bool) -> bool:
    """Return whether containers may be privileged. Raises WrongUsage for an ordinary user."""
    if is_wanted and os.geteuid() != 0:
        raise WrongUsage("--allow-privileged: only a node agent that is root can give such rights")
    return is_wanted


def images_of(path: str, runtime: str) -> ImageStandIns:
    """Return what a file says about images. Raises WrongUsage."""
    if path and runtime != sandbox.NAME:
        raise WrongUsage(f"--images is for --runtime {sandbox.NAME}, which has no images itself")
    try:
        return image_stand_ins.read(Path(path)) if path else image_stand_ins.NO_IMAGES
    except (OSError, ImagesError) as error:
        raise WrongUsage(f"--images {path}: {getattr(error, 'strerror', None) or error}") from error


def _chosen(runtime: str, allows_host: bool) -> Choice:
    try:
        choice = selection.choose(runtime, allows_host=allows_host)
    except RuntimeUnusable as error:
        raise CommandError(f"--runtime {runtime}: {error}.") from error
    if choice.runtime is None:
        raise CommandError(
            f"no runtime works here: {choice.why}.",
            "Allow user namespaces (Linux 5.12 or newer), or install podman.",
        )
    return choice


def _check_network(name: str, chosen: Choice) -> None:
    try:
        pod_networks.check(name, chosen.runtime)
    except NetworkUnusable as error:
        raise CommandError(f"--pod-network {name}: {error}.") from error


def _client_authority(path: str, connection: ClusterConnection) -> bytes:
    if path:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise WrongUsage(f"--client-ca {path}: {error.strerror}") from error
    if not connection.certificate_authority:
        raise WrongUsage("the kubeconfig has no certificate authority: name one with --client-ca")
    return connection.certificate_authority


def _labels(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    return {key: value for key, _, value in pairs}


def _own_address(server: str) -> str:
    """Return the address of this machine on the way to the API server."""
    parts = urlsplit(server)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((parts.hostname or "localhost", parts.port or 443))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


async def _run(target: Target, settings: Settings, runtime: Runtime) -> None:
    name, folders = settings.name, settings.folders
    authority = Authority.load_or_create(folders.state / "tls")
    served = RenewedPair(lambda: authority.server_pair((settings.address, name)))
    identity = Identity(served, settings.client_authority, settings.clients)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(foreground.client_of(target, FIELD_MANAGER))
        starter = await stack.enter_async_context(Starter())
        api_server = foreground.host_and_port(target.connect().server)
        runtime_config = _runtime_config(settings, runtime, starter, api_server)
        registry = telemetry.Registry()
        agent = Agent(
            client, name, settings.address, folders, runtime_config, now=utc_now, registry=registry
        )
        endpoint = Endpoint(agent.containers, identity)
        listening = endpoint.listening(settings.address, settings.port)
        advice = "Choose another port with --port; 0 takes any free port."
        wanted = f"{settings.address}:{settings.port}"
        port = await foreground.listen(stack, listening, wanted, advice)
        agent_address = AgentAddress(settings.address, port, served.certificate)
        registration = Registration(
            client,
            [host_info.node(name, settings.labels)],
            lease=name,
            runtime=runtime.name,
            now=utc_now,
            selection=ObjectSelection(field_selector=f"metadata.name={name}"),
        )
        status_updater = NodeStatusUpdater(
            client, name, runtime.name, agent_address, settings.gates
        )

        def is_ready() -> bool:
            return registration.is_complete and agent.is_ready

        metrics = metrics_endpoint.shown(settings.metrics_listen, registry, is_ready)
        await stack.enter_async_context(metrics)
        click.echo(f"Node {name} answers on {settings.address}:{port}.")
        async with asyncio.TaskGroup() as group:
            group.create_task(served.run(agent_address.publish))
            for part in (registration.run, status_updater.run, agent.run):
                group.create_task(part())


def _runtime_config(
    settings: Settings,
    runtime: Runtime,
    starter: Starter,
    api_server: tuple[str, int] | None,
) -> RuntimeConfig:
    """Return how pods run, with their network prepared."""
    network = PodNetwork(settings.pod_network, api_server=api_server)
    network.prepare()
    return RuntimeConfig(
        runtime=runtime,
        starter=starter,
        allows_host=settings.allows_host,
        allows_privileged=settings.allows_privileged,
        images=settings.images,
        network=network,
        pod_max_pids=settings.pod_max_pids,
    )

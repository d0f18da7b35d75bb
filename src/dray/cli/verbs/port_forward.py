"""`dray port-forward`: local ports that lead to ports of a pod."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click
import msgspec

from dray.api import kinds
from dray.api.selectors import label_selectors
from dray.api.types.meta import JsonObject, LabelSelector
from dray.cli.command_errors import CommandError, DrayCommand, ObjectNotFound, TimedOut, WrongUsage
from dray.cli.output import durations
from dray.cli.session import connection, resource_types
from dray.cli.session.connection import Session, Target
from dray.cli.verbs import listing
from dray.client import port_forward as pod_ports
from dray.client.api_client import ObjectSelection
from dray.client.port_forward import PodPorts

LOCALHOST = ("127.0.0.1", "::1")
MAX_PORT = 65535
POLL_SECONDS = 0.5


class ForwardedPort(NamedTuple):
    """A local port, 0 for any free one, None for the same as the remote one."""

    local: int | None
    remote: str


class ResolvedPort(NamedTuple):
    local: int
    remote: int


@click.command("port-forward", cls=DrayCommand)
@click.argument("name", metavar="TYPE/NAME")
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...")
@connection.options
@click.option(
    "--address",
    default="localhost",
    show_default=True,
    help="Addresses to listen on, separated by commas.",
)
@click.option(
    "--pod-running-timeout",
    default="1m",
    show_default=True,
    metavar="DURATION",
    callback=durations.parse,
    help="How long to wait for a running pod of TYPE/NAME.",
)
def port_forward(
    target: Target, name: str, ports: tuple[str, ...], address: str, pod_running_timeout: float
) -> None:
    """Forward local ports to a pod, or to a pod of a service or workload, until interrupted.

    8080:80 listens on port 8080 and connects to port 80 of the pod, :80 listens on any free
    port, and 80 on the same one. A name of a port may stand for its number.
    """
    pairs = [_parsed(text) for text in ports]
    addresses = _addresses(address)

    async def forward(session: Session) -> None:
        pod, resolved = await _resolved(session, name, pairs, pod_running_timeout)
        await _forward(session, pod, resolved, addresses)

    connection.run(target, forward)


def _parsed(text: str) -> ForwardedPort:
    local, colon, remote = text.rpartition(":")
    if not remote or ":" in local or (remote.isdecimal() and not 0 < int(remote) <= MAX_PORT):
        raise WrongUsage(f"{text}: write [LOCAL:]REMOTE, such as 8080:80, :80 or 80")
    if not colon:
        return ForwardedPort(None, remote)
    if local and not (local.isdecimal() and int(local) <= MAX_PORT):
        raise WrongUsage(f"{text}: the local port must be a number from 0 to {MAX_PORT}")
    return ForwardedPort(int(local or 0), remote)


def _addresses(text: str) -> list[str]:
    """Return the addresses to listen on; localhost is both of its addresses."""
    found: list[str] = []
    for part in text.split(","):
        try:
            found += LOCALHOST if part == "localhost" else [str(ipaddress.ip_address(part))]
        except ValueError:
            raise WrongUsage(f"--address {part}: that is no IP address, nor localhost") from None
    return list(dict.fromkeys(found))


async def _resolved(
    session: Session, text: str, pairs: Sequence[ForwardedPort], seconds: float
) -> tuple[str, list[ResolvedPort]]:
    """Return the pod to forward to, and the numbers of its ports."""
    (reference,) = await resource_types.resolve(
        [text if "/" in text else f"pod/{text}"], session.resources
    )
    namespace = session.namespace_of(reference.kind)
    found = await session.client.get(reference.kind, reference.name, namespace)
    if reference.kind.kind == "Pod":
        pod, phase = found, found["status"].get("phase")
        if phase != "Running":
            raise CommandError(f"pod {reference.name} is not running but {phase}")
    else:
        pod = await _running_pod(session, text, found, seconds)
    service = found if reference.kind.kind == "Service" else None
    return pod["metadata"]["name"], [_numbers(pair, pod, service) for pair in pairs]


async def _running_pod(
    session: Session, text: str, owner: JsonObject, seconds: float
) -> JsonObject:
    """Wait until a pod that an object selects is running, and return it."""
    selector = (owner.get("spec") or {}).get("selector")
    if not selector:
        raise ObjectNotFound(f"{text} selects no pods; write pod/NAME")
    if owner["kind"] in ("Service", "ReplicationController"):
        selector = {"matchLabels": selector}
    labels = str(label_selectors.label_selector(msgspec.convert(selector, LabelSelector)))
    selection = ObjectSelection(session.namespace, labels)
    try:
        async with asyncio.timeout(seconds):
            while True:
                for pod in await listing.listed(session, kinds.POD, selection):
                    is_going = pod["metadata"].get("deletionTimestamp")
                    if pod["status"].get("phase") == "Running" and not is_going:
                        return pod
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise TimedOut(
            f"{text} has had no running pod for {seconds:g} s",
            f"See its pods: dray get pods -n {session.namespace} -l {labels}",
        ) from None


def _numbers(pair: ForwardedPort, pod: JsonObject, service: JsonObject | None) -> ResolvedPort:
    if service is None:
        remote = _container_port(pod, pair.remote)
        return ResolvedPort(remote if pair.local is None else pair.local, remote)
    entry = _service_port(service, pair.remote)
    port = int(entry["port"])
    is_headless = service["spec"].get("clusterIP") == "None"
    wanted = port if is_headless else entry.get("targetPort") or port
    local = port if pair.local is None else pair.local
    return ResolvedPort(local, _container_port(pod, str(wanted)))


def _container_port(pod: JsonObject, wanted: str) -> int:
    """Return the number of a port of a pod. Raises CommandError for UDP and unknown names."""
    entries = list(_container_ports(pod))
    name = pod["metadata"]["name"]
    if wanted.isdecimal():
        number = int(wanted)
    else:
        numbers = [entry["containerPort"] for entry in entries if entry.get("name") == wanted]
        if not numbers:
            raise CommandError(f"pod {name} has no port with the name {wanted}")
        number = int(numbers[0])
    _refuse_udp(wanted, [entry for entry in entries if entry["containerPort"] == number])
    return number


def _container_ports(pod: JsonObject) -> Iterator[JsonObject]:
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        yield from container.get("ports") or ()


def _service_port(service: JsonObject, wanted: str) -> JsonObject:
    entries: list[JsonObject] = service["spec"].get("ports") or []
    found = [entry for entry in entries if wanted in (str(entry["port"]), entry.get("name"))]
    if not found:
        name = service["metadata"]["name"]
        shown = ", ".join(str(entry["port"]) for entry in entries) or "none"
        raise CommandError(f"service {name} has no port {wanted}", f"It has: {shown}.")
    _refuse_udp(wanted, found)
    return found[0]


def _refuse_udp(wanted: str, entries: Sequence[JsonObject]) -> None:
    if entries and all(entry.get("protocol") == "UDP" for entry in entries):
        raise CommandError(f"port {wanted} is of UDP, which cannot be forwarded")


async def _forward(
    session: Session, pod: str, ports: Sequence[ResolvedPort], addresses: Sequence[str]
) -> None:
    """Forward until interrupted. Raises CommandError when the connection is lost."""
    local_ports = LocalPorts(await pod_ports.opened(session.client, pod, session.namespace))
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    try:
        for port in ports:
            await local_ports.listen(port, addresses)
        await local_ports.run(interrupted)
    finally:
        await local_ports.close()
    if not interrupted.is_set():
        raise CommandError(f"lost the connection to pod {pod}")


class LocalPorts:
    """Ports of this computer that lead to ports of a pod."""

    def __init__(self, forwarded: PodPorts) -> None:
        self._forwarded = forwarded
        self._servers: list[asyncio.Server] = []
        self._running = asyncio.create_task(forwarded.run())
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, port: ResolvedPort, addresses: Sequence[str]) -> None:
        """Listen on one port of all addresses; of those of localhost one is enough."""
        local, failures = port.local, []
        for address in addresses:
            try:
                local = await self._listen(address, local, port.remote)
            except OSError as error:
                failures.append(f"{address}: {os.strerror(error.errno or 0)}")
                if address not in LOCALHOST or len(failures) == len(addresses):
                    raise CommandError(
                        f"cannot listen on port {local}: {'; '.join(failures)}",
                        f"Let it take a free one: dray port-forward TYPE/NAME :{port.remote}",
                    ) from error

    async def _listen(self, address: str, local: int, remote: int) -> int:
        """Listen on a port of one address; return its number."""

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._exchange(remote, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(accept, address, local)
        self._servers.append(server)
        number = int(server.sockets[0].getsockname()[1])
        shown = f"[{address}]" if ":" in address else address
        click.echo(f"Forwarding from {shown}:{number} -> {remote}")
        return number

    async def _exchange(
        self, remote: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        local = writer.get_extra_info("sockname")[1]
        click.echo(f"Handling connection for {local}")
        try:
            failure = await self._forwarded.exchange(remote, reader, writer)
        finally:
            writer.close()
        if failure:
            click.echo(f"Cannot forward {local} -> {remote}: {failure}", err=True)

    async def run(self, interrupted: asyncio.Event) -> None:
        """Wait until the connection to the pod is over, or the user wants no more."""
        stopping = asyncio.create_task(interrupted.wait())
        await asyncio.wait({self._running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = {self._running, *self._tasks}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

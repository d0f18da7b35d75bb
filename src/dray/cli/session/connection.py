"""The cluster of a command: its options, and a session with it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from dray.api.kinds import Kind
from dray.cli import cluster_options
from dray.cli.command_errors import WrongUsage
from dray.cli.session import cluster_choice
from dray.cli.session.cluster_choice import ClusterChoice
from dray.cli.session.read_only import ReadOnlyTransport
from dray.cli.session.resource_types import ObjectArgument, Resources
from dray.client import kubeconfig as kubeconfigs
from dray.client.api_client import Client

FIELD_MANAGER = "dray"
PATIENCE_SECONDS = 0.05
"""A command opens a second connection only if the first one is busy for longer."""
STEPS_TO_CLOSE = 8

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster and a namespace from the command line; "" means kubectl's default."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    all_namespaces: bool = False
    read_only: bool = False
    """Whether requests that could change something are refused before they are sent."""

    def connect(self) -> kubeconfigs.ClusterConnection:
        return self.choose().connection

    def choose(self) -> ClusterChoice:
        return cluster_choice.choose(self.kubeconfig, self.context)


@dataclass(frozen=True, slots=True)
class Session:
    """A connected client, and the namespace for names without one."""

    client: Client
    namespace: str
    server: str
    resources: Resources

    def namespace_of(self, kind: Kind) -> str:
        """Return the namespace for names of a kind, "" for kinds without namespaces."""
        return self.namespace if kind.namespaced else ""

    def place(self, reference: ObjectArgument) -> str:
        """Return the namespace of an object, or of the objects to list."""
        return reference.namespace or self.namespace_of(reference.kind)


def options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig, --context and --namespace; the command receives them as `target`."""

    @functools.wraps(function)
    def wrapped(kubeconfig: str, context: str, namespace: str, **rest: Any) -> Any:
        everywhere = rest.pop("all_namespaces", False)
        return function(target=Target(kubeconfig, context, namespace, everywhere), **rest)

    return cluster_options.added(wrapped)


def options_of_cluster(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig and --context to a command for which a namespace has no meaning."""

    @functools.wraps(function)
    def wrapped(target: Target, **rest: Any) -> Any:
        if target.namespace:
            raise WrongUsage("-n has no effect here: the command is about the whole cluster")
        return function(target=target, **rest)

    return options(wrapped)


all_namespaces_option = click.option(
    "--all-namespaces", "-A", is_flag=True, help="In every namespace."
)


def run(target: Target, body: Callable[[Session], Awaitable[Answer]]) -> Answer:
    """Run `body` with a session of the chosen cluster."""
    answers: list[Answer] = []

    async def work() -> None:
        answers.append(await _with_session(target, body))

    # Not as the task's result: asyncio.run makes a text of that, twice, however large it is.
    asyncio.run(work())
    return answers[0]


async def _with_session(target: Target, body: Callable[[Session], Awaitable[Answer]]) -> Answer:
    # Imported here, because commands on files do not need it.
    from dray.client.rest import RestTransport

    chosen = target.choose()
    connection = chosen.connection
    async with RestTransport(
        connection, patience=PATIENCE_SECONDS, on_warning=_warning_once()
    ) as transport:
        sender = ReadOnlyTransport(transport) if target.read_only else chosen.announcing(transport)
        client = Client(sender, field_manager=FIELD_MANAGER)
        namespace = "" if target.all_namespaces else target.namespace or connection.namespace
        try:
            return await body(Session(client, namespace, connection.server, Resources(client)))
        finally:
            await _end_streams()


async def _end_streams() -> None:
    """Close unused streams while their connections can still do so."""
    for _ in range(STEPS_TO_CLOSE):
        await asyncio.sleep(0)


def _warning_once() -> Callable[[str], None]:
    """Return a function that prints a server's warning once, as kubectl does."""
    shown: set[str] = set()

    def warn(text: str) -> None:
        if text not in shown:
            shown.add(text)
            click.secho("Warning:", fg="yellow", nl=False, err=True)
            click.echo(f" {text}", err=True)

    return warn

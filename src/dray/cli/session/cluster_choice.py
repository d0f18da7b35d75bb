"""The choice of a cluster for a command.

An explicit kubeconfig or context wins, then $KUBECONFIG, then the `dray up` that runs here, then
kubectl's default. If a `dray up` runs beside a kubeconfig for another cluster, a command that
writes prints which one it uses.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

import click

from dray.api.http_messages import Request, Response
from dray.cli.session import up_instance
from dray.client import kubeconfig as kubeconfigs
from dray.client.api_client import Transport
from dray.client.kubeconfig import ClusterConnection, KubeconfigError

READING = frozenset({"GET", "HEAD", "OPTIONS"})
REVIEWS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
"""Requests that are POSTs but write nothing."""


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """A cluster; `notice` says which one it is if the user could mean another."""

    connection: ClusterConnection
    notice: str = ""

    def announcing(self, transport: Transport) -> Transport:
        """Return a transport that prints the notice before the first request that writes."""
        return _AnnouncingTransport(transport, self.notice) if self.notice else transport


class _AnnouncingTransport:
    def __init__(self, transport: Transport, notice: str) -> None:
        self._transport = transport
        self._notice = notice

    async def send(self, request: Request) -> Response:
        if self._notice and _writes(request):
            click.echo(self._notice, err=True)
            self._notice = ""
        return await self._transport.send(request)


def _writes(request: Request) -> bool:
    if request.method in READING:
        return "upgrade" in request.headers
    return not request.path.startswith(REVIEWS)


def choose(kubeconfig: str, context: str) -> ClusterChoice:
    """Return the cluster of a command's options. Raises KubeconfigError if there is none."""
    if kubeconfig or os.environ.get("KUBECONFIG"):
        return ClusterChoice(kubeconfigs.load(kubeconfig or None, context=context or None))
    running, has_own = _running_kubeconfig(), _own_kubeconfig().exists()
    if has_own and context:
        return ClusterChoice(kubeconfigs.load(context=context))
    if running is not None:
        connection = kubeconfigs.load(running, context=context or None)
        return ClusterChoice(connection, _notice(connection))
    if has_own:
        connection = kubeconfigs.load()
        return ClusterChoice(connection, _notice_without_up(connection))
    try:
        return ClusterChoice(kubeconfigs.load(context=context or None))
    except KubeconfigError as error:
        raise KubeconfigError(f"{error} Or start a cluster: dray up") from error


def data_directory() -> Path:
    """Return the data directory of a `dray up` without --data."""
    return Path(os.environ.get("DRAY_UP_DATA") or up_instance.DEFAULT_DATA).expanduser()


def _running_kubeconfig() -> Path | None:
    """Return the kubeconfig of the `dray up` that runs on the default data directory, or None."""
    directory = data_directory()
    with contextlib.suppress(OSError):
        running = up_instance.find(directory)
        if running is not None and running.url:
            return directory / "kubeconfig"
    return None


def _own_kubeconfig() -> Path:
    return Path.home() / ".kube" / "config"


def _notice_without_up(connection: ClusterConnection) -> str:
    """Return a notice if the user has a `dray up` that does not run now."""
    if not (data_directory() / "kubeconfig").exists():
        return ""
    return (
        f"Using {connection.server} (context {connection.context} of {_own_kubeconfig()}): "
        "`dray up` does not run."
    )


def _notice(connection: ClusterConnection) -> str:
    """Return a notice if kubectl would use another cluster."""
    if not _own_kubeconfig().exists():
        return ""
    with contextlib.suppress(KubeconfigError, OSError):
        if kubeconfigs.load().server == connection.server:
            return ""
    return (
        f"Using the cluster of `dray up` at {connection.server}, not {_own_kubeconfig()}. "
        "Choose another with --kubeconfig or --context."
    )

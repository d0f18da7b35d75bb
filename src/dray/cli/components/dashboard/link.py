"""The address of a dashboard, and the link that opens it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dray import durable_files, supervision
from dray.cli.command_errors import WrongUsage
from dray.cli.components import foreground

if TYPE_CHECKING:
    from dray.cluster.assembly import RunningCluster

NONE = "none"
EXAMPLE = "127.0.0.1:8765"
FILE = "dashboard-link"
"""The name of the file in the data directory that has a link which still works."""
ADVICE = "Choose another address with --ui-listen; port 0 takes any free port."


class DashboardPlace(NamedTuple):
    """The address of a dashboard, the file for its links, and names of the server that has it."""

    host: str
    port: int
    file: Path
    names: tuple[str, ...]


def parse(text: str, option: str) -> tuple[str, int] | None:
    """Return the address of an option's value; None if there is to be no dashboard.

    Raises WrongUsage for one that other machines can reach: it is plain HTTP.
    """
    if text == NONE:
        return None
    host, port = foreground.parse_listen(text, option, EXAMPLE)
    if not _is_local(host):
        raise WrongUsage(
            f"{option} {text}: only an address of this machine itself, such as {EXAMPLE}",
            "Others open /ui/ of the API server of `dray up`, which has HTTPS.",
        )
    return host, port


def _is_local(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def of(url: str, key: str) -> str:
    """Return the link; browsers do not send what follows #, so the key is in no log."""
    return f"{url}/ui/#key={key}"


@contextlib.asynccontextmanager
async def of_cluster(
    cluster: RunningCluster, place: DashboardPlace, history: Path | None
) -> AsyncIterator[str]:
    """Serve the dashboard of a cluster, here and on its API server; yields the link."""
    # Not every cluster has one.
    from dray.cluster import dashboards
    from dray.ui.web import plain_server
    from dray.ui.web.secure_pages import SecurePages

    name = "dray up"
    dashboard = dashboards.opened(cluster, name, history)
    host, port = place.host, place.port
    async with contextlib.AsyncExitStack() as stack:
        serving = plain_server.serving(dashboard, host, port)
        url = await foreground.listen(stack, serving, f"{host}:{port}", ADVICE)
        running = asyncio.create_task(supervision.run_forever("dashboard", dashboard.run))
        cluster.opened.server.pages = SecurePages(dashboard, place.names)
        try:
            key = dashboard.keep_key(
                lambda key: durable_files.replace_file(
                    place.file, f"{of(url, key)}\n".encode(), durable=False
                )
            )
            yield of(url, key)
        finally:
            place.file.unlink(missing_ok=True)
            cluster.opened.server.pages = None
            running.cancel()
            await asyncio.wait([running])

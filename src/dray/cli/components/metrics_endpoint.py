"""`--metrics-listen`: metrics and health of a component while it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable

import click

from dray import telemetry
from dray.cli.components import foreground
from dray.client.lease import LeaderElection

EXAMPLE = "127.0.0.1:9400"
ADVICE = "Choose another address with --metrics-listen; port 0 takes any free port."

option = click.option(
    "--metrics-listen",
    default="",
    metavar="HOST:PORT",
    help="Serve /metrics, /livez and /readyz there, over plain HTTP.",
)


@contextlib.asynccontextmanager
async def shown(
    listen: str, registry: telemetry.Registry, is_ready: Callable[[], bool]
) -> AsyncIterator[None]:
    """Serve metrics at an address while the block runs. Without an address, serve nothing."""
    if not listen:
        yield
        return
    # The HTTP server takes long to import, and most do without.
    from dray import metrics_http

    host, port = foreground.parse_listen(listen, "--metrics-listen", EXAMPLE)
    metrics_http.register_process(registry)
    async with contextlib.AsyncExitStack() as stack:
        serving = metrics_http.serving(registry, host, port, is_ready)
        port = await foreground.listen(stack, serving, listen, ADVICE)
        written_host = f"[{host}]" if ":" in host else host
        click.echo(f"Metrics and health are at http://{written_host}:{port}")
        yield


class LeaderReadiness:
    """Readiness of an elected component: its caches are in sync, or it is a standby replica."""

    def __init__(self, election: LeaderElection | None) -> None:
        self.election = election
        self.started = asyncio.Event()
        self.registry = telemetry.Registry()
        if election is not None:

            def leads() -> Iterable[tuple[telemetry.Labels, float]]:
                return [((election.name,), int(election.is_leading))]

            text = "Whether this process is the leader (1) or a standby replica (0)."
            gauge = telemetry.Gauge("leader_election_master_status", text, ("name",), leads)
            self.registry.register(gauge)

    def is_ready(self) -> bool:
        return self.started.is_set() or (self.election is not None and self.election.is_standing_by)

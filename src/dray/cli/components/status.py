"""`dray status`: whether a cluster is up, its settings, and its health."""

from __future__ import annotations

import http
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click
import msgspec

from dray.api import kinds
from dray.api.formats.durations import since
from dray.api.http_messages import Request
from dray.cli import command_errors
from dray.cli.command_errors import CommandError, DrayCommand, Unreachable
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, up_instance
from dray.cli.session.connection import Session, Target
from dray.cli.session.up_instance import DEFAULT_DATA, UpInstance
from dray.cli.verbs import devices, listing
from dray.client.api_client import ObjectSelection
from dray.clock import utc_now

Counts = dict[str, dict[str, int]]


@click.command("status", cls=DrayCommand)
@click.option("--data", default=DEFAULT_DATA, show_default=True, metavar="DIR")
@formats.option
def status(data: str, format: OutputFormat) -> None:
    """Say whether `dray up` runs on a data directory, and how its cluster is.

    The exit code is 0 while it is up and well, 1 while its API server is not ready (as when writes
    fail), 3 when it is down or does not answer.
    """
    directory = Path(data).expanduser()
    running = up_instance.find(directory)
    counts, trouble = _counted(directory, running)
    if not format.is_table:
        formats.show_document(_document(directory, running, counts), format)
    elif running is None:
        option = "" if data == DEFAULT_DATA else f" --data {data}"
        click.echo(f"dray is not up on {directory}. Start it with: dray up{option}")
    else:
        _show(directory, running, counts)
    if trouble is not None:
        raise trouble
    if running is None:
        sys.exit(Unreachable.exit_code)


def _counted(directory: Path, running: UpInstance | None) -> tuple[Counts, CommandError | None]:
    if running is None or not running.url:
        return {}, None
    try:
        with command_errors.reported():
            target = Target(kubeconfig=str(directory / "kubeconfig"), all_namespaces=True)
            return connection.run(target, _read)
    except CommandError as failure:
        return {}, failure


async def _read(session: Session) -> tuple[Counts, CommandError | None]:
    return await _counts(session), await _readiness_error(session)


async def _readiness_error(session: Session) -> CommandError | None:
    """Return the failed readiness checks of the API server as an error, or None."""
    response = await session.client.raw(Request("GET", "/readyz"))
    if response.status == http.HTTPStatus.OK:
        return None
    failed = [line[3:] for line in response.body.decode().splitlines() if line.startswith("[-]")]
    return CommandError(f"the API server is not ready: {'; '.join(failed) or response.status}")


async def _counts(session: Session) -> Counts:
    nodes = await listing.listed(session, kinds.NODE, ObjectSelection())
    pods = await listing.listed(session, kinds.POD, ObjectSelection())
    claims = await listing.listed(session, kinds.RESOURCE_CLAIM, ObjectSelection())
    states = await devices.published_states(session)
    return {
        "nodes": Counter("ready" if _is_ready(node) else "not ready" for node in nodes),
        "devices": Counter(states.values()),
        "claims": Counter(_claim_state(claim) for claim in claims),
        "pods": Counter(_pod_state(pod) for pod in pods),
    }


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return ("Ready", "True") in ((item["type"], item["status"]) for item in conditions)


def _claim_state(claim: dict[str, Any]) -> str:
    return "allocated" if (claim.get("status") or {}).get("allocation") else "pending"


def _pod_state(pod: dict[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending").lower()


def _document(directory: Path, running: UpInstance | None, counts: Counts) -> dict[str, Any]:
    about = msgspec.to_builtins(running) if running else {}
    return {"up": running is not None, "data": str(directory), **about, **counts}


def _show(directory: Path, running: UpInstance, counts: Counts) -> None:
    state = "up" if running.url else "starting"
    age = f" for {since(running.since, utc_now())}" if running.since else ""
    rows = {
        "": f"dray is {state}{age} at {running.url}" if running.url else f"dray is {state}",
        "process": str(running.pid),
        "kubeconfig": str(directory / "kubeconfig"),
        "store": running.store,
        "fleet": running.fleet,
        "runtime": running.runtime,
        "components": ", ".join(running.components),
        **{name: _in_words(counted) for name, counted in counts.items()},
    }
    for name, value in rows.items():
        if value:
            click.echo(f"{name + ':':<12} {value}" if name else value)


def _in_words(counts: dict[str, int]) -> str:
    parts = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
    return f"{sum(counts.values())} ({parts})" if parts else "0"

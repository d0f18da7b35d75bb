"""`dray status`: whether a cluster is up, its settings, and its health."""

from __future__ import annotations

import http
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click
import msgspec

from dray.api.formats.durations import since
from dray.api.http_messages import Request
from dray.api.semantics.conditions import find_condition
from dray.api.types.dra import DeviceClass, ResourceClaim
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.cli import command_errors
from dray.cli.command_errors import CommandError, DrayCommand, Unreachable
from dray.cli.inputs import cluster_objects, fitting_pods, published_devices
from dray.cli.output import counts, formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, up_instance
from dray.cli.session.connection import Session, Target
from dray.cli.session.up_instance import DEFAULT_DATA, UpInstance
from dray.clock import utc_now

Counts = dict[str, dict[str, int]]
MORE_PODS_FIT, AT_LEAST = "morePodsFit", "atLeastMorePodsFit"
"""How many more pods fit that ask for one device, by class; at least so many, if time ran out."""


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
    numbers, trouble = _counted(directory, running)
    if not format.is_table:
        formats.show_document(_document(directory, running, numbers), format)
    elif running is None:
        option = "" if data == DEFAULT_DATA else f" --data {data}"
        click.echo(f"dray is not up on {directory}. Start it with: dray up{option}")
    else:
        _show(directory, running, numbers)
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
    objects = await cluster_objects.from_cluster(session)
    wholes, partitions = published_devices.wholes_and_partitions(published_devices.of(objects))
    classes = sorted(device_class.metadata.name for device_class in objects.of(DeviceClass))
    fits = fitting_pods.by_class(objects, classes)
    return {
        "nodes": Counter(map(_node_state, objects.of(Node))),
        "devices": published_devices.count_by_state(wholes),
        "partitions": published_devices.count_by_state(partitions),
        "claims": Counter(map(_claim_state, objects.of(ResourceClaim))),
        "pods": Counter((pod.status.phase or "Pending").lower() for pod in objects.of(Pod)),
        MORE_PODS_FIT: {name: fit.pods for name, fit in fits.items() if fit.is_complete},
        AT_LEAST: {name: fit.pods for name, fit in fits.items() if not fit.is_complete},
    }


def _node_state(node: Node) -> str:
    ready = find_condition(node.status.conditions, "Ready")
    return "ready" if ready is not None and ready.status == "True" else "not ready"


def _claim_state(claim: ResourceClaim) -> str:
    return "allocated" if claim.status.allocation else "pending"


def _document(directory: Path, running: UpInstance | None, numbers: Counts) -> dict[str, Any]:
    about = msgspec.to_builtins(running) if running else {}
    shown = {name: counted for name, counted in numbers.items() if counted or name != AT_LEAST}
    return {"up": running is not None, "data": str(directory), **about, **shown}


def _show(directory: Path, running: UpInstance, numbers: Counts) -> None:
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
        **{
            name: counts.counted(counted)
            for name, counted in numbers.items()
            if name not in (MORE_PODS_FIT, AT_LEAST) and (counted or name != "partitions")
        },
        "more pods": _fits(numbers),
    }
    for name, value in rows.items():
        if value:
            click.echo(f"{name + ':':<12} {value}" if name else value)


def _fits(numbers: Counts) -> str:
    """Return how many more pods fit that ask for one device, by class."""
    exact = [f"{number} with {name}" for name, number in numbers.get(MORE_PODS_FIT, {}).items()]
    least = [f"at least {number} with {name}" for name, number in numbers.get(AT_LEAST, {}).items()]
    return f"{', '.join([*exact, *least])} fit" if exact or least else ""

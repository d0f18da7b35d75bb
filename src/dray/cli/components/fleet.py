"""`dray fleet`: lists and shows simulated fleets, and breaks, heals and scales a running one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from dray.allocator import device_values
from dray.api import errors, kinds, well_known
from dray.cli.command_errors import DrayCommand, ObjectNotFound, WrongUsage
from dray.cli.inputs import cluster_objects, fleet_counts
from dray.cli.lazy_group import LazyGroup, completer
from dray.cli.output import counts, durations, formats, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import Session, Target
from dray.cli.verbs import listing
from dray.client import object_writes
from dray.client.api_client import ObjectSelection
from dray.driverkit.pool_layout import PublishedPool
from dray.drivers.simulated import faults, fleet_file, scaling
from dray.drivers.simulated import fleet as fleets
from dray.drivers.simulated.fleet import FLEET_LABEL, Fleet
from dray.node.runtimes import simulated

FAULT_ANNOTATIONS = (faults.FAILED_ANNOTATION, faults.SLOW_ANNOTATION, faults.CRASH_ANNOTATION)
EFFECTS = (well_known.NO_EXECUTE, well_known.NO_SCHEDULE, "None")

Annotations = dict[str, str]
Changes = dict[str, str | None]
"""Annotations to set; those with None are removed."""
Edit = Callable[[Annotations], Changes]

_COMMANDS = {
    "list": ("components.fleet:list_", "The fleets that come with dray."),
    "show": ("components.fleet:show", "The machines and devices of one."),
    "fail": ("components.fleet:fail", "Break devices of a node."),
    "slow": ("components.fleet:slow", "Make a node prepare claims slowly."),
    "crash": ("components.fleet:crash", "Let a node's driver crash while it prepares."),
    "heal": ("components.fleet:heal", "Repair devices, or everything that was done to a node."),
    "scale": ("components.fleet:scale", "Change the number of machines."),
}

fleet = LazyGroup(_COMMANDS, name="fleet", help="Simulated machines, and what becomes of them.")


@click.command("list", cls=DrayCommand)
@formats.option
def list_(format: OutputFormat) -> None:
    """List the fleets that come with dray: `dray up --fleet NAME`."""
    shipped = [fleets.load(name) for name in fleets.shipped()]
    if format.is_table:
        header = ["NAME", "NODES", "DEVICES", "PARTITIONS", "DESCRIPTION"]
        rows = [
            [item.name, *map(str, fleet_counts.count(item)[:3]), item.description]
            for item in shipped
        ]
        tables.show(tables.right_aligned([header, *rows], (1, 2, 3)), has_header=True)
    elif format.name == "name":
        click.echo("\n".join(item.name for item in shipped))
    else:
        formats.show_document({"kind": "FleetList", "items": list(map(_summary, shipped))}, format)


def _summary(described: Fleet) -> dict[str, Any]:
    counted = fleet_counts.count(described)
    return {
        "name": described.name,
        "description": described.description,
        "nodes": counted.machines,
        "devices": dict(counted.models),
        "partitions": counted.partitions,
        "classes": [device_class.metadata.name for device_class in described.classes()],
    }


@click.command("show", cls=DrayCommand)
@click.argument("name", shell_complete=completer("fleets"))
@click.option("--nodes", type=int, help="How many machines of each kind.")
@formats.option
def show(name: str, nodes: int | None, format: OutputFormat) -> None:
    """Show the machines of a fleet, by name or file, and one device of each model.

    -o yaml gives all nodes, classes and slices.
    """
    try:
        described = fleets.load(name, nodes=nodes)
    except fleet_file.FleetError as error:
        raise WrongUsage(str(error), "See which there are: dray fleet list") from error
    if not format.is_table:
        formats.show_document(formats.as_list(cluster_objects.documents_of(described)), format)
        return
    click.echo(f"{described.name}: {described.description}\n")
    _show_machines(described)
    for pool in _first_pools(described):
        click.echo()
        _show_devices(pool)


def _show_machines(described: Fleet) -> None:
    header = ["MACHINES", "COUNT", "ARCHITECTURE", "DEVICES"]
    rows = []
    for group in described.blueprint.nodes:
        models = ", ".join(
            f"{item.count} {item.model}{' (partitionable)' if item.partitioned else ''}"
            for groups in group.devices.values()
            for item in groups
        )
        rows.append([group.name, str(group.count), group.architecture, models])
    tables.show([header, *rows], has_header=True)


def _first_pools(described: Fleet) -> list[PublishedPool]:
    """Return the pools of the first machine of each kind, and those without a machine."""
    firsts = {id(machine.group): machine for machine in reversed(described.machines.values())}
    machines = list(firsts.values())[::-1]
    return [*(pool for item in machines for pool in item.pools()), *described.shared_pools()]


def _show_devices(pool: PublishedPool) -> None:
    """Print the first device of a pool with all it publishes, the others by name."""
    names = [device.name for device in pool.devices]
    click.secho(f"{pool.driver} on {pool.name}: {_some(names)}", bold=True)
    first = pool.devices[0]
    rows = [
        [name, tables.cell_text(device_values.value_of(value))]
        for name, value in sorted(first.attributes.items())
    ]
    rows += [[name, value.value] for name, value in sorted(first.capacity.items())]
    for line in tables.aligned(rows):
        click.echo(f"  {line}")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more


@click.command("fail", cls=DrayCommand)
@click.argument("node", shell_complete=completer("nodes"))
@click.argument("names", metavar="DEVICE…", nargs=-1, required=True)
@connection.options_of_cluster
@click.option("--effect", type=click.Choice(EFFECTS), default=EFFECTS[0], show_default=True)
def fail(target: Target, node: str, names: tuple[str, ...], effect: str) -> None:
    """Break devices of a node, as if the hardware did: their driver taints them."""

    def edit(annotations: Annotations) -> Changes:
        failed = {**faults.read(annotations).failed, **dict.fromkeys(names, effect)}
        return {faults.FAILED_ANNOTATION: _failed_annotation(failed)}

    async def body(session: Session) -> None:
        await _simulated_node(session, node)
        await _require_devices(session, node, names)
        await _edit(session, node, edit)

    connection.run(target, body)
    click.echo(f"{node}: {', '.join(names)} failed ({effect})")


def _failed_annotation(failed: Mapping[str, str]) -> str | None:
    return ",".join(f"{name}:{effect}" for name, effect in failed.items()) or None


@click.command("slow", cls=DrayCommand)
@click.argument("node", shell_complete=completer("nodes"))
@click.argument("delay", metavar="DURATION")
@connection.options_of_cluster
def slow(target: Target, node: str, delay: str) -> None:
    """Make preparing a claim take so long on a node, such as 5s.

    Its containers must run: simulated pods prepare nothing.
    """
    try:
        durations.seconds(delay)
    except ValueError as error:
        raise WrongUsage(f"{delay}: write 500ms, 5s or 1m") from error
    _disturb_preparation(target, node, {faults.SLOW_ANNOTATION: delay})
    click.echo(f"{node}: preparing a claim takes {delay}")


@click.command("crash", cls=DrayCommand)
@click.argument("node", shell_complete=completer("nodes"))
@connection.options_of_cluster
def crash(target: Target, node: str) -> None:
    """Let the driver of a node crash whenever it prepares a claim, until the node is healed.

    Its containers must run: simulated pods prepare nothing.
    """
    _disturb_preparation(target, node, {faults.CRASH_ANNOTATION: "true"})
    click.echo(f"{node}: its driver crashes when it prepares a claim")


@click.command("heal", cls=DrayCommand)
@click.argument("node", shell_complete=completer("nodes"))
@click.argument("names", metavar="[DEVICE…]", nargs=-1)
@connection.options_of_cluster
def heal(target: Target, node: str, names: tuple[str, ...]) -> None:
    """Repair devices of a node; without names, everything that was done to the node."""

    def edit(annotations: Annotations) -> Changes:
        if not names:
            return dict.fromkeys(FAULT_ANNOTATIONS)
        failed = faults.read(annotations).failed
        sound = [name for name in names if name not in failed]
        if sound:
            there_are = (
                f"Failed: {_some(sorted(failed))}" if failed else "No device of it has failed."
            )
            raise ObjectNotFound(f"{sound[0]} of node {node} has not failed", there_are)
        left = {name: effect for name, effect in failed.items() if name not in names}
        return {faults.FAILED_ANNOTATION: _failed_annotation(left)}

    connection.run(target, lambda session: _edit(session, node, edit))
    click.echo(f"{node}: {', '.join(names) or 'everything'} healed")


@click.command("scale", cls=DrayCommand)
@click.argument("nodes", type=click.IntRange(0))
@connection.options_of_cluster
@click.option("--fleet", "name", default="", help="Which, where a cluster has several.")
def scale(target: Target, nodes: int, name: str) -> None:
    """Set the number of machines of each kind in a running `dray up`.

    Machines that go take their devices with them; their pods are deleted.
    """

    async def body(session: Session) -> str:
        chosen = name or await _only_fleet(session)
        try:
            await scaling.set_desired_size(session.client, chosen, nodes)
        except errors.NotFound as error:
            message = f"this cluster runs no simulated fleet {chosen}"
            raise ObjectNotFound(message, "Start one with: dray up --fleet NAME") from error
        return chosen

    click.echo(f"{connection.run(target, body)}: {counts.number_of(nodes, 'machine')} of each kind")


async def _only_fleet(session: Session) -> str:
    nodes = await listing.listed(session, kinds.NODE, ObjectSelection(label_selector=FLEET_LABEL))
    names = {node["metadata"]["labels"][FLEET_LABEL] for node in nodes}
    if len(names) != 1:
        existing = ", ".join(sorted(names)) or "none"
        raise WrongUsage(f"which fleet? Say it with --fleet; this cluster has: {existing}")
    return str(names.pop())


def _disturb_preparation(target: Target, node: str, annotations: Changes) -> None:
    """Annotate a node. Raises WrongUsage if its pods are simulated: nothing is prepared there."""

    async def body(session: Session) -> None:
        status = (await _simulated_node(session, node)).get("status") or {}
        runtime = (status.get("nodeInfo") or {}).get("containerRuntimeVersion", "")
        if runtime.startswith(f"{simulated.NAME}:"):
            raise WrongUsage(
                f"the pods of node {node} are simulated: no claim is prepared there",
                "Start a fleet of at most 16 machines whose containers run: dray up --runtime auto",
            )
        await _edit(session, node, lambda _: annotations)

    connection.run(target, body)


async def _edit(session: Session, node: str, edit: Edit) -> None:
    """Change annotations of a simulated node."""

    async def annotate() -> None:
        metadata = (await _simulated_node(session, node))["metadata"]
        change = edit(metadata.get("annotations") or {})
        patch = {"annotations": change, "resourceVersion": metadata["resourceVersion"]}
        await session.client.patch(kinds.NODE, node, {"metadata": patch})

    await object_writes.repeated(annotate)


async def _simulated_node(session: Session, node: str) -> dict[str, Any]:
    """Return a simulated node. Raises ObjectNotFound and WrongUsage."""
    try:
        current = await session.client.get(kinds.NODE, node)
    except errors.NotFound as error:
        raise ObjectNotFound(str(error), "See which there are: dray get nodes") from error
    if FLEET_LABEL not in (current["metadata"].get("labels") or {}):
        raise WrongUsage(f"node {node} is not simulated; nothing was done to it.")
    return current


async def _require_devices(session: Session, node: str, names: tuple[str, ...]) -> None:
    """Raise ObjectNotFound for devices that the simulated drivers of a node do not publish."""
    selection = ObjectSelection(label_selector=FLEET_LABEL, field_selector=f"spec.nodeName={node}")
    slices = await listing.listed(session, kinds.RESOURCE_SLICE, selection)
    published = {device["name"] for item in slices for device in item["spec"].get("devices") or ()}
    unknown = [name for name in names if name not in published]
    if unknown:
        message = f"node {node} has no simulated device {unknown[0]}"
        raise ObjectNotFound(message, _existing(sorted(published)))


def _existing(names: list[str]) -> str:
    return f"It has: {_some(names)}" if names else "Its drivers have published no devices yet."

"""Machines to add to a cluster: of a simulated fleet, or from a file with nodes and slices."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from dray.api.types.dra import DeviceClass, ResourceSlice
from dray.api.types.nodes import Node
from dray.cli.command_errors import WrongUsage
from dray.cli.inputs import cluster_objects, manifests
from dray.driverkit import pool_layout
from dray.drivers.simulated import fleet
from dray.drivers.simulated.fleet_file import FleetError

_KINDS = {"Node": Node, "ResourceSlice": ResourceSlice, "DeviceClass": DeviceClass}


class Machines(NamedTuple):
    """Nodes with the slices of their devices, and the classes that these need."""

    nodes: Sequence[Node]
    slices: Sequence[ResourceSlice]
    classes: Sequence[DeviceClass]


MOST_MACHINES = 5000
"""As many nodes as a cluster of Kubernetes is made for."""
_LONGEST_NUMBER = 9


def split_count(text: str) -> tuple[str, int | None]:
    """Return NAME and N of NAME:N; None without a number. Raises WrongUsage for a bad one."""
    name, colon, number = text.rpartition(":")
    if not colon or not number.isdecimal():
        return text, None
    count = int(number) if len(number) <= _LONGEST_NUMBER else MOST_MACHINES + 1
    if not 1 <= count <= MOST_MACHINES:
        raise WrongUsage(f"{text}: add 1 to {MOST_MACHINES} machines")
    return name, count


def read(text: str, taken: Collection[str]) -> Machines:
    """Return the machines of FLEET[:N] or FILE[:N]; `taken` are names of nodes that exist.

    N is the number of machines of each kind in a fleet. Raises WrongUsage.
    """
    name, count = split_count(text)
    documents = documents_of(name)
    if documents is not None:
        return _of_documents(name, documents, count)
    try:
        return of_fleet(name, count, taken)
    except FleetError as error:
        raise WrongUsage(str(error)) from error


def documents_of(name: str) -> Sequence[dict[str, object]] | None:
    """Return the objects of a file, None for a fleet. Raises WrongUsage if there is neither."""
    if name in fleet.shipped():
        return None
    if not Path(name).exists():
        raise WrongUsage(f"there is no fleet and no file {name}{_nearest(name)}")
    documents = [manifest.document for manifest in manifests.read([name], recursive=True)]
    return None if _is_fleet(documents) else documents


def of_fleet(name: str, count: int | None, taken: Collection[str]) -> Machines:
    """Return `count` machines of each kind in a fleet, under names that are not taken.

    Without a count there are as many as the fleet has. Raises FleetError.
    """
    described = fleet.load(name)
    wanted = [group.count if count is None else count for group in described.blueprint.nodes]
    # Names count up, so at most as many are skipped as there are nodes of such a name.
    most = max(wanted, default=0)
    if count is not None or not described.machines.keys().isdisjoint(taken):
        described = fleet.load(name, nodes=most + len(set(taken)))
    chosen = []
    for group, number in zip(described.blueprint.nodes, wanted, strict=True):
        free = [
            machine
            for machine in described.machines.values()
            if machine.group is group and machine.name not in taken
        ]
        chosen += free[:number]
    pools = [pool for machine in chosen for pool in machine.pools()]
    slices = [
        item for pool in (*pools, *described.shared_pools()) for item in pool_layout.lay_out(pool)
    ]
    return Machines([machine.node() for machine in chosen], slices, described.classes())


def _nearest(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, fleet.shipped(), n=1)
    return f"; did you mean {close[0]}?" if close else f"; fleets: {', '.join(fleet.shipped())}"


def _is_fleet(documents: Sequence[dict[str, object]]) -> bool:
    return len(documents) == 1 and "nodes" in documents[0] and "apiVersion" not in documents[0]


def _of_documents(name: str, documents: Sequence[dict[str, object]], count: int | None) -> Machines:
    if count is not None:
        raise WrongUsage(f"{name}: a number is for fleets; the file has its own nodes")
    objects = []
    for document in documents:
        if (kind := document.get("kind")) not in _KINDS:
            message = f"{name}: nodes are added with their ResourceSlices and DeviceClasses"
            raise WrongUsage(f"{message}, but not {kind}", "Submit other objects with -f.")
        objects.append(cluster_objects.decode(document, name))
    nodes = [item for item in objects if isinstance(item, Node)]
    if not nodes:
        raise WrongUsage(f"{name}: there is no Node in this file")
    return Machines(
        nodes,
        [item for item in objects if isinstance(item, ResourceSlice)],
        [item for item in objects if isinstance(item, DeviceClass)],
    )

"""The types of machines that `--add-type` names: of fleets, of files, or like a node."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from dray.api.types.dra import ResourceSlice
from dray.api.types.nodes import Node
from dray.cli.command_errors import WrongUsage
from dray.cli.plan import added_machines
from dray.driverkit import pool_layout
from dray.drivers.simulated import fleet
from dray.drivers.simulated.fleet import Fleet
from dray.drivers.simulated.fleet_file import FleetError, NodeGroup
from dray.planner.cluster_model import ClusterModel
from dray.planner.sizing import machine_types
from dray.planner.sizing.machine_types import MachineType
from dray.planner.what_if import changes
from dray.planner.what_if.changes import ImpossibleChange

_LIKE = "like:"


def read(texts: Sequence[str], cluster: ClusterModel) -> list[MachineType]:
    """Return the types in their order. Each text may name several, with commas.

    Raises WrongUsage for one that does not exist, or that is named twice.
    """
    found: dict[str, MachineType] = {}
    for name in (part.strip() for text in texts for part in text.split(",")):
        try:
            types = _types(name, cluster)
        except (FleetError, ImpossibleChange, WrongUsage) as error:
            advice = error.advice if isinstance(error, WrongUsage) else ""
            raise WrongUsage(f"--add-type {name}: {error}", advice) from error
        for type_ in types:
            if found.setdefault(type_.name, type_) is not type_:
                raise WrongUsage(f"--add-type {name}: {type_.name} is named twice")
    _require_own_names(list(found.values()))
    return list(found.values())


def _require_own_names(types: Sequence[MachineType]) -> None:
    """Raise WrongUsage if machines of two types would have the same names."""
    of_name: dict[str, str] = {}
    for type_ in types:
        (node,) = (item for item in type_.make(1) if isinstance(item, Node))
        other = of_name.setdefault(node.metadata.name, type_.name)
        if other != type_.name:
            raise WrongUsage(
                f"--add-type {type_.name}: its machines have the same names as those of {other}",
                "Rename the nodes in one of the files.",
            )


def _types(name: str, cluster: ClusterModel) -> Sequence[MachineType]:
    if not name:
        raise WrongUsage("a name is missing", "Name types with commas: --add-type h100,l4")
    if name.startswith(_LIKE):
        node = changes.node_of(cluster, name.removeprefix(_LIKE)).metadata.name
        return [machine_types.type_like(cluster, node, name)]
    source, slash, kind = name.rpartition("/")
    if not slash or not source or Path(name).exists() or not _exists(source):
        source, kind = name, ""
    types = list(_of_source(source, cluster))
    kinds = {type_.name.removeprefix(f"{source}/"): type_ for type_ in types}
    if not kind:
        return types
    if kind not in kinds:
        raise changes.unknown("machine", kind, kinds, f" in {source}")
    return [kinds[kind]]


def _exists(source: str) -> bool:
    return source in fleet.shipped() or Path(source).is_file()


def _of_source(source: str, cluster: ClusterModel) -> Iterator[MachineType]:
    """Yield the types of a fleet or a file: SOURCE, or SOURCE/KIND where it has several."""
    if added_machines.documents_of(source) is not None:
        yield from _of_objects(source, cluster)
        return
    described = fleet.load(source)
    kinds = _kinds(described)
    for group, kind in zip(described.blueprint.nodes, kinds, strict=True):
        machines = _machines(described, group, {node.metadata.name for node in cluster.of(Node)})
        name = f"{source}/{kind}" if len(kinds) > 1 else source
        yield MachineType(name, _maker(machines), described.classes())


def _of_objects(source: str, cluster: ClusterModel) -> Iterator[MachineType]:
    machines = added_machines.read(source, ())
    # With the nodes of the cluster, so that no copy gets the name of one.
    template = ClusterModel().with_objects([*cluster.of(Node), *machines.nodes, *machines.slices])
    for node in machines.nodes:
        name = node.metadata.name
        shown = f"{source}/{name}" if len(machines.nodes) > 1 else source
        yield machine_types.type_like(template, name, shown)._replace(classes=machines.classes)


def _kinds(described: Fleet) -> list[str]:
    """Return names for the groups of nodes of a fleet, made from the names of these nodes."""
    names = [re.sub(r"-?\{\w+\}", "", group.name) for group in described.blueprint.nodes]
    return [name or str(number) for number, name in enumerate(names)]


def _machines(
    described: Fleet, group: NodeGroup, taken: Collection[str]
) -> Iterator[list[Node | ResourceSlice]]:
    """Yield machines of a group without end, each with its own devices."""
    for number in itertools.count():
        machine = described.machine(group, number)
        if "{number}" not in group.name:
            machine = dataclasses.replace(machine, name=f"{machine.name}-{number}")
        if machine.name not in taken:
            slices = [item for pool in machine.pools() for item in pool_layout.lay_out(pool)]
            yield [machine.node(), *slices]


def _maker(
    machines: Iterator[list[Node | ResourceSlice]],
) -> Callable[[int], Iterator[Node | ResourceSlice]]:
    known: list[list[Node | ResourceSlice]] = []

    def make(count: int) -> Iterator[Node | ResourceSlice]:
        known.extend(itertools.islice(machines, max(0, count - len(known))))
        return itertools.chain.from_iterable(known[:count])

    return make

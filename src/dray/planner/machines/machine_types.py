"""Types of machines that could be added: a Node with its slices, as often as it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dray.api.types.dra import DeviceClass, ResourceSlice
from dray.api.types.nodes import Node
from dray.planner.cluster_model import ClusterModel


class Machine(NamedTuple):
    """A Node, and the slices of its devices."""

    node: Node
    slices: Sequence[ResourceSlice] = ()


class MachineType(NamedTuple):
    """Equal machines, which differ in their names."""

    name: str
    make: Callable[[int], Machine]
    """Return the machine of a number from 0 on; the same one every time."""
    classes: Sequence[DeviceClass] = ()
    """The classes that come with the drivers of its devices."""


def with_machines(
    cluster: ClusterModel, types: Iterable[MachineType], counts: Iterable[int]
) -> ClusterModel:
    """Return the cluster with so many machines of each type.

    Classes come with the first machine of a type, unless the cluster has one of the same name.
    """
    classes = {item.metadata.name for item in cluster.of(DeviceClass)}
    added: list[Node | ResourceSlice | DeviceClass] = []
    for type_, count in zip(types, counts, strict=True):
        for number in range(count):
            machine = type_.make(number)
            added += [machine.node, *machine.slices]
        if count:
            added += [item for item in type_.classes if item.metadata.name not in classes]
    return cluster.with_objects(added) if added else cluster

"""Types of machines that could be added: a Node with its slices, as often as it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dray.api.types.dra import DeviceClass, ResourceSlice
from dray.api.types.nodes import Node
from dray.planner.cluster_model import ClusterModel
from dray.planner.what_if import node_copies

MachineObjects = Iterable[Node | ResourceSlice]


class MachineType(NamedTuple):
    """Equal machines, which differ in their names."""

    name: str
    make: Callable[[int], MachineObjects]
    """Return the nodes and slices of a number of machines; a larger number has these and more."""
    classes: Sequence[DeviceClass] = ()
    """The classes that come with the drivers of its devices."""


def type_like(cluster: ClusterModel, node: str, name: str) -> MachineType:
    """Return the type of the machines that are like a node of a cluster."""
    return MachineType(name, lambda count: node_copies.copies(cluster, node, count))


def with_machines(
    cluster: ClusterModel, types: Iterable[MachineType], counts: Iterable[int]
) -> ClusterModel:
    """Return the cluster with a number of machines of each type.

    Classes come with the first machine of a type, unless the cluster has one of the same name.
    """
    classes = {item.metadata.name for item in cluster.of(DeviceClass)}
    added: list[Node | ResourceSlice | DeviceClass] = []
    for type_, count in zip(types, counts, strict=True):
        if count:
            added += type_.make(count)
            added += [item for item in type_.classes if item.metadata.name not in classes]
    return cluster.with_objects(added) if added else cluster

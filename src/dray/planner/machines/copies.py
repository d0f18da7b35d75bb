"""Machines like one that exists: copies of its Node and slices under other names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from dray.api.types.dra import ResourceSlice
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeSpec
from dray.planner.cluster_model import ClusterModel
from dray.planner.machines.machine_types import Machine, MachineType

_HOSTNAME_LABEL = "kubernetes.io/hostname"
_STATE_TAINTS = "node.kubernetes.io/"
"""Taints that Kubernetes gives a node for its state, such as not-ready; a new one has none."""


def type_like(cluster: ClusterModel, node: str, name: str = "") -> MachineType:
    """Return the type of the machines that are like a node of the cluster. Raises KeyError."""
    for original in cluster.of(Node):
        if original.metadata.name == node:
            slices = [item for item in cluster.of(ResourceSlice) if item.spec.node_name == node]
            machine = Machine(original, slices)
            return MachineType(name or node, copier(machine, unused_names(cluster, node)))
    raise KeyError(node)


def copier(original: Machine, names: Iterable[str]) -> Callable[[int], Machine]:
    """Return a function that copies a machine, with the name that a number has in `names`."""
    left, known = iter(names), list[str]()

    def make(number: int) -> Machine:
        while len(known) <= number:
            known.append(next(left))
        return copied(original, known[number])

    return make


def unused_names(cluster: ClusterModel, prefix: str) -> Iterator[str]:
    """Yield PREFIX-1, PREFIX-2 and so on, without the names of nodes in the cluster."""
    taken = {node.metadata.name for node in cluster.of(Node)}
    number = 0
    while True:
        number += 1
        if (name := f"{prefix}-{number}") not in taken:
            yield name


def copied(machine: Machine, name: str) -> Machine:
    """Return the machine as a new one of this name: schedulable, with the same devices."""
    node = machine.node
    labels = dict(node.metadata.labels)
    if _HOSTNAME_LABEL in labels:
        labels[_HOSTNAME_LABEL] = name
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_STATE_TAINTS))
    copy = Node(ObjectMeta(name=name, labels=labels), NodeSpec(taints=taints), node.status)
    slices = [_copied_slice(item, node.metadata.name, name) for item in machine.slices]
    return Machine(copy, slices)


def _copied_slice(original: ResourceSlice, node: str, name: str) -> ResourceSlice:
    spec = original.spec
    # Pools are mostly named after their node; others get a name of their own.
    renamed = name if spec.pool.name == node else f"{spec.pool.name}-{name}"
    spec = msgspec.structs.replace(
        spec,
        node_name=name,
        pool=msgspec.structs.replace(spec.pool, name=renamed),
    )
    return ResourceSlice(ObjectMeta(name=f"{original.metadata.name}-{name}"), spec)

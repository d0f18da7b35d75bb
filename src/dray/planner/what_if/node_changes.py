"""Changes of nodes: more of them, fewer, drained, tainted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from dray.api.semantics import node_taints, pod_status
from dray.api.types.dra import DeviceClass, ResourceSlice
from dray.api.types.nodes import Node, Taint
from dray.api.types.pods import Pod
from dray.api.well_known import NO_EXECUTE
from dray.planner.cluster_model import ClusterModel
from dray.planner.what_if import evictions, node_copies
from dray.planner.what_if.changes import Changed, ImpossibleChange, evict, node_of
from dray.scheduling.nodes.pod_requirements import UNSCHEDULABLE_TAINT


@dataclass(frozen=True, slots=True)
class AddNodes:
    """More nodes with their devices. Classes that the cluster has already stay as they are."""

    nodes: Sequence[Node]
    slices: Sequence[ResourceSlice] = ()
    classes: Sequence[DeviceClass] = ()

    def apply(self, cluster: ClusterModel) -> Changed:
        taken = {node.metadata.name for node in cluster.of(Node)}
        for node in self.nodes:
            if (name := node.metadata.name) in taken:
                raise ImpossibleChange(f"there is a node {name} already; use another name")
        pools = {resource_slice.pool_id for resource_slice in cluster.of(ResourceSlice)}
        classes = {item.metadata.name for item in cluster.of(DeviceClass)}
        # Pools that belong to no node may be there already.
        slices = [item for item in self.slices if item.pool_id not in pools]
        missing = [item for item in self.classes if item.metadata.name not in classes]
        return Changed(cluster.with_objects([*self.nodes, *slices, *missing]))


@dataclass(frozen=True, slots=True)
class CopyNode:
    """More nodes like an existing one, with the same devices, healthy and empty."""

    node: str
    count: int = 1

    def apply(self, cluster: ClusterModel) -> Changed:
        node_of(cluster, self.node)
        return Changed(cluster.with_objects(node_copies.copies(cluster, self.node, self.count)))


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """A node that is gone, with its devices and pods."""

    node: str

    def apply(self, cluster: ClusterModel) -> Changed:
        node_of(cluster, self.node)
        left = cluster.without(Node, lambda node: node.metadata.name == self.node).without(
            ResourceSlice, lambda published: published.spec.node_name == self.node
        )
        return evict(left, evictions.pods_on(cluster, self.node))


@dataclass(frozen=True, slots=True)
class DrainNode:
    """A node that is cordoned and then emptied, but for pods of DaemonSets and static pods."""

    node: str

    def apply(self, cluster: ClusterModel) -> Changed:
        node = node_of(cluster, self.node)
        pods = [
            pod
            for pod in evictions.pods_on(cluster, self.node)
            if not evictions.belongs_to_node(pod)
        ]
        if node.spec.unschedulable and not pods:
            raise ImpossibleChange(f"node {self.node} is drained already")
        taints = (*node.spec.taints, *_missing(node, UNSCHEDULABLE_TAINT))
        spec = msgspec.structs.replace(node.spec, unschedulable=True, taints=taints)
        cordoned = cluster.with_objects([msgspec.structs.replace(node, spec=spec)])
        return evict(cordoned, pods)._replace(drained=pods)


@dataclass(frozen=True, slots=True)
class TaintNode:
    """A node with one more taint; with NoExecute it evicts the pods that do not tolerate it.

    A pod that tolerates it for a time only is evicted in the end.
    """

    node: str
    taint: Taint

    def apply(self, cluster: ClusterModel) -> Changed:
        node = node_of(cluster, self.node)
        if not _missing(node, self.taint):
            raise ImpossibleChange(f"node {self.node} has this taint already")
        # As kubectl taint --overwrite: key and effect name a taint, the value may change.
        others = [taint for taint in node.spec.taints if not _is_same(taint, self.taint)]
        spec = msgspec.structs.replace(node.spec, taints=(*others, self.taint))
        tainted = msgspec.structs.replace(node, spec=spec)
        pods = [pod for pod in evictions.pods_on(cluster, self.node) if self._evicts(pod)]
        return evict(cluster.with_objects([tainted]), pods)

    def _evicts(self, pod: Pod) -> bool:
        if self.taint.effect != NO_EXECUTE or not pod_status.is_active(pod):
            return False
        seconds = node_taints.tolerated_seconds(pod.spec.tolerations, [self.taint])
        return seconds < node_taints.FOREVER


def _is_same(taint: Taint, other: Taint) -> bool:
    return (taint.key, taint.effect) == (other.key, other.effect)


def _missing(node: Node, taint: Taint) -> Sequence[Taint]:
    """Return the taint unless the node has it, with the same value."""
    wanted = (taint.key, taint.value, taint.effect)
    has = any((item.key, item.value, item.effect) == wanted for item in node.spec.taints)
    return () if has else (taint,)

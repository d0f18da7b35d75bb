"""Copies of a node with its devices, under names of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec

from dray.api.semantics import pod_status, pools
from dray.api.types.dra import Device, ResourceSlice
from dray.api.types.meta import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
)
from dray.api.types.nodes import Node
from dray.api.types.pods import Affinity, NodeAffinity, Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.what_if import evictions

_TEMPORARY = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints that say how a node is doing, not what it is for."""


def copies(cluster: ClusterModel, name: str, count: int) -> Iterator[Any]:
    """Yield copies of a node, of the slices of its devices, and of its pods of DaemonSets.

    A copy is a new machine: it is not cordoned, and neither the node nor a device has a taint
    that says that something is wrong with it. The pods wait for it with claims of their own.
    """
    taken = {node.metadata.name for node in cluster.of(Node)}
    original = next(node for node in cluster.of(Node) if node.metadata.name == name)
    slices = [item for item in cluster.of(ResourceSlice) if item.spec.node_name == name]
    current = list(pools.current_slices_of_pools(slices))
    daemons = [
        pod
        for pod in evictions.pods_on(cluster, name)
        if evictions.is_daemon(pod) and pod_status.is_active(pod)
    ]
    claims, created = evictions.claim_maker(cluster), evictions.newest(cluster)
    names = (f"{name}-copy-{number}" for number in itertools.count(1))
    for copy in itertools.islice((free for free in names if free not in taken), count):
        yield _node(original, copy)
        for published in current:
            yield _slice(published, name, copy)
        for pod in daemons:
            daemon, made = claims.for_pod(_daemon(pod, copy, created))
            yield from (daemon, *made)


def _node(original: Node, name: str) -> Node:
    old = original.metadata.name
    # The label kubernetes.io/hostname, and others that name the machine.
    labels = {
        key: name if value == old else value for key, value in original.metadata.labels.items()
    }
    metadata = ObjectMeta(
        name=name, uid=f"uid-{name}", labels=labels, annotations=original.metadata.annotations
    )
    taints = tuple(taint for taint in original.spec.taints if not taint.key.startswith(_TEMPORARY))
    spec = msgspec.structs.replace(
        original.spec, unschedulable=False, taints=taints, provider_id=""
    )
    return msgspec.structs.replace(original, metadata=metadata, spec=spec)


def _slice(published: ResourceSlice, node: str, copy: str) -> ResourceSlice:
    pool_name = published.spec.pool.name
    pool = copy if pool_name == node else f"{pool_name}-{copy}"
    devices = tuple(map(_healthy, published.spec.devices))
    spec = msgspec.structs.replace(
        published.spec,
        node_name=copy,
        pool=msgspec.structs.replace(published.spec.pool, name=pool),
        devices=devices,
    )
    name = f"{published.metadata.name}-{copy}"
    metadata = ObjectMeta(name=name, uid=f"uid-{name}", labels=published.metadata.labels)
    return ResourceSlice(metadata, spec)


def _healthy(device: Device) -> Device:
    return msgspec.structs.replace(device, taints=()) if device.taints else device


def _daemon(pod: Pod, node: str, created: str) -> Pod:
    """Return a pod of the same DaemonSet for another node."""
    waiting = evictions.unplaced(pod, f"{pod.metadata.name}-{node}", created)
    named = NodeSelectorRequirement("metadata.name", "In", (node,))
    terms = (NodeSelectorTerm(match_fields=(named,)),)
    affinity = waiting.spec.affinity or Affinity()
    on_node = msgspec.structs.replace(
        affinity.node_affinity or NodeAffinity(),
        required_during_scheduling_ignored_during_execution=NodeSelector(terms),
    )
    affinity = msgspec.structs.replace(affinity, node_affinity=on_node)
    spec = msgspec.structs.replace(waiting.spec, affinity=affinity)
    return msgspec.structs.replace(waiting, spec=spec)

"""Copies of a node with its devices, under names of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

from dray.api.semantics import pools
from dray.api.types.dra import Device, ResourceSlice
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.planner.cluster_model import ClusterModel

_TEMPORARY = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints that say how a node is doing, not what it is for."""


def copies(cluster: ClusterModel, name: str, count: int) -> Iterator[Node | ResourceSlice]:
    """Yield copies of a node and of the slices of its devices.

    A copy is a new machine: it is not cordoned, and neither the node nor a device has a taint
    that says that something is wrong with it.
    """
    taken = {node.metadata.name for node in cluster.of(Node)}
    original = next(node for node in cluster.of(Node) if node.metadata.name == name)
    slices = [item for item in cluster.of(ResourceSlice) if item.spec.node_name == name]
    current = list(pools.current_slices_of_pools(slices))
    names = (f"{name}-copy-{number}" for number in itertools.count(1))
    for copy in itertools.islice((each for each in names if each not in taken), count):
        yield _node(original, copy)
        for published in current:
            yield _slice(published, name, copy)


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

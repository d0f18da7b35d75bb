"""Objects with only what figures depend on, and with equal parts stored once.

Pods of one workload differ in little more than their names, and so do claims of one template. A
large cluster has tens of thousands of both.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from dray.allocator.inventory.interning import Interner
from dray.api.types.containers import Container
from dray.api.types.dra import ResourceClaim, ResourceSlice
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeStatus
from dray.api.types.pods import ContainerStatus, Pod, PodStatus

_LIMIT = 1 << 14
"""The number of different parts that are shared; beyond that, sharing begins anew."""

T = TypeVar("T")
ContainerT = TypeVar("ContainerT", bound=Container)
_replace = msgspec.structs.replace


class Trimmer:
    """Trims objects; it keeps a part as long as it is shared."""

    def __init__(self) -> None:
        self._parts: dict[tuple[type, bytes], Any] = {}
        self._encode = msgspec.msgpack.Encoder().encode
        self._interner = Interner()

    def pod(self, pod: Pod) -> Pod:
        """Return a pod as far as the scheduling decision reads it."""
        spec, status = pod.spec, pod.status
        node_name = spec.node_name
        spec = _replace(
            spec,
            node_name="",
            volumes=(),
            init_containers=tuple(map(_container, spec.init_containers)),
            containers=tuple(map(_container, spec.containers)),
            ephemeral_containers=(),
            security_context=None,
            host_aliases=(),
            image_pull_secrets=(),
        )
        spec = self._shared(spec)
        return Pod(
            self._metadata(pod.metadata),
            _replace(spec, node_name=self._shared(node_name)) if node_name else spec,
            PodStatus(
                phase=self._shared(status.phase),
                nominated_node_name=status.nominated_node_name,
                init_container_statuses=self._statuses(status.init_container_statuses),
                container_statuses=self._statuses(status.container_statuses),
                resource_claim_statuses=status.resource_claim_statuses,
                extended_resource_claim_status=status.extended_resource_claim_status,
                node_allocatable_resource_claim_statuses=(
                    status.node_allocatable_resource_claim_statuses
                ),
                allocated_resources=status.allocated_resources,
                resources=status.resources,
            ),
        )

    def resource_slice(self, resource_slice: ResourceSlice) -> ResourceSlice:
        """Return a slice with attributes that others share."""
        return self._interner.share(resource_slice)

    def claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Return a claim with a spec and a node selector that others share."""
        status = claim.status
        allocation = status.allocation
        if allocation is not None:
            allocation = _replace(
                allocation,
                node_selector=self._shared(allocation.node_selector),
                devices=_replace(allocation.devices, config=()),
            )
        return ResourceClaim(
            _replace(claim.metadata, finalizers=self._shared(claim.metadata.finalizers)),
            self._shared(claim.spec),
            _replace(status, allocation=allocation),
        )

    def node(self, node: Node) -> Node:
        """Return a node without what it reports about itself, except its resources."""
        status = node.status
        return Node(
            self._metadata(node.metadata),
            node.spec,
            NodeStatus(
                allocatable=self._shared(status.allocatable),
                declared_features=self._shared(status.declared_features),
            ),
        )

    def _metadata(self, metadata: ObjectMeta) -> ObjectMeta:
        return ObjectMeta(
            name=metadata.name,
            namespace=self._shared(metadata.namespace),
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            generation=metadata.generation,
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
            labels=self._shared(metadata.labels),
        )

    def _statuses(self, statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
        """Return what containers have been given, if they were resized."""
        return self._shared(
            tuple(
                ContainerStatus(
                    name=status.name,
                    allocated_resources=status.allocated_resources,
                    resources=status.resources,
                )
                for status in statuses
                if status.resources or status.allocated_resources
            )
        )

    def _shared(self, part: T) -> T:
        """Return an equal part that was seen before, or this one."""
        if not part:
            return part
        if len(self._parts) >= _LIMIT:
            self._parts.clear()
        shared: T = self._parts.setdefault((type(part), self._encode(part)), part)
        return shared


def _container(container: ContainerT) -> ContainerT:
    return type(container)(
        name=container.name,
        image=container.image,
        ports=container.ports,
        resources=container.resources,
        resize_policy=container.resize_policy,
        restart_policy=container.restart_policy,
    )

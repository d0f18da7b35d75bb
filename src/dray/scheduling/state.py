"""The state that decisions are based on: nodes, devices, claims, pods and what is reserved.

The planner builds it from plain objects (`SchedulingState.of`), the scheduler feeds it with every
change that it watches. Everything derived from objects is updated with them, so a decision costs
what has changed since the last one and not the size of the cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api import features as gates
from dray.api.features import Features
from dray.api.ids import ObjectKey
from dray.api.semantics import pod_resources, pod_status
from dray.api.types.core import Namespace, PodDisruptionBudget
from dray.api.types.dra import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.scheduling import pod_index
from dray.scheduling.claims import node_allocatable
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.claims.claim_index import ClaimIndex
from dray.scheduling.claims.extended_resources import Classes
from dray.scheduling.nodes import pod_requirements
from dray.scheduling.nodes.node_fit import Nodes
from dray.scheduling.nodes.pod_affinity import PodAffinityIndex
from dray.scheduling.nodes.pod_requirements import PodUsage
from dray.scheduling.pod_index import PodIndex

__all__ = ["DEFAULT_SCHEDULER_NAME", "SchedulingObject", "SchedulingState"]

DEFAULT_SCHEDULER_NAME = "default-scheduler"

_DeviceObject = ResourceSlice | DeviceClass | DeviceTaintRule | ResourceClaim
SchedulingObject = _DeviceObject | Node | Pod | PodGroup | PodDisruptionBudget | Namespace
"""The kinds that a decision depends on."""


class SchedulingState:
    """A cluster as one scheduler sees it.

    `scheduler_name` is the name that its pods have, "" for the pods of all schedulers.
    `new_share_id` returns ids for shares of devices, which have to be UUIDs; without it they are
    numbered, for states that are not written.
    """

    def __init__(
        self,
        features: Features = gates.DEFAULT,
        scheduler_name: str = DEFAULT_SCHEDULER_NAME,
        new_share_id: Callable[[], str] | None = None,
    ) -> None:
        self.features, self.scheduler_name = features, scheduler_name
        self.new_share_id = new_share_id or _numbered_share_ids()
        self.inventory = ClusterInventory(features)
        self.nodes = Nodes()
        self.classes = Classes()
        self.claims = ClaimIndex(self.inventory)
        self.pods = PodIndex()
        self.groups: dict[ObjectKey, PodGroup] = {}
        self.budgets: dict[ObjectKey, PodDisruptionBudget] = {}
        self._namespaces: dict[str, Namespace] = {}
        self.affinity = PodAffinityIndex(self.nodes, self.pods, self._namespaces.values())

    @classmethod
    def of(
        cls,
        objects: Iterable[SchedulingObject],
        features: Features = gates.DEFAULT,
        scheduler_name: str = DEFAULT_SCHEDULER_NAME,
    ) -> SchedulingState:
        """Return the state of a cluster that consists of these objects."""
        state = cls(features, scheduler_name)
        for added in objects:
            state.put(added)
        return state

    def put(self, added: SchedulingObject) -> None:
        """Add or update an object of any kind."""
        match added:
            case Node():
                self.put_node(added)
            case ResourceSlice():
                self.put_slice(added)
            case DeviceClass():
                self.put_class(added)
            case DeviceTaintRule():
                self.inventory.put_taint_rule(added)
            case ResourceClaim():
                self.claims.put(added)
            case Pod():
                self.put_pod(added)
            case PodGroup():
                self.groups[added.metadata.key] = added
            case PodDisruptionBudget():
                self.budgets[added.metadata.key] = added
            case Namespace():
                self.put_namespace(added)

    def put_node(self, node: Node) -> None:
        self.inventory.put_node(node)
        self.nodes.put(node, self.inventory.nodes[node.metadata.name].index)

    def drop_node(self, name: str) -> None:
        self.nodes.drop(name)
        self.inventory.drop_node(name)

    def put_slice(self, resource_slice: ResourceSlice) -> None:
        self.inventory.put_slice(resource_slice)

    def put_class(self, device_class: DeviceClass) -> None:
        self.inventory.put_class(device_class)
        self.classes.reload(list(self.inventory.classes.values()))

    def drop_class(self, name: str) -> None:
        self.inventory.drop_class(name)
        self.classes.reload(list(self.inventory.classes.values()))

    def put_namespace(self, namespace: Namespace) -> None:
        self._namespaces[namespace.metadata.name] = namespace

    def drop_namespace(self, name: str) -> None:
        self._namespaces.pop(name, None)

    def put_pod(self, pod: Pod) -> bool:
        """Add or update a pod. Returns whether that freed resources of a node."""
        key, uid = pod.metadata.key, pod.metadata.uid
        freed = False
        before = self.pods.get(key)
        if before is not None and before.metadata.uid != uid:
            freed = self.drop_pod(key)
        if pod_status.has_ended(pod):
            return self.drop_pod(key) or freed
        self.pods.put(pod)
        if pod.spec.node_name:
            self.affinity.put(pod)
            self.nodes.add_pod(uid, pod.spec.node_name, _usage_of(pod))
        elif self.is_pending(pod):
            self.affinity.put(pod)
        else:
            # This scheduler will not place it: a node that is reserved for it is free again.
            self.affinity.drop(pod)
            freed = self.nodes.remove_pod(uid) or freed
        return freed

    def drop_pod(self, key: ObjectKey) -> bool:
        """Remove a pod. Returns whether that freed resources of a node."""
        pod = self.pods.drop(key)
        if pod is None:
            return False
        self.affinity.drop(pod)
        return self.nodes.remove_pod(pod.metadata.uid)

    def group_of(self, pod: Pod) -> PodGroup | None:
        """Return the PodGroup of a pod; None if it names none or that does not exist."""
        key = pod_index.group_key(pod)
        return self.groups.get(key) if key is not None else None

    def is_pending(self, pod: Pod) -> bool:
        """Return whether the pod waits for a node from this scheduler."""
        return (
            self.scheduler_name in ("", pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME)
            and not pod.spec.node_name
            and pod.metadata.deletion_timestamp is None
        )

    def is_placed(self, pod: Pod) -> bool:
        """Return whether the pod has a node, or one is reserved for it."""
        return bool(pod.spec.node_name or self.nodes.node_of(pod.metadata.uid))

    def reserve(self, assignment: NodeAssignment) -> None:
        """Count with an assignment from now on, although it is not written yet."""
        uid = assignment.pod.metadata.uid
        for assigned in assignment.fit.claims:
            if assigned.allocation is not None:
                self.claims.reserve(assigned.claim.key, assigned.allocation, uid)
        self.nodes.add_pod(uid, assignment.node, assignment.fit.usage)

    def release(self, assignment: NodeAssignment) -> None:
        """Undo `reserve`, except for the node of a pod that is bound in the meantime."""
        uid = assignment.pod.metadata.uid
        for assigned in assignment.fit.claims:
            if assigned.allocation is not None:
                self.claims.release(assigned.claim.key, uid)
        pod = self.pods.get(assignment.pod.metadata.key)
        if pod is None or pod.metadata.uid != uid or not pod.spec.node_name:
            self.nodes.remove_pod(uid)


def _numbered_share_ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012x}"


def _usage_of(pod: Pod) -> PodUsage:
    """Return what a pod uses of the node that it is bound to."""
    status = pod.status
    if any(
        container.resources or container.allocated_resources
        for container in status.container_statuses
    ):
        counting = pod_resources.ResourceCountOptions(
            resized=True, resized_as_a_whole=True, node_allocatable_claims=True
        )
        return pod_requirements.usage_of(pod, counting)
    if status.node_allocatable_resource_claim_statuses:
        return node_allocatable.usage_of(pod)
    return pod_requirements.requirements_of(pod).usage

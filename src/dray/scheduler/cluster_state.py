"""What the scheduler knows: caches of the API, and fleet and nodes kept in step with them.

Everything that changes fleet or nodes goes through `apply`. While somebody looks at them for longer
than one step of the loop (`exclusively`), changes wait; so a search in a thread reads what nobody
writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from typing import Any

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.interning import Interner
from dray.api import kinds, well_known
from dray.api.features import Features
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.semantics import owner_references, pod_claims, pod_resources
from dray.api.types.core import Namespace, PodDisruptionBudget
from dray.api.types.dra import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import Cache, ObjectChange
from dray.scheduler import queue
from dray.scheduler.claims.in_flight import Inflight
from dray.scheduler.queue import Queue
from dray.scheduling import node_allocatable, pod_requirements
from dray.scheduling.extended_resources import Classes
from dray.scheduling.node_fit import Nodes
from dray.scheduling.pod_affinity import PodAffinityIndex
from dray.scheduling.pod_requirements import PodUsage

log = logging.getLogger(__name__)

ACTIVE_PODS = ObjectSelection(field_selector="status.phase!=Succeeded,status.phase!=Failed")
RESTART_SECONDS = 1.0

GROUP, ON_NODE, EXTENDED = "group", "node", "extended"
"""Indexes: pods by PodGroup and by node; claims for extended resources by the uid of their pod."""


class SchedulerState:
    """The owner of fleet, nodes and reservations. `name` is the scheduler's own."""

    def __init__(self, client: Client, features: Features, name: str, node_selector: str) -> None:
        self._name = name
        self._features = features
        self.queue = Queue()
        self.fleet = ClusterInventory(features)
        self._interner = Interner()
        self.nodes = Nodes()
        self.classes = Classes()
        self.pods: Cache[Pod] = Cache(
            client, kinds.POD, Pod, ACTIVE_PODS, {GROUP: _group_of_pod, ON_NODE: _node_of_pod}
        )
        self.claims: Cache[ResourceClaim] = Cache(
            client, kinds.RESOURCE_CLAIM, ResourceClaim, indexes={EXTENDED: _owner_of_extended}
        )
        self._nodes: Cache[Node] = Cache(
            client, kinds.NODE, Node, ObjectSelection(label_selector=node_selector)
        )
        self._slices: Cache[ResourceSlice] = Cache(client, kinds.RESOURCE_SLICE, ResourceSlice)
        self._classes: Cache[DeviceClass] = Cache(client, kinds.DEVICE_CLASS, DeviceClass)
        self._rules: Cache[DeviceTaintRule] = Cache(
            client, kinds.DEVICE_TAINT_RULE, DeviceTaintRule
        )
        self._namespaces: Cache[Namespace] = Cache(client, kinds.NAMESPACE, Namespace)
        self.neighbours = PodAffinityIndex(self.nodes, self.pods, self._namespaces)
        self.groups: Cache[PodGroup] | None = None
        if features.generic_workload:
            self.groups = Cache(client, kinds.POD_GROUP, PodGroup)
        self.budgets: Cache[PodDisruptionBudget] | None = None
        if features.preemption:
            self.budgets = Cache(client, kinds.POD_DISRUPTION_BUDGET, PodDisruptionBudget)
        self.inflight = Inflight(self.fleet, self._cached_claim)
        self.claim_watchers: dict[ClaimKey, set[asyncio.Event]] = {}
        """Whom to tell that a claim has changed."""
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_busy = False
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Keep everything current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for cache in self._caches():
                group.create_task(_keep(cache))

    async def synced(self) -> None:
        """Wait for complete copies, then take them over."""
        for cache in self._caches():
            await cache.synced.wait()
        self._follow(self._classes, self._class_changed)
        self._follow(self._rules, self._rule_changed)
        self._follow(self._nodes, self._node_changed)
        self._follow(self._slices, self._slice_changed)
        self._follow(self.claims, self._claim_changed)
        if self.groups is not None:
            self._follow(self.groups, self._group_changed)
        self._follow(self.pods, self._pod_changed)

    def _follow(self, cache: Cache[Any], handle: Callable[[ObjectChange[Any]], None]) -> None:
        cache.subscribe(lambda change: self.apply(lambda: handle(change)))

    def _caches(self) -> list[Cache[Any]]:
        always: list[Cache[Any]] = [
            self._namespaces, self._classes, self._rules, self._nodes, self._slices, self.claims,
            self.pods,
        ]  # fmt: skip
        return always + [cache for cache in (self.groups, self.budgets) if cache is not None]

    def apply(self, change: Callable[[], object]) -> None:
        """Change something, at once or as soon as nobody is looking."""
        if self._is_busy:
            self._waiting.append(change)
        else:
            change()

    @contextlib.asynccontextmanager
    async def exclusively(self) -> AsyncIterator[None]:
        """Nothing changes inside the block, except by who is in it."""
        async with self._turn:
            self._is_busy = True
            try:
                yield
            finally:
                self._is_busy = False
                while self._waiting:
                    self._waiting.popleft()()

    def claim(self, key: ClaimKey) -> ResourceClaim | None:
        return self.inflight.newest(key)

    def pod(self, key: ObjectKey) -> Pod | None:
        return self.pods.get(key.name, key.namespace)

    def group_of(self, pod: Pod) -> PodGroup | None:
        name = pod_claims.group_name(pod)
        if not name or self.groups is None:
            return None
        return self.groups.get(name, pod.metadata.namespace)

    def is_ours(self, pod: Pod) -> bool:
        """Whether the pod wants a node from this scheduler."""
        return (
            pod.spec.scheduler_name == self._name
            and not pod.spec.node_name
            and pod.metadata.deletion_timestamp is None
        )

    def _cached_claim(self, key: ClaimKey) -> ResourceClaim | None:
        return self.claims.get(key.name, key.namespace)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._pod_left(change.key, old)
        if new is None:
            return
        self.neighbours.put(new)
        if new.spec.node_name:
            self.nodes.charge(new.metadata.uid, new.spec.node_name, _charge_of(new))
            if old is None or not old.spec.node_name:
                self.queue.remove(change.key)
                self.queue.wake(queue.NEIGHBOURS)
                self._wake_group(new)
        elif self.is_ours(new):
            if old is None or _asks_otherwise(old, new):
                self.queue.add(change.key, new.spec.priority or 0)
            if old is None:
                self._wake_group(new)
        else:
            self._pod_left(change.key, new)

    def _pod_left(self, key: ObjectKey, pod: Pod) -> None:
        self.queue.remove(key)
        self.neighbours.drop(pod)
        if self.nodes.discharge(pod.metadata.uid):
            self.queue.wake(queue.ROOM)

    def _wake_group(self, pod: Pod) -> None:
        name = pod_claims.group_name(pod)
        if name and self.groups is not None:
            self.queue.wake(queue.group_changes(ObjectKey(pod.metadata.namespace, name)))

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        old, new = change.old, change.new
        if new is None:
            self.nodes.drop(change.key.name)
            self.fleet.drop_node(change.key.name)
        elif old is None or _offers_otherwise(old, new):
            self.fleet.put_node(new)
            self.nodes.put(new, self.fleet.nodes[new.metadata.name].index)
            self.queue.wake(queue.NODES)

    def _slice_changed(self, change: ObjectChange[ResourceSlice]) -> None:
        if change.new is None:
            self.fleet.drop_slice(change.key.name)
        elif change.old is None or change.old.spec != change.new.spec:
            self.fleet.put_slice(self._interner.share(change.new))
        else:
            return
        # A slice that goes may make its pool complete, so that also helps.
        self.queue.wake(queue.DEVICES)

    def _class_changed(self, change: ObjectChange[DeviceClass]) -> None:
        if change.new is None:
            self.fleet.drop_class(change.key.name)
        elif change.old is None or change.old.spec != change.new.spec:
            self.fleet.put_class(change.new)
        else:
            return
        self.classes.reload(list(self._classes))
        self.queue.wake(queue.CLASSES)

    def _rule_changed(self, change: ObjectChange[DeviceTaintRule]) -> None:
        if change.new is None:
            self.fleet.drop_taint_rule(change.key.name)
        elif change.old is None or change.old.spec != change.new.spec:
            self.fleet.put_taint_rule(change.new)
        else:
            return
        self.queue.wake(queue.DEVICES)

    def _claim_changed(self, change: ObjectChange[ResourceClaim]) -> None:
        old, new = change.old, change.new
        key = ClaimKey(change.key.namespace, change.key.name)
        self.inflight.observe(key, new)
        for event in self.claim_watchers.get(key, ()):
            event.set()
        if old is None or new is None or _is_news(old, new):
            self.queue.wake(queue.claim_changes(change.key))
        if old is not None and _frees_devices(old, new):
            self.queue.wake(queue.DEVICES)

    def _group_changed(self, change: ObjectChange[PodGroup]) -> None:
        self.queue.wake(queue.group_changes(change.key))


async def _keep(cache: Cache[Any]) -> None:
    while True:
        try:
            await cache.run()
        except Exception:
            log.exception("a copy of the API broke; it goes on")
            await asyncio.sleep(RESTART_SECONDS)


def _group_of_pod(pod: Pod) -> Iterable[Hashable]:
    name = pod_claims.group_name(pod)
    return (ObjectKey(pod.metadata.namespace, name),) if name else ()


def _node_of_pod(pod: Pod) -> Iterable[Hashable]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _owner_of_extended(claim: ResourceClaim) -> Iterable[Hashable]:
    if claim.metadata.annotations.get(well_known.EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return ()
    owner = owner_references.controller_of(claim.metadata)
    return (owner.uid,) if owner else ()


def _charge_of(pod: Pod) -> PodUsage:
    """What a pod takes of the node it is on."""
    status = pod.status
    if any(each.resources or each.allocated_resources for each in status.container_statuses):
        counting = pod_resources.ResourceCountOptions(
            resized=True, resized_as_a_whole=True, node_allocatable_claims=True
        )
        return pod_requirements.charge_of(pod, counting)
    if status.node_allocatable_resource_claim_statuses:
        return node_allocatable.charge_of(pod)
    return pod_requirements.needs_of(pod).charge


def _asks_otherwise(old: Pod, new: Pod) -> bool:
    """Whether the change of a pod could change where it fits. Our own notes do not."""
    return (
        old.metadata.generation != new.metadata.generation
        or old.metadata.uid != new.metadata.uid
        or old.metadata.labels != new.metadata.labels
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
    )


def _offers_otherwise(old: Node, new: Node) -> bool:
    """Whether the change of a node could change what fits there. Heartbeats do not."""
    return (
        old.spec.taints != new.spec.taints
        or old.spec.unschedulable != new.spec.unschedulable
        or old.metadata.labels != new.metadata.labels
        or old.status.allocatable != new.status.allocatable
        or old.status.declared_features != new.status.declared_features
    )


def _is_news(old: ResourceClaim, new: ResourceClaim) -> bool:
    """Annotations and finalizers wake nobody: some of them are our own."""
    return old.metadata.uid != new.metadata.uid or old.status != new.status


def _frees_devices(old: ResourceClaim, new: ResourceClaim | None) -> bool:
    if old.status.allocation is None:
        return False
    return new is None or new.status.allocation is None or new.metadata.uid != old.metadata.uid

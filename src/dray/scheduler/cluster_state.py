"""The scheduler's view of the cluster: caches of the API that feed the state of decisions.

Everything that changes the state of decisions goes through `apply`. While a task reads it for
longer than one step of the event loop (`exclusively`), changes wait, so that a search in a thread
reads what nobody writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from dray import supervision
from dray.allocator.inventory.interning import Interner
from dray.api import kinds
from dray.api.features import Features
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.types.core import Namespace, PodDisruptionBudget
from dray.api.types.dra import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import Cache, ObjectChange
from dray.client.discovery import OptionalKinds
from dray.scheduler.claims.in_flight import InFlightClaims
from dray.scheduler.queue import Queue
from dray.scheduling import pod_index, wake_events
from dray.scheduling.nodes import node_fit
from dray.scheduling.state import SchedulingState
from dray.scheduling.wake_events import WakeEvent

log = logging.getLogger(__name__)

ACTIVE_PODS = ObjectSelection(field_selector="status.phase!=Succeeded,status.phase!=Failed")


class SchedulerState:
    """Owns the caches, the queue and the state of decisions. `name` is the scheduler's own."""

    def __init__(
        self,
        client: Client,
        features: Features,
        name: str,
        node_selector: str,
        served: OptionalKinds,
    ) -> None:
        self._features = features
        self.queue = Queue()
        self.scheduling = SchedulingState(features, name, new_share_id=lambda: str(uuid.uuid4()))
        """The state that decisions are based on."""
        self._pods: Cache[Pod] = Cache(client, kinds.POD, Pod, ACTIVE_PODS)
        self._claims: Cache[ResourceClaim] = Cache(client, kinds.RESOURCE_CLAIM, ResourceClaim)
        self._nodes: Cache[Node] = Cache(
            client, kinds.NODE, Node, ObjectSelection(label_selector=node_selector)
        )
        self._slices: Cache[ResourceSlice] = Cache(client, kinds.RESOURCE_SLICE, ResourceSlice)
        # Slices of a fleet repeat the same attributes; sharing them saves most of the memory.
        self._interner = Interner()
        self._classes: Cache[DeviceClass] = Cache(client, kinds.DEVICE_CLASS, DeviceClass)
        self._rules: Cache[DeviceTaintRule] | None = None
        if served.taint_rules is not None:
            self._rules = Cache(client, served.taint_rules, DeviceTaintRule)
        self._namespaces: Cache[Namespace] = Cache(client, kinds.NAMESPACE, Namespace)
        self._groups: Cache[PodGroup] | None = None
        if served.groups is not None:
            self._groups = Cache(client, served.groups, PodGroup)
        self._budgets: Cache[PodDisruptionBudget] | None = None
        if features.preemption:
            self._budgets = Cache(client, kinds.POD_DISRUPTION_BUDGET, PodDisruptionBudget)
        self.in_flight = InFlightClaims(self.scheduling.claims, self._cached_claim)
        self.claim_watchers: dict[ClaimKey, set[asyncio.Event]] = {}
        """Events to set when a claim changes."""
        self._deferred: deque[Callable[[], object]] = deque()
        self._is_busy = False
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Keep everything current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for cache in self._caches():
                name = f"cache-{cache.kind.plural}"
                group.create_task(supervision.run_forever(name, cache.run), name=name)

    async def synced(self) -> None:
        """Wait for complete caches, then feed the state from them."""
        for cache in self._caches():
            await cache.synced.wait()
        self._subscribe(self._namespaces, self._namespace_changed)
        self._subscribe(self._classes, self._class_changed)
        if self._rules is not None:
            self._subscribe(self._rules, self._rule_changed)
        self._subscribe(self._nodes, self._node_changed)
        self._subscribe(self._slices, self._slice_changed)
        self._subscribe(self._claims, self._claim_changed)
        if self._groups is not None:
            self._subscribe(self._groups, self._group_changed)
        if self._budgets is not None:
            self._subscribe(self._budgets, self._budget_changed)
        # Last: a pod enters the queue when everything that it depends on is there.
        self._subscribe(self._pods, self._pod_changed)

    def _subscribe(self, cache: Cache[Any], handle: Callable[[ObjectChange[Any]], None]) -> None:
        cache.subscribe(lambda change: self.apply(lambda: handle(change)))

    def _caches(self) -> list[Cache[Any]]:
        always: list[Cache[Any]] = [
            self._namespaces, self._classes, self._nodes, self._slices, self._claims, self._pods,
        ]  # fmt: skip
        optional: list[Cache[Any] | None] = [self._rules, self._groups, self._budgets]
        return always + [cache for cache in optional if cache is not None]

    def apply(self, change: Callable[[], object]) -> None:
        """Change something, at once or as soon as nobody reads the state exclusively."""
        if self._is_busy:
            self._deferred.append(change)
        else:
            change()

    @contextlib.asynccontextmanager
    async def exclusively(self) -> AsyncIterator[None]:
        """Let nothing change inside the block, except what the block itself changes."""
        async with self._lock:
            self.in_flight.observe_undecodable(self._claims.undecodable)
            self._is_busy = True
            try:
                yield
            finally:
                self._is_busy = False
                while self._deferred:
                    self._deferred.popleft()()

    @property
    def objects(self) -> dict[type[Any], list[Any]]:
        """Return what the API server has of the kinds with many objects, without ended pods.

        Empty while that is not known: before the first list, without the server, or if one of them
        cannot be decoded.
        """
        many: dict[type[Any], Cache[Any]] = {
            Node: self._nodes,
            ResourceSlice: self._slices,
            ResourceClaim: self._claims,
            Pod: self._pods,
        }
        for cache in many.values():
            if cache.undecodable or cache.problem or not cache.synced.is_set():
                return {}
        return {type_: list(cache) for type_, cache in many.items()}

    def claim(self, key: ClaimKey) -> ResourceClaim | None:
        """Return the newest claim, with our own writes; None if it does not exist."""
        return self.in_flight.newest(key)

    def pod(self, key: ObjectKey) -> Pod | None:
        """Return the pod as the cache has it; None if it does not exist."""
        return self._pods.get(key.name, key.namespace)

    def pending_pod(self, key: ObjectKey) -> Pod | None:
        """Return the pod if it waits for a node from this scheduler, else None."""
        pod = self.pod(key)
        return pod if pod is not None and self.scheduling.is_pending(pod) else None

    def _cached_claim(self, key: ClaimKey) -> ResourceClaim | None:
        return self._claims.get(key.name, key.namespace)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._pod_removed(change.key)
            old = None
        if new is None:
            return
        if self.scheduling.put_pod(new):
            self.queue.wake(wake_events.POD_REMOVED)
        if new.spec.node_name:
            if old is None or not old.spec.node_name:
                self.queue.remove(change.key)
                self.queue.wake(wake_events.POD_PLACED)
                self._wake_group(new)
        elif self.scheduling.is_pending(new):
            if old is None or _may_fit_elsewhere(old, new):
                # What others left for it before a restart is for nobody else.
                is_nominated = self._features.preemption and bool(new.status.nominated_node_name)
                self.queue.add(change.key, new.spec.priority or 0, is_early=is_nominated)
            if old is None:
                self._wake_group(new)
        else:
            self.queue.remove(change.key)

    def _pod_removed(self, key: ObjectKey) -> None:
        self.queue.remove(key)
        if self.scheduling.drop_pod(key):
            self.queue.wake(wake_events.POD_REMOVED)

    def _wake_group(self, pod: Pod) -> None:
        key = pod_index.group_key(pod)
        if key is not None and self._groups is not None:
            self.queue.wake(wake_events.group_changes(key))

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        old, new = change.old, change.new
        if new is None:
            self.scheduling.drop_node(change.key.name)
            # A selector may have failed on its devices only.
            self.queue.wake(wake_events.NODES)
        elif old is None or node_fit.may_fit_more(old, new):
            self.scheduling.put_node(new)
            self.queue.wake(wake_events.NODES)

    def _slice_changed(self, change: ObjectChange[ResourceSlice]) -> None:
        if change.new is not None:
            self._interner.share(change.new)
        # Removing a slice may make its pool complete, so that also helps.
        self._spec_changed(change, self.scheduling.inventory.drop_slice, wake_events.DEVICES)

    def _class_changed(self, change: ObjectChange[DeviceClass]) -> None:
        self._spec_changed(change, self.scheduling.drop_class, wake_events.CLASSES)

    def _rule_changed(self, change: ObjectChange[DeviceTaintRule]) -> None:
        self._spec_changed(change, self.scheduling.inventory.drop_taint_rule, wake_events.DEVICES)

    def _spec_changed(
        self, change: ObjectChange[Any], drop: Callable[[str], None], wakes: WakeEvent
    ) -> None:
        """Take over a deletion, or a change of the spec; other changes do not matter."""
        if change.new is None:
            drop(change.key.name)
        elif change.old is None or change.old.spec != change.new.spec:
            self.scheduling.put(change.new)
        else:
            return
        self.queue.wake(wakes)

    def _claim_changed(self, change: ObjectChange[ResourceClaim]) -> None:
        old, new = change.old, change.new
        key = ClaimKey(*change.key)
        self.in_flight.observe(key, new)
        for event in self.claim_watchers.get(key, ()):
            event.set()
        if old is None or new is None or _is_relevant(old, new):
            self.queue.wake(wake_events.claim_changes(key))
        if old is not None and _frees_devices(old, new):
            self.queue.wake(wake_events.DEVICES)
        elif (
            new is not None
            and new.status.allocation is not None
            and (old is None or old.status.allocation is None)
        ):
            self.queue.wake(wake_events.DEVICES_TAKEN)

    def _group_changed(self, change: ObjectChange[PodGroup]) -> None:
        if change.new is None:
            self.scheduling.groups.pop(change.key, None)
        else:
            self.scheduling.put(change.new)
        self.queue.wake(wake_events.group_changes(change.key))

    def _budget_changed(self, change: ObjectChange[PodDisruptionBudget]) -> None:
        if change.new is None:
            self.scheduling.budgets.pop(change.key, None)
        else:
            self.scheduling.put(change.new)

    def _namespace_changed(self, change: ObjectChange[Namespace]) -> None:
        if change.new is None:
            self.scheduling.drop_namespace(change.key.name)
        else:
            self.scheduling.put_namespace(change.new)


def _may_fit_elsewhere(old: Pod, new: Pod) -> bool:
    """Return whether a change of a pod could change where it fits. Our own status does not."""
    return (
        old.metadata.generation != new.metadata.generation
        or old.metadata.uid != new.metadata.uid
        or old.metadata.labels != new.metadata.labels
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
    )


def _is_relevant(old: ResourceClaim, new: ResourceClaim) -> bool:
    """Return whether pods could wait for a change. Annotations and finalizers are our own."""
    return old.metadata.uid != new.metadata.uid or old.status != new.status


def _frees_devices(old: ResourceClaim, new: ResourceClaim | None) -> bool:
    """Return whether a change removes an allocation."""
    if old.status.allocation is None:
        return False
    return new is None or new.status.allocation is None or new.metadata.uid != old.metadata.uid

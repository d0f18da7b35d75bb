"""A second copy of what explanations need, which only one thread touches.

An explanation takes long on a large fleet, and tries changes on the inventory. Meanwhile the event
loop takes over what changes: those changes wait here until the explanation is finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.features import Features
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.types.core import CoreEvent, ResourceQuota
from dray.api.types.dra import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.client.cache import ObjectChange
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Explanation
from dray.explain.pod import pod_context, pod_explanation
from dray.explain.pod.pod_context import PodContext
from dray.explain.pod.pod_explanation import NEEDED_FOR_DEVICES, PodExplanation

EXPLAINED = (
    Node,
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceQuota,
    Pod,
)
"""The types that explanations depend on."""
NOT_EXPLAINED = frozenset({"Namespace"})


class Unexplained(Exception):
    """There is no such pod or claim any more, or the rights are not enough to explain it."""


class ExplainedCluster:
    """Explains pods and claims. Changes may be added by another thread, all else is for one."""

    def __init__(
        self, features: Features, unread: Mapping[str, str], partly_read: Mapping[str, str]
    ) -> None:
        self._features = features
        self._unread = frozenset(unread) - NOT_EXPLAINED
        self._partly_read = frozenset(partly_read) - NOT_EXPLAINED
        self._inventory = ClusterInventory(features)
        self._objects: dict[type[Any], dict[ObjectKey, Any]] = {type_: {} for type_ in EXPLAINED}
        self._waiting: deque[ObjectChange[Any]] = deque()
        self._context: PodContext | None = None

    def add(self, change: ObjectChange[Any]) -> None:
        """Note a change; it is taken over before the next explanation."""
        self._waiting.append(change)

    def pod(self, key: ObjectKey) -> Pod | None:
        found: Pod | None = self._objects[Pod].get(key)
        return found

    def claim(self, key: ObjectKey) -> ResourceClaim | None:
        found: ResourceClaim | None = self._objects[ResourceClaim].get(key)
        return found

    def explain_pod(
        self, key: ObjectKey, events: Iterable[CoreEvent], *, may_read_events: bool = True
    ) -> tuple[Pod, PodExplanation, PodContext]:
        """Return a pod, its explanation, and what that depends on. Raises Unexplained."""
        context = self.context()
        pod = self.pod(key)
        if pod is None:
            raise Unexplained(f"pod {key} is gone")
        if not may_read_events:
            context = msgspec.structs.replace(context, unread=context.unread | {"Event"})
        own = pod_context.with_events(_without_event_index(context), pod, events)
        return pod, pod_explanation.explain_pod(pod, own, self._inventory), own

    def explain_claim(self, key: ObjectKey) -> Explanation:
        """Return the explanation of a claim by itself. Raises Unexplained."""
        claim = self.claim(key)
        if claim is None:
            raise Unexplained(f"claim {key} is gone")
        if claim.status.allocation is None and not NEEDED_FOR_DEVICES.isdisjoint(self._unread):
            raise Unexplained(f"claim {key} cannot be explained with these rights")
        return claim_explanation.explain(self._inventory, [claim], new_share_id=lambda: "new")

    def take_over(self) -> None:
        """Take over what has changed; what was found out about the cluster is then void."""
        if self._waiting:
            while self._waiting:
                self._apply(self._waiting.popleft())
            self._context = None

    def context(self) -> PodContext:
        """Return what explanations depend on, as it was last taken over."""
        if self._context is None:
            self._context = self._made_context()
        return self._context

    def _made_context(self) -> PodContext:
        objects: dict[type[Any], Sequence[Any]] = {
            type_: tuple(found.values()) for type_, found in self._objects.items()
        }
        return msgspec.structs.replace(
            pod_context.from_objects(objects, self._features),
            unread=self._unread,
            partly_read=self._partly_read,
        )

    def _apply(self, change: ObjectChange[Any]) -> None:
        value = change.new if change.new is not None else change.old
        kept = self._objects.get(type(value))
        if kept is None:
            return
        if change.new is None:
            kept.pop(change.key, None)
            self._drop(value)
        else:
            kept[change.key] = value
            self._put(value)

    def _put(self, value: Any) -> None:
        inventory = self._inventory
        match value:
            case Node():
                inventory.put_node(value)
            case ResourceSlice():
                inventory.put_slice(value)
                if "Node" in self._unread and value.spec.node_name:
                    inventory.put_node(Node(ObjectMeta(name=value.spec.node_name)))
            case DeviceClass():
                inventory.put_class(value)
            case DeviceTaintRule():
                inventory.put_taint_rule(value)
            case ResourceClaim():
                inventory.put_claim(value)

    def _drop(self, value: Any) -> None:
        inventory, name = self._inventory, value.metadata.name
        match value:
            case Node():
                inventory.drop_node(name)
            case ResourceSlice():
                inventory.drop_slice(name)
            case DeviceClass():
                inventory.drop_class(name)
            case DeviceTaintRule():
                inventory.drop_taint_rule(name)
            case ResourceClaim():
                inventory.release(ClaimKey(*value.key))


def _without_event_index(context: PodContext) -> PodContext:
    """Return the context without the events that were read for another pod."""
    context.results.events = None
    return context

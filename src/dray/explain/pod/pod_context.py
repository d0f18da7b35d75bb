"""The objects of a cluster that matter to one pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api import features as gates
from dray.api.features import Features
from dray.api.ids import ClaimKey
from dray.api.semantics import pod_claims
from dray.api.types import dra
from dray.api.types.core import CoreEvent, ResourceQuota
from dray.api.types.dra import ResourceClaim, ResourceClaimTemplate
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.explain.pod.pod_changes import TEMPLATE, CopyObject, NodeChange

if TYPE_CHECKING:
    # Commands that only list devices do not need these.
    from dray.explain.equal_claims import ClaimExplanations
    from dray.explain.pod.node_eligibility import NodeChecks

DEFAULT_NAMESPACE = "default"
OTHER_NAMESPACES = " of other namespaces"
"""Suffix of a kind that could be read only in the pod's own namespace."""


class WaitingPod(msgspec.Struct, frozen=True):
    """A pod that waits for devices, with the classes that it requests."""

    order: tuple[int, str, str]
    name: str
    pod: Pod
    classes: frozenset[str]


class ClusterResults:
    """Results about a cluster that were found for one pod and hold for all of its pods."""

    __slots__ = ("changed", "checks", "consumers", "events", "explanations", "line")

    def __init__(self) -> None:
        self.line: list[WaitingPod] | None = None
        """The waiting pods in order."""
        self.explanations: ClaimExplanations | None = None
        self.checks: NodeChecks | None = None
        self.consumers: dict[ClaimKey, tuple[str, ...]] | None = None
        """The pods of each claim that has some."""
        self.events: dict[tuple[str, str], list[CoreEvent]] | None = None
        """The events by namespace and name of the object that they are about."""
        self.changed: dict[NodeChange | CopyObject, PodContext] = {}
        """The cluster after a change of a node."""


class PodContext(msgspec.Struct, frozen=True):
    """Cluster objects needed to explain one pod. `unread`: kinds the user may not list."""

    claims: Mapping[ClaimKey, ResourceClaim] = {}
    templates: Mapping[ClaimKey, ResourceClaimTemplate] = {}
    classes: Sequence[dra.DeviceClass] = ()
    nodes: Mapping[str, Node] = {}
    quotas: Sequence[ResourceQuota] = ()
    slices: Sequence[dra.ResourceSlice] = ()
    taint_rules: Sequence[dra.DeviceTaintRule] = ()
    pods: Sequence[Pod] = ()
    events: Sequence[CoreEvent] = ()
    """The events of the pod, the oldest first."""
    features: Features = gates.DEFAULT
    unread: frozenset[str] = frozenset()
    partly_read: frozenset[str] = frozenset()
    """Kinds that could be read only in the pod's own namespace."""
    results: ClusterResults = msgspec.field(default_factory=ClusterResults)
    """Made when first needed; the contexts of one cluster share them."""


def from_objects(
    objects: Mapping[type[Any], Sequence[Any]], features: Features = gates.DEFAULT
) -> PodContext:
    """Return what the explanations of all pods need of objects by type, without their events."""
    return PodContext(
        claims={_key(item): item for item in objects.get(ResourceClaim, ())},
        templates={_key(item): item for item in objects.get(ResourceClaimTemplate, ())},
        classes=objects.get(dra.DeviceClass, ()),
        nodes={item.metadata.name: item for item in objects.get(Node, ())},
        quotas=objects.get(ResourceQuota, ()),
        slices=objects.get(dra.ResourceSlice, ()),
        taint_rules=objects.get(dra.DeviceTaintRule, ()),
        pods=objects.get(Pod, ()),
        features=features,
    )


def with_events(context: PodContext, pod: Pod, events: Iterable[CoreEvent]) -> PodContext:
    """Return the context of one pod: with those of the cluster's events that are about it."""
    results = context.results
    if results.events is None:
        results.events = {}
        for event in events:
            about = event.involved_object
            results.events.setdefault((about.namespace, about.name), []).append(event)
    named = results.events.get((pod.metadata.namespace, pod.metadata.name), ())
    about_pod = [item for item in named if _is_about(item, pod)]
    return msgspec.structs.replace(context, events=sorted(about_pod, key=_time))


def with_change(context: PodContext, change: NodeChange | CopyObject) -> PodContext:
    """Return the context after a change of something else than the pod."""
    changed = context.results.changed
    if change not in changed:
        results = ClusterResults()
        # The allocator's inventory and the line of pods stay those of the cluster as it is.
        results.explanations, results.line = context.results.explanations, context.results.line
        after = msgspec.structs.replace(context, results=results)
        if isinstance(change, CopyObject):
            changed[change] = _with_copy(after, change)
        else:
            nodes = {**context.nodes, change.node: change.changed(context.nodes[change.node])}
            changed[change] = msgspec.structs.replace(after, nodes=nodes)
    return msgspec.structs.replace(changed[change], events=context.events)


def _with_copy(context: PodContext, change: CopyObject) -> PodContext:
    source = ClaimKey(change.source, change.name)
    key = ClaimKey(change.namespace, change.name)
    metadata = ObjectMeta(name=key.name, namespace=key.namespace)
    if change.kind == TEMPLATE:
        template = ResourceClaimTemplate(metadata, context.templates[source].spec)
        templates = {**context.templates, key: template}
        return msgspec.structs.replace(context, templates=templates)
    claims = {**context.claims, key: ResourceClaim(metadata, context.claims[source].spec)}
    return msgspec.structs.replace(context, claims=claims)


def consumers_of(context: PodContext) -> Mapping[ClaimKey, tuple[str, ...]]:
    """Return the pods that use each claim, as NAMESPACE/NAME."""
    results = context.results
    if results.consumers is None:
        results.consumers = {
            key: tuple(
                f"{key.namespace}/{consumer.name}"
                for consumer in claim.status.reserved_for
                if pod_claims.is_pod(consumer)
            )
            for key, claim in context.claims.items()
            if claim.status.reserved_for
        }
    return results.consumers


def inventory_of(context: PodContext) -> ClusterInventory:
    """Build the allocator's inventory, with the allocated devices in use."""
    inventory = ClusterInventory(context.features)
    for node in context.nodes.values():
        inventory.put_node(node)
    for device_class in context.classes:
        inventory.put_class(device_class)
    for rule in context.taint_rules:
        inventory.put_taint_rule(rule)
    for resource_slice in context.slices:
        inventory.put_slice(resource_slice)
    for claim in context.claims.values():
        if claim.status.allocation is not None:
            inventory.put_claim(claim)
    return inventory


def _key(named: ResourceClaim | ResourceClaimTemplate) -> ClaimKey:
    return ClaimKey(named.metadata.namespace or DEFAULT_NAMESPACE, named.metadata.name)


def _is_about(event: CoreEvent, pod: Pod) -> bool:
    about = event.involved_object
    metadata = pod.metadata
    if about.uid and metadata.uid:
        return about.uid == metadata.uid
    return (about.kind, about.namespace, about.name) == ("Pod", metadata.namespace, metadata.name)


def _time(event: CoreEvent) -> str:
    series = event.series.last_observed_time if event.series else None
    return series or event.last_timestamp or event.event_time or ""


def claims_of(pod: Pod, context: PodContext) -> dict[str, ResourceClaim]:
    """Return the claims of a pod by its own names of them, also those its templates will give."""
    claims: dict[str, ResourceClaim] = {}
    for source in pod.spec.resource_claims:
        state = pod_claims.claim_of(pod, source)
        namespace = pod.metadata.namespace
        if state.name:
            claim = context.claims.get(ClaimKey(namespace, state.name))
            if claim is not None:
                claims[source.name] = claim
        elif not state.is_made:
            name = source.resource_claim_template_name or ""
            template = context.templates.get(ClaimKey(namespace, name))
            if template is not None:
                metadata = ObjectMeta(
                    name=f"{pod.metadata.name}-{source.name}", namespace=namespace
                )
                claims[source.name] = ResourceClaim(metadata, template.spec.spec)
    return claims

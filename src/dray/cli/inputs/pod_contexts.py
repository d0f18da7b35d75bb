"""The objects of a cluster that the explanation of a pod needs."""

from __future__ import annotations

import msgspec

from dray.api.ids import ClaimKey
from dray.api.types import dra
from dray.api.types.core import CoreEvent, ResourceQuota
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.explain.pod.pod_context import PodContext

DEFAULT_NAMESPACE = "default"


def of_all(objects: ClusterObjects) -> PodContext:
    """Return what the explanations of all pods need of a cluster, without their events."""
    return PodContext(
        claims={_key(item): item for item in objects.of(dra.ResourceClaim)},
        templates={_key(item): item for item in objects.of(dra.ResourceClaimTemplate)},
        classes=objects.of(dra.DeviceClass),
        nodes={item.metadata.name: item for item in objects.of(Node)},
        quotas=objects.of(ResourceQuota),
        slices=objects.of(dra.ResourceSlice),
        taint_rules=objects.of(dra.DeviceTaintRule),
        pods=objects.of(Pod),
        features=objects.features,
        unread=frozenset(objects.unread),
        partly_read=frozenset(objects.partly_read),
    )


def of(pod: Pod, objects: ClusterObjects, shared: PodContext | None = None) -> PodContext:
    """Return what the explanation of a pod needs; `shared` is what all pods have in common."""
    events = [item for item in objects.of(CoreEvent) if _is_about(item, pod)]
    context = of_all(objects) if shared is None else shared
    return msgspec.structs.replace(context, events=sorted(events, key=_time))


def _key(named: dra.ResourceClaim | dra.ResourceClaimTemplate) -> ClaimKey:
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

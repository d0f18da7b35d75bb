"""The objects of a cluster that the explanation of a pod needs."""

from __future__ import annotations

import msgspec

from dray.api.types.core import CoreEvent
from dray.api.types.pods import Pod
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.explain.pod import pod_context
from dray.explain.pod.pod_context import PodContext


def of_all(objects: ClusterObjects) -> PodContext:
    """Return what the explanations of all pods need of a cluster, without their events."""
    return msgspec.structs.replace(
        pod_context.from_objects(objects.objects, objects.features),
        unread=frozenset(objects.unread),
        partly_read=frozenset(objects.partly_read),
    )


def of(pod: Pod, objects: ClusterObjects, shared: PodContext | None = None) -> PodContext:
    """Return what the explanation of a pod needs; `shared` is what all pods have in common."""
    context = of_all(objects) if shared is None else shared
    return pod_context.with_events(context, pod, objects.of(CoreEvent))

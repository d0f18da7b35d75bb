"""Causes why pods and claims wait, in one line or in full, as `dray explain` finds them."""

from __future__ import annotations

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.cli.inputs import pod_contexts
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.explain import claim_explanation
from dray.explain.pod import pod_explanation, pod_fix_text, pod_progress_text, waiting_cause
from dray.explain.pod.pod_context import PodContext
from dray.explain.text import explanation_text


def short(
    pod: Pod, inventory: ClusterInventory, objects: ClusterObjects, shared: PodContext
) -> str:
    """Return in one line why a pod waits, or "" if nothing is in its way."""
    context = pod_contexts.of(pod, objects, shared)
    return waiting_cause.short(pod_explanation.explain_pod(pod, context, inventory))


def lines(kind: str, name: str, objects: ClusterObjects) -> list[str]:
    """Return the explanation of a pod or claim NAMESPACE/NAME."""
    values = objects.of(Pod) if kind == "pod" else objects.of(ResourceClaim)
    found = [v for v in values if f"{v.metadata.namespace}/{v.metadata.name}" == name]
    for value in found:
        if isinstance(value, Pod):
            context = pod_contexts.of(value, objects)
            explained = pod_explanation.explain_pod(value, context, objects.inventory())
            fixes = pod_fix_text.fixes(explained)
            result = list(pod_progress_text.lines(explained.progress, fixes))
            if explained.explanation is not None:
                result += explanation_text.details(explained.explanation)
            return result
        explanation = claim_explanation.explain(
            objects.inventory(), [value], new_share_id=lambda: "new"
        )
        return explanation_text.text(explanation).splitlines()
    return [f"{kind} {name} is gone"]

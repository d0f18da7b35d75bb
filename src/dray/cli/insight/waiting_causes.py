"""Causes why pods and claims wait, in one line or in full, as `dray explain` finds them."""

from __future__ import annotations

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.cli.inputs import pod_claims
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.insight import explain as explaining
from dray.explain.pod import obstacles, pod_progress_text
from dray.explain.text import explanation_text


def short(pod: Pod, inventory: ClusterInventory, objects: ClusterObjects) -> str:
    """Return in one line why a pod waits, or "" if nothing is in its way."""
    target = pod_claims.of_pod(pod, objects)
    explained = explaining.explained_target(target, inventory, objects)
    blocked = explained.way.blocked if explained.way else None
    if blocked is None:
        return ""
    first = blocked.obstacles[0]
    if isinstance(first, obstacles.ClaimsDoNotFit) and explained.explanation is not None:
        return explanation_text.short(explained.explanation)
    return pod_progress_text.sentence(first)


def lines(kind: str, name: str, objects: ClusterObjects) -> list[str]:
    """Return the explanation of a pod or claim NAMESPACE/NAME."""
    namespace, _, short_name = name.partition("/")
    if kind == "pod":
        pod = pod_claims.find(objects.of(Pod), short_name, namespace)
        target = pod_claims.of_pod(pod, objects) if pod else None
    else:
        claim = pod_claims.find(objects.of(ResourceClaim), short_name, namespace)
        target = pod_claims.of_claim(claim) if claim else None
    if target is None:
        return [f"{kind} {name} is gone"]
    explained = explaining.explained_target(target, objects.inventory(), objects)
    text = pod_progress_text.text(explained.way) if explained.way else ""
    if explained.explanation is not None:
        text += explanation_text.text(explained.explanation)
    return text.splitlines()

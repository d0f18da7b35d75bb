"""The pods of a DaemonSet: the nodes that they run on, and their tolerations and affinity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dray.api import kinds, well_known
from dray.api.selectors import node_selectors
from dray.api.semantics import tolerations
from dray.api.templates import pod_bodies
from dray.api.templates.workload_types import DaemonSet
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod, PodSpec
from dray.api.well_known import REVISION_LABEL

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GENERATION = "deprecated.daemonset.template.generation"
GENERATION_LABEL = "pod-template-generation"
STAY: Final = (well_known.NO_EXECUTE,)
"""The effects of taints that daemons on a node have to tolerate."""
COME: Final = (well_known.NO_SCHEDULE, well_known.NO_EXECUTE)
"""The effects of taints that new daemons have to tolerate."""

_TOLERATED = (
    (well_known.NODE_NOT_READY, well_known.NO_EXECUTE),
    (well_known.NODE_UNREACHABLE, well_known.NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", well_known.NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", well_known.NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", well_known.NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", well_known.NO_SCHEDULE),
)
_TOLERATED_ON_HOST_NETWORK = (("node.kubernetes.io/network-unavailable", well_known.NO_SCHEDULE),)


def spec_of(daemon_set: DaemonSet) -> PodSpec:
    """Return the spec of the pods, without the node that each is for."""
    template: dict[str, Any] = daemon_set.spec.template.get("spec") or {}
    return msgspec.convert({**template, "tolerations": _tolerations(template)}, PodSpec)


def generation_of(daemon_set: DaemonSet) -> str:
    """Return the template generation that old clients use, or ""."""
    text = daemon_set.metadata.annotations.get(GENERATION, "")
    return text if text.isdecimal() else ""


def target_node(pod: Pod) -> str:
    """Return the node of a pod, or the one that its affinity requires."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.values:
                return field.values[0]
    return ""


def matches(spec: PodSpec, node: Node) -> bool:
    """Return whether the name, labels and affinity of a daemon pod allow the node."""
    if spec.node_name not in ("", node.metadata.name):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    fits = node_selectors.compile_required_affinity(spec.node_selector, required)
    return fits(node.metadata.labels, node.metadata.name)


def tolerates(spec: PodSpec, node: Node, effects: Sequence[str]) -> bool:
    """Return whether a daemon pod tolerates the node's taints with one of the effects."""
    return all(
        tolerations.is_tolerated(taint, spec.tolerations)
        for taint in node.spec.taints
        if taint.effect in effects
    )


def _tolerations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tolerations of daemon pods.

    Daemons stay on failing nodes: they may be what repairs or observes them.
    """
    always = [*_TOLERATED, *(_TOLERATED_ON_HOST_NETWORK if spec.get("hostNetwork") else ())]
    own: list[dict[str, Any]] = spec.get("tolerations") or []
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in always]
    return [toleration for toleration in own if toleration not in added] + added


def pod_body(daemon_set: DaemonSet, node: str, revision: str) -> JsonObject:
    body = pod_bodies.pod_from(daemon_set.spec.template, kinds.DAEMON_SET, daemon_set.metadata)
    labels = {**body["metadata"].get("labels", {}), REVISION_LABEL: revision}
    if generation := generation_of(daemon_set):
        labels[GENERATION_LABEL] = generation
    body["metadata"]["labels"] = labels
    spec = body["spec"]
    spec["tolerations"] = _tolerations(spec)
    affinity = dict(spec.get("affinity") or {})
    on_node = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    affinity["nodeAffinity"] = {
        **(affinity.get("nodeAffinity") or {}),
        REQUIRED: {"nodeSelectorTerms": [{"matchFields": on_node}]},
    }
    spec["affinity"] = affinity
    return body

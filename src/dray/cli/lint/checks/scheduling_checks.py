"""Checks that pods and claims of files can be scheduled, by the scheduling decision itself.

The decision is made for a cluster in which no device is in use and no pod runs: what only has to
wait is no mistake of a file. The explanation of claims gives the reason and the changes that help.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from dray.api.features import Features
from dray.api.types import dra
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.lint.checks import pod_specs, scheduling_subjects, scheduling_suggestions
from dray.cli.lint.checks.scheduling_subjects import SchedulingSubject
from dray.cli.lint.findings import Finding
from dray.cli.lint.source_documents import Document
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.text import explanation_text
from dray.scheduling import decision
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.nodes import node_fit, pod_requirements
from dray.scheduling.nodes.node_fit import ReasonKind
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable

_NOW = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_FROM_FILES: tuple[type[Any], ...] = (
    *(Node, dra.ResourceSlice, dra.DeviceClass, dra.DeviceTaintRule),
)
_HARMLESS = {
    *("admin-access", "dropped-field", "extended-resource", "outdated-version"),
    *("toleration-without-effect", "unused-claim", "unused-config", "zero-count"),
}
"""Rules whose findings do not keep an object from being scheduled."""
_SHOWN = 4


class SchedulingChecks:
    """The scheduling decision for the pods and claims of files in one cluster."""

    def __init__(self, features: Features, objects: ClusterObjects) -> None:
        self._features, self._objects = features, objects
        self._state: SchedulingState | None = None

    def check(
        self, documents: Sequence[Document], findings: Iterable[Finding]
    ) -> Iterator[Finding]:
        """Yield a finding for each pod and claim that can never be scheduled.

        Objects with other findings are left out: these come first.
        """
        if self._objects.unread.keys() & {"Node", "ResourceSlice", "DeviceClass"}:
            return
        faulty = {id(found.document) for found in findings if found.rule not in _HARMLESS}
        own = scheduling_subjects.decoded(
            [document for document in documents if id(document) not in faulty]
        )
        if not self._objects.of(Node) and not own.objects.of(Node):
            return
        state = self._state_with(own.objects)
        others = scheduling_subjects.without_defined(self._objects, documents)
        faulty_classes = {
            document.name
            for document in documents
            if id(document) in faulty and document.kind.endswith("Class")
        }
        for subject in scheduling_subjects.subjects_in(own, others):
            if not faulty_classes & subject.classes:
                yield from _judged(subject, state, self._objects.source)

    def _state_with(self, own: ClusterObjects) -> SchedulingState:
        """Return the cluster with nothing in use, and the nodes, slices and classes of files."""
        added = [value for type_ in _FROM_FILES for value in own.of(type_)]
        if self._state is None or added:
            values = [value for type_ in _FROM_FILES for value in self._objects.of(type_)]
            state = SchedulingState.of([*values, *added], self._features)
            if added:
                return state
            self._state = state
        return self._state


def _judged(subject: SchedulingSubject, state: SchedulingState, source: str) -> Iterator[Finding]:
    if subject.pod is None:
        yield from _devices(subject, state, source, None)
        return
    result = _decided(subject.pod, subject.claims, state)
    if not isinstance(result, Unschedulable):
        return
    usable = _usable_nodes(subject.pod, state)
    if subject.claims and usable:
        found = list(_devices(subject, state, source, usable))
        yield from found
        if found:
            return
    if any(reason.kind is not ReasonKind.DEVICES for reason in result.reasons):
        yield _no_node(subject, subject.pod, state, result, source)


def _decided(
    pod: Pod, claims: Sequence[dra.ResourceClaim], state: SchedulingState
) -> decision.Decision:
    """Return the decision for a pod. The state is unchanged after it."""
    for claim in claims:
        state.claims.put(claim)
    try:
        (result,) = decision.decide(state, [pod], now=_NOW)
        if isinstance(result, NodeAssignment):
            state.release(result)
    finally:
        state.drop_pod(pod.metadata.key)
        for claim in claims:
            state.claims.drop(claim.key)
    return result


def _usable_nodes(pod: Pod, state: SchedulingState) -> list[str]:
    """Return the nodes on which the pod could run if it needed no devices."""
    requirements = pod_requirements.requirements_of(pod)
    return [
        node.name
        for node in state.nodes
        if not node_fit.reasons_against(node, requirements, state.classes.has)
    ]


def _devices(
    subject: SchedulingSubject, state: SchedulingState, source: str, nodes: Sequence[str] | None
) -> Iterator[Finding]:
    """Yield the finding that no node has the devices of the claims."""
    explanation = claim_explanation.explain(
        state.inventory, subject.claims, new_share_id=lambda: "new", nodes=nodes
    )
    if explanation.outcome not in (Outcome.REFUSED, Outcome.FAILED):
        return
    words = explanation_text.summary(msgspec.structs.replace(explanation, changes=()))
    document, path = _place(subject, explanation)
    where = (
        ""
        if document is subject.document
        else f" of {subject.document.kind} {subject.document.name}"
    )
    message = f"{path}: no node in {source} can serve the claim{where}: {words}"
    advice = "No single change was found that makes it fit: see dray explain -f FILE"
    suggestions = scheduling_suggestions.for_devices(subject, explanation)
    yield document.warning(path, "does-not-fit", message, advice, suggestions)


def _place(subject: SchedulingSubject, explanation: Explanation) -> tuple[Document, str]:
    """Return the request that cannot be served, in the files, or else the pod."""
    blocked = [funnel for funnel in explanation.funnels if funnel.blocked] or explanation.funnels
    for fault in [*explanation.faults, *blocked]:
        claim = max(fault.claim, 0)
        document = subject.sources[claim] if claim < len(subject.sources) else None
        if document is not None:
            root = f"{pod_specs.DEVICES[document.kind]}.requests"
            for number, request in enumerate(pod_specs.items_at(document.value, root)):
                name = request.get("name") if isinstance(request, dict) else None
                if name == fault.request.partition("/")[0]:
                    return document, f"{root}[{number}]"
    document = next(filter(None, subject.sources), subject.document)
    return document, pod_specs.DEVICES.get(
        document.kind, pod_specs.POD_SPECS.get(document.kind, "")
    )


def _no_node(
    subject: SchedulingSubject, pod: Pod, state: SchedulingState, result: Unschedulable, source: str
) -> Finding:
    document, root = subject.document, pod_specs.POD_SPECS[subject.document.kind]
    counts = {reason.text: count for reason, count in result.reasons.items()}
    texts = [f"{count} {text}" for text, count in counts.items()]
    why = ", ".join(texts[:_SHOWN]) or result.before_nodes or result.error
    path = f"{root}.nodeSelector" if pod.spec.node_selector else root
    words = f"no node in {source} can run the pod: {why}"
    if node_fit.NOT_SELECTED in result.reasons and pod.spec.node_selector:
        pairs = ", ".join(f"{key}={value}" for key, value in pod.spec.node_selector.items())
        words = f"no node in {source} that can run the pod has the labels {pairs} ({why})"
    advice = "See every node and reason: dray explain -f FILE"
    suggestions = scheduling_suggestions.for_nodes(pod, root, state, result)
    return document.warning(path, "no-node", f"{path}: {words}", advice, suggestions)

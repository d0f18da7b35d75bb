"""The nodes that a pod may run on, apart from devices, and why others are excluded.

The checks are those of the scheduler: cordons, taints, node selector, affinity, ports, resources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.api import well_known
from dray.api.formats.quantity import Quantity, QuantityFormat
from dray.api.selectors.label_selectors import SelectorError
from dray.api.semantics import tolerations
from dray.api.types.dra import DeviceClass
from dray.api.types.meta import NodeSelectorRequirement
from dray.api.types.nodes import Node, Taint
from dray.api.types.pods import Pod
from dray.explain.pod import obstacles
from dray.explain.pod.obstacles import Obstacle
from dray.explain.pod.pod_context import PodContext
from dray.explain.selectors import spelling
from dray.scheduling.claims.extended_resources import Classes
from dray.scheduling.nodes import node_fit, pod_requirements
from dray.scheduling.nodes.node_fit import FilterReason, Nodes, ReasonKind
from dray.scheduling.nodes.pod_requirements import PodRequirements

_EXTENDED = "/"
"""Part of the name of every extended resource, and of no resource of Kubernetes itself."""
CONDITION_TAINTS = "node.kubernetes.io/"
"""Prefix of the taints that Kubernetes itself sets while a node has a problem."""


class Eligibility(NamedTuple):
    """The nodes by whether the pod may run there."""

    eligible: list[str]
    excluded: dict[str, tuple[FilterReason, ...]]


class NodeChecks:
    """Checks the nodes of one cluster for pods; once for all pods with equal requirements."""

    def __init__(
        self, nodes: Mapping[str, Node], pods: Iterable[Pod], classes: Collection[DeviceClass]
    ) -> None:
        self._nodes, self._classes = nodes, classes
        self._states = _states(nodes.values(), pods)
        self._delegated = Classes()
        self._delegated.reload(classes)
        self._made: dict[PodRequirements, Eligibility] = {}

    def eligible_nodes(self, pod: Pod) -> Eligibility:
        """Return which nodes the scheduler would consider for a pod, before it looks at devices."""
        requirements = pod_requirements.requirements_of(pod)
        if requirements not in self._made:
            self._made[requirements] = self._eligibility(requirements)
        return self._made[requirements]

    def explain(
        self, pod: Pod, excluded: Mapping[str, Sequence[FilterReason]]
    ) -> Iterator[Obstacle]:
        """Yield why nodes are excluded: an obstacle for each cause."""
        exclusions = _Exclusions(pod, self._nodes, self._states, self._classes)
        return exclusions.explain(excluded)

    def _eligibility(self, requirements: PodRequirements) -> Eligibility:
        eligibility = Eligibility([], {})
        for state in self._states:
            try:
                reasons = node_fit.reasons_against(state, requirements, self._delegated.has)
            except SelectorError:
                reasons = (node_fit.NOT_SELECTED,)
            if not state.allocatable:
                # A node from a file without status: nothing is known about its resources.
                reasons = tuple(
                    item for item in reasons if item.kind is not ReasonKind.NODE_RESOURCES
                )
            if reasons:
                eligibility.excluded[state.name] = reasons
            else:
                eligibility.eligible.append(state.name)
        return eligibility


def node_checks(context: PodContext) -> NodeChecks:
    """Return the checks of the context's nodes."""
    results = context.results
    if results.checks is None:
        results.checks = NodeChecks(context.nodes, context.pods, context.classes)
    return results.checks


def _states(nodes: Iterable[Node], pods: Iterable[Pod]) -> Nodes:
    states = Nodes()
    for index, node in enumerate(nodes):
        states.put(node, index)
    for placed in pods:
        if placed.spec.node_name and placed.status.phase not in ("Succeeded", "Failed"):
            name = placed.metadata.uid or str(placed.metadata.key)
            usage = pod_requirements.requirements_of(placed).usage
            states.add_pod(name, placed.spec.node_name, usage)
    return states


class _Exclusions:
    """Explains why nodes are excluded."""

    def __init__(
        self,
        pod: Pod,
        nodes: Mapping[str, Node],
        states: Nodes,
        classes: Collection[DeviceClass],
    ) -> None:
        self._pod, self._nodes, self._classes = pod, nodes, classes
        self._states = states
        self._requirements: PodRequirements = pod_requirements.requirements_of(pod)

    def explain(self, excluded: Mapping[str, Sequence[FilterReason]]) -> Iterator[Obstacle]:
        """Yield an obstacle for each cause: nodes that the pod selects first, then most nodes."""
        by_reason: dict[FilterReason, list[str]] = {}
        if excluded and self._selects_nothing():
            # The scheduler looks at labels last, but nothing else helps before they match.
            yield from self._not_selected(tuple(self._nodes))
        for name, reasons in excluded.items():
            for reason in reasons:
                by_reason.setdefault(reason, []).append(name)
        if self._selects_nothing():
            by_reason.pop(node_fit.NOT_SELECTED, None)
        not_selected = (node_fit.NOT_SELECTED, node_fit.NOT_NAMED)
        for reason, names in sorted(
            by_reason.items(), key=lambda entry: (entry[0] in not_selected, -len(entry[1]))
        ):
            yield from self._obstacles(reason, tuple(names))

    def _selects_nothing(self) -> bool:
        """Return whether no node has the labels of the pod's node selector."""
        selector = self._pod.spec.node_selector.items()
        return bool(selector) and not any(
            selector <= node.metadata.labels.items() for node in self._nodes.values()
        )

    def _obstacles(self, reason: FilterReason, names: tuple[str, ...]) -> Iterator[Obstacle]:
        if reason == node_fit.WERE_UNSCHEDULABLE:
            yield obstacles.NodesCordoned(nodes=names)
        elif reason == node_fit.HAD_TAINTS:
            yield from self._tainted(names)
        elif reason in (node_fit.NOT_SELECTED, node_fit.NOT_NAMED):
            yield from self._not_selected(names)
        elif (resource := self._short_resource(reason)) is not None:
            yield self._short(resource, names)
        else:
            yield obstacles.NodesFull(reason=reason.text, nodes=names)

    def _tainted(self, names: Sequence[str]) -> Iterator[Obstacle]:
        by_taint: dict[str, list[str]] = {}
        for name in names:
            for taint in untolerated(self._pod, self._nodes[name]):
                by_taint.setdefault(taint_text(taint), []).append(name)
        for taint_words, tainted in by_taint.items():
            yield obstacles.NodesTainted(taint=taint_words, nodes=tuple(tainted))

    def _not_selected(self, names: tuple[str, ...]) -> Iterator[Obstacle]:
        selector = self._pod.spec.node_selector
        labels = [self._nodes[name].metadata.labels for name in names]
        if self._selects_nothing():
            missing = next(
                (
                    key
                    for key, value in selector.items()
                    if not any(
                        node.metadata.labels.get(key) == value for node in self._nodes.values()
                    )
                ),
                "",
            )
            values = {own[missing] for own in labels if missing in own}
            yield obstacles.NodeSelectorUnmatched(
                selector=dict(selector),
                label=missing,
                values=tuple(sorted(values)),
                nodes=len(names),
            )
        elif selector and not any(selector.items() <= own.items() for own in labels):
            yield obstacles.NodesFull(reason="the pod's nodeSelector excludes them", nodes=names)
        else:
            yield obstacles.NodeAffinityUnmatched(terms=_affinity_text(self._pod), nodes=names)

    def _short_resource(self, reason: FilterReason) -> str | None:
        amounts = self._requirements.usage.amounts
        return next((name for name in amounts if reason.text == f"Insufficient {name}"), None)

    def _short(self, resource: str, names: tuple[str, ...]) -> Obstacle:
        left: dict[str, int] = {}
        for state in self._states:
            if state.name in names:
                amount = state.allocatable.get(resource, 0)
                left[state.name] = max(amount - state.requested.get(resource, 0), 0)
        known = {name for state in self._states for name in state.allocatable}
        if _EXTENDED in resource and resource not in known:
            provided = {item.spec.extended_resource_name or "" for item in self._classes}
            close = spelling.similar(resource, {*known, *provided} - {""})
            return obstacles.ResourceUnknown(resource=resource, similar=close[0] if close else "")
        best = max(left, key=lambda name: left[name])
        return obstacles.ResourceShort(
            resource=resource,
            needed=_amount(resource, self._requirements.usage.amounts[resource]),
            most=_amount(resource, left[best]),
            node=best,
            nodes=names,
        )


def _amount(resource: str, whole: int) -> str:
    """Return an amount as a manifest has it; cpu is counted in thousandths."""
    if resource == "cpu":
        return f"{whole}m" if whole % 1000 else str(whole // 1000)
    if resource in ("memory", "ephemeral-storage"):
        return str(Quantity(whole * 10**9, QuantityFormat.BINARY_SI))
    return str(whole)


def untolerated(pod: Pod, node: Node) -> list[Taint]:
    """Return the taints of a node that keep the pod away."""
    preventing = (well_known.NO_SCHEDULE, well_known.NO_EXECUTE)
    return [
        taint
        for taint in node.spec.taints
        if taint.effect in preventing and not tolerations.is_tolerated(taint, pod.spec.tolerations)
    ]


def taint_text(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _affinity_text(pod: Pod) -> str:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    terms = [
        " and ".join(map(_requirement, (*term.match_expressions, *term.match_fields)))
        for term in (required.node_selector_terms if required else ())
    ]
    return " or ".join(terms)


def _requirement(requirement: NodeSelectorRequirement) -> str:
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"

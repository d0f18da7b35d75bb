"""Pod affinity, pod anti-affinity and topology spread.

The required terms only, as kube-scheduler's filter plugins InterPodAffinity and PodTopologySpread.
Few pods have such terms, so the checks are built for each pod and not cached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from dray.api import well_known
from dray.api.selectors import label_selectors
from dray.api.types.core import Namespace
from dray.api.types.meta import LabelSelector
from dray.api.types.pods import Pod, PodAffinityTerm, TopologySpreadConstraint
from dray.scheduling.nodes.node_fit import FilterReason, Nodes, NodeState, ReasonKind, Reasons
from dray.scheduling.nodes.pod_requirements import PodRequirements

AFFINITY_NOT_MATCHED = FilterReason(
    "node(s) didn't match pod affinity rules", ReasonKind.POD_AFFINITY
)
ANTI_AFFINITY_MATCHED = FilterReason(
    "node(s) didn't match pod anti-affinity rules", ReasonKind.POD_AFFINITY
)
EXISTING_ANTI_AFFINITY = FilterReason(
    "node(s) didn't satisfy existing pods anti-affinity rules", ReasonKind.POD_AFFINITY
)
SKEW_TOO_HIGH = FilterReason(
    "node(s) didn't match pod topology spread constraints", ReasonKind.POD_AFFINITY
)
TOPOLOGY_LABEL_MISSING = FilterReason(
    "node(s) didn't match pod topology spread constraints (missing required label)", ReasonKind.NODE
)

DO_NOT_SCHEDULE = "DoNotSchedule"

Domain = tuple[str, str]
"""A topology key and its value on some nodes."""


class PlacedPod(NamedTuple):
    """A pod that has a node, or will have one."""

    pod: Pod
    node: NodeState


class _Term:
    """A term of a pod, compiled."""

    __slots__ = ("_any_namespace", "_namespaces", "_selector", "key")

    def __init__(self, owner: Pod, term: PodAffinityTerm, namespaces: Iterable[Namespace]) -> None:
        self.key = term.topology_key
        self._selector = selector_or_nothing(term.label_selector)
        self._any_namespace = term.namespace_selector == LabelSelector()
        self._namespaces = set(term.namespaces)
        if term.namespace_selector is not None and not self._any_namespace:
            chosen = selector_or_nothing(term.namespace_selector)
            self._namespaces |= {
                namespace.metadata.name
                for namespace in namespaces
                if chosen.matches(namespace.metadata.labels)
            }
        elif not term.namespaces and term.namespace_selector is None:
            self._namespaces = {owner.metadata.namespace}

    def matches(self, pod: Pod) -> bool:
        """Return whether the term selects the pod."""
        if not (self._any_namespace or pod.metadata.namespace in self._namespaces):
            return False
        return self._selector.matches(pod.metadata.labels)

    def domain_of(self, state: NodeState) -> Domain | None:
        """Return the term's domain that the node is in; None if the node has no such label."""
        value = state.labels.get(self.key)
        return None if value is None else (self.key, value)


Check = Callable[[NodeState], FilterReason | None]


class PodAffinityIndex:
    """The pods that matter for affinity. `pods` are all pods, with or without a node."""

    def __init__(self, nodes: Nodes, pods: Iterable[Pod], namespaces: Iterable[Namespace]) -> None:
        self._nodes, self._pods, self._namespaces = nodes, pods, namespaces
        self._with_anti_affinity: dict[str, Pod] = {}
        """Pods with anti-affinity terms, by uid: these are checked for every pod to be placed."""
        self.hidden: set[str] = set()
        """The uids of pods that do not count for now: a trial removes them."""

    def put(self, pod: Pod) -> None:
        if any(_anti_affinity_terms(pod)):
            self._with_anti_affinity[pod.metadata.uid] = pod

    def drop(self, pod: Pod) -> None:
        self._with_anti_affinity.pop(pod.metadata.uid, None)

    def checks_for(
        self, pod: Pod, requirements: PodRequirements
    ) -> Callable[[NodeState], Reasons] | None:
        """Return the check of a node against other pods; None if every node passes it."""
        others = (self._affinity(pod), self._anti_affinity(pod), self._existing(pod))
        checks = [*self._spread(pod, requirements), *filter(None, others)]
        if not checks:
            return None

        def reasons(state: NodeState) -> Reasons:
            for check in checks:
                reason = check(state)
                if reason is not None:
                    return (reason,)
            return ()

        return reasons

    def _placed(self, pods: Iterable[Pod]) -> Iterator[PlacedPod]:
        for pod in pods:
            if pod.metadata.uid in self.hidden:
                continue
            name = pod.spec.node_name or self._nodes.node_of(pod.metadata.uid)
            state = self._nodes.get(name) if name else None
            if state is not None:
                yield PlacedPod(pod, state)

    def _terms(self, owner: Pod, terms: Iterable[PodAffinityTerm]) -> list[_Term]:
        return [_Term(owner, term, self._namespaces) for term in terms]

    def _domains(self, terms: Iterable[_Term], pods: Iterable[Pod]) -> Iterator[Domain]:
        listed = list(terms)
        for placed in self._placed(pods):
            for term in listed:
                domain = term.domain_of(placed.node)
                if domain is not None and term.matches(placed.pod):
                    yield domain

    def _existing(self, pod: Pod) -> Check | None:
        """Check the anti-affinity terms of pods that are placed already."""
        forbidden: set[Domain] = set()
        for placed in self._placed(self._with_anti_affinity.values()):
            if placed.pod.metadata.uid == pod.metadata.uid:
                continue
            for term in self._terms(placed.pod, _anti_affinity_terms(placed.pod)):
                domain = term.domain_of(placed.node)
                if domain is not None and term.matches(pod):
                    forbidden.add(domain)
        return _outside(forbidden, EXISTING_ANTI_AFFINITY) if forbidden else None

    def _anti_affinity(self, pod: Pod) -> Check | None:
        terms = self._terms(pod, _anti_affinity_terms(pod))
        if not terms:
            return None
        others = (other for other in self._pods if other.metadata.uid != pod.metadata.uid)
        return _outside(set(self._domains(terms, others)), ANTI_AFFINITY_MATCHED)

    def _affinity(self, pod: Pod) -> Check | None:
        terms = self._terms(pod, _affinity_terms(pod))
        if not terms:
            return None
        # Only pods that all terms select count.
        # https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/plugins/interpodaffinity/filtering.go
        # (getIncomingAffinityAntiAffinityCounts)
        selected = [other for other in self._pods if all(term.matches(other) for term in terms)]
        domains = set(self._domains(terms, selected))
        # The first pod of a group that wants to be together may go anywhere.
        is_first = not domains and all(term.matches(pod) for term in terms)

        def check(state: NodeState) -> FilterReason | None:
            own = [term.domain_of(state) for term in terms]
            if None in own or not (is_first or domains.issuperset(own)):
                return AFFINITY_NOT_MATCHED
            return None

        return check

    def _spread(self, pod: Pod, requirements: PodRequirements) -> list[Check]:
        constraints = [
            constraint
            for constraint in pod.spec.topology_spread_constraints
            if constraint.when_unsatisfiable == DO_NOT_SCHEDULE
        ]
        if not constraints:
            return []
        eligible = [
            state
            for state in self._nodes
            if all(_is_eligible(state, constraint, requirements) for constraint in constraints)
        ]
        return [self._one_spread(pod, constraint, eligible).check for constraint in constraints]

    def _one_spread(
        self, pod: Pod, constraint: TopologySpreadConstraint, eligible: Iterable[NodeState]
    ) -> _Spread:
        key, selector = constraint.topology_key, selector_or_nothing(constraint.label_selector)
        counts: Counter[str] = Counter({state.labels[key]: 0 for state in eligible})
        for placed in self._placed(self._pods):
            value = placed.node.labels.get(key, "")
            if value in counts and _counts_for(placed.pod, pod, selector):
                counts[value] += 1
        least = min(counts.values(), default=0)
        if len(counts) < (constraint.min_domains or 1):
            least = 0
        own = selector.matches(pod.metadata.labels)
        return _Spread(key, counts, least - own + constraint.max_skew)


class _Spread(NamedTuple):
    """The pods of each domain, and how many a domain may have before one is added."""

    key: str
    counts: Mapping[str, int]
    most: int

    def check(self, state: NodeState) -> FilterReason | None:
        value = state.labels.get(self.key)
        if value is None:
            return TOPOLOGY_LABEL_MISSING
        return SKEW_TOO_HIGH if self.counts.get(value, 0) > self.most else None


def _affinity_terms(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def _anti_affinity_terms(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def selector_or_nothing(selector: LabelSelector | None) -> label_selectors.ParsedSelector:
    """Return the compiled selector, or one that matches nothing if it is invalid."""
    try:
        return label_selectors.label_selector(selector)
    except label_selectors.SelectorError:
        return label_selectors.NOTHING


def _outside(forbidden: set[Domain], reason: FilterReason) -> Check:
    keys = {key for key, _ in forbidden}

    def check(state: NodeState) -> FilterReason | None:
        own = {(key, state.labels[key]) for key in keys if key in state.labels}
        return None if forbidden.isdisjoint(own) else reason

    return check


def _counts_for(other: Pod, pod: Pod, selector: label_selectors.ParsedSelector) -> bool:
    metadata = other.metadata
    return (
        metadata.namespace == pod.metadata.namespace
        and metadata.deletion_timestamp is None
        and metadata.uid != pod.metadata.uid
        and selector.matches(metadata.labels)
    )


def _is_eligible(
    state: NodeState, constraint: TopologySpreadConstraint, requirements: PodRequirements
) -> bool:
    return (
        constraint.topology_key in state.labels
        and (constraint.node_affinity_policy == "Ignore" or _is_selected(state, requirements))
        and not (constraint.node_taints_policy == "Honor" and _is_tainted(state, requirements))
    )


def _is_selected(state: NodeState, requirements: PodRequirements) -> bool:
    if requirements.names is not None and state.name not in requirements.names:
        return False
    return requirements.selects is None or requirements.selects(state.labels, state.name)


def _is_tainted(state: NodeState, requirements: PodRequirements) -> bool:
    assert state.node is not None
    taints = state.node.spec.taints
    return bool(requirements.untolerated(taints, well_known.NO_SCHEDULE, well_known.NO_EXECUTE))

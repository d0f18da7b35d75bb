"""Explain why claims are not allocated and what would help."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import rejections, requests
from dray.allocator.placement import Fit
from dray.allocator.problem import resolution
from dray.allocator.problem.resolution import ResolvedClaim
from dray.api.ids import ClaimKey, DeviceId
from dray.api.selectors import node_selectors
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.explain.suggestions import relaxation
from dray.explain.suggestions.changes import (
    ClaimChange,
    Combined,
    DropConstraint,
    DropRequest,
    ReplaceConstraint,
    SuggestedChange,
)
from dray.explain.suggestions.proposals import ProposalContext
from dray.explain.survey import diagnosis, equivalence, facts, faults, node_survey
from dray.explain.survey.bounded_allocator import BoundedAllocator
from dray.explain.survey.diagnosis import Reason
from dray.explain.survey.facts import FilterFacts
from dray.explain.survey.faults import Fault, GateOff
from dray.explain.survey.funnel import Funnel
from dray.explain.survey.node_survey import Survey, UnusablePool
from dray.explain.survey.unreachable_slices import UnreachableSlices, find_unreachable_slices

# Most claims that fit do so on one of the first nodes. Of the other nodes, the survey excludes most
# without a search, and it is needed anyway to explain claims that do not fit.
NODES_TRIED_FIRST = 64
CHANGES_COMBINED = 3
_CORRECTIONS_TRIED = 4


class Outcome(enum.StrEnum):
    ALLOCATED = "allocated"
    FITS = "fits"
    REFUSED = "refused"
    """No node can serve the claims now."""
    FAILED = "failed"
    """Claims, classes or slices are invalid."""
    UNDECIDED = "undecided"
    """The search reached its limit of positions."""


class PickedDevice(msgspec.Struct, frozen=True):
    """A device for a request of a claim."""

    claim: ClaimKey
    request: str
    device: DeviceId


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    outcome: Outcome
    claims: tuple[ClaimKey, ...]
    allocated: tuple[ClaimKey, ...] = ()
    """Claims of the same pod that are allocated already, which may limit the nodes."""
    nodes: int = 0
    """How many nodes are considered."""
    node: str = ""
    """The node on which the claims fit."""
    devices: tuple[PickedDevice, ...] = ()
    """The devices that the claims have or would get."""
    message: str = ""
    """Upstream's message for an error."""
    faults: tuple[Fault, ...] = ()
    reasons: tuple[Reason, ...] = ()
    funnels: tuple[Funnel, ...] = ()
    facts: tuple[FilterFacts, ...] = ()
    unusable: tuple[UnusablePool, ...] = ()
    unreachable_slices: tuple[UnreachableSlices, ...] = ()
    changes: tuple[SuggestedChange, ...] = ()
    """The changes that would help, the smallest first."""
    consumers: dict[ClaimKey, tuple[str, ...]] = {}
    """The pods that use each claim of the cluster, as far as they are known."""
    specs: dict[ClaimKey, ResourceClaim] = {}
    """The claims that changes apply to."""


def explain(
    cluster: ClusterInventory,
    claims: Sequence[ResourceClaim],
    *,
    new_share_id: Callable[[], str],
    nodes: Iterable[str] | None = None,
    combine: int = CHANGES_COMBINED,
    consumers: Mapping[ClaimKey, tuple[str, ...]] | None = None,
) -> Explanation:
    """Explain the claims of a pod. `nodes` are the nodes to consider; None for all.

    Suggestions are tried on `cluster` itself; it is unchanged when this returns. If no change helps
    by itself, up to `combine` are combined; that takes as long as as many explanations. `consumers`
    are the pods of the cluster's claims, to name them in texts.
    """
    explanation = _explain(cluster, claims, new_share_id, nodes, combine)
    return msgspec.structs.replace(explanation, consumers=dict(consumers or {}))


def _explain(
    cluster: ClusterInventory,
    claims: Sequence[ResourceClaim],
    new_share_id: Callable[[], str],
    nodes: Iterable[str] | None,
    combine: int,
) -> Explanation:
    allocated = [claim for claim in claims if claim.status.allocation is not None]
    waiting = [claim for claim in claims if claim.status.allocation is None]
    devices = [picked for claim in allocated for picked in _picked(claim, claim.status.allocation)]
    if not waiting:
        return Explanation(outcome=Outcome.ALLOCATED, claims=_keys(claims), devices=tuple(devices))
    usable_nodes = _usable_nodes(cluster, allocated, nodes)
    allocator = BoundedAllocator(cluster, usable_nodes, new_share_id=new_share_id)
    investigation: _Investigation | None = None
    try:
        fit = allocator.confirmed_fit(waiting, allocator.nodes[:NODES_TRIED_FIRST])
        if fit is None:
            investigation = _Investigation(cluster, waiting, allocated, allocator, combine)
            fit = allocator.confirmed_fit(waiting, investigation.undecided())
    except rejections.AllocationError as failure:
        if investigation is None:
            investigation = _Investigation(cluster, waiting, allocated, allocator, combine)
        return investigation.failed(failure)
    if fit is None:
        assert investigation is not None
        return investigation.refused()
    for claim, allocation in zip(waiting, fit.allocations, strict=True):
        devices += _picked(claim, allocation)
    return Explanation(
        outcome=Outcome.FITS, claims=_keys(claims), node=fit.node, devices=tuple(devices)
    )


def _keys(claims: Iterable[ResourceClaim]) -> tuple[ClaimKey, ...]:
    return tuple(claim.key for claim in claims)


def _picked(claim: ResourceClaim, allocation: AllocationResult | None) -> list[PickedDevice]:
    return [
        PickedDevice(claim.key, result.request, result.device_id)
        for result in (allocation.devices.results if allocation else ())
    ]


def _usable_nodes(
    cluster: ClusterInventory, allocated: Iterable[ResourceClaim], nodes: Iterable[str] | None
) -> list[str]:
    """Return the nodes on which the allocated claims can be used, in the order of the cluster."""
    node_tests = [
        node_selectors.compile_node_selector(claim.status.allocation.node_selector)
        for claim in allocated
        if claim.status.allocation is not None and claim.status.allocation.node_selector is not None
    ]
    allowed = None if nodes is None else set(nodes)
    return [
        entry.name
        for entry in cluster.by_index
        if entry is not None
        and entry.node is not None
        and (allowed is None or entry.name in allowed)
        and all(test(entry.node.metadata.labels, entry.name) for test in node_tests)
    ]


def first_fit(
    cluster: ClusterInventory, claims: Sequence[ResourceClaim], nodes: Iterable[str]
) -> str:
    """Return the first of the nodes on which the claims fit, or an empty string."""
    allocated = [claim for claim in claims if claim.status.allocation is not None]
    waiting = [claim for claim in claims if claim.status.allocation is None]
    usable = _usable_nodes(cluster, allocated, nodes)
    if not waiting:
        return usable[0] if usable else ""
    fit = allocations(cluster, waiting, usable)
    return fit.node if fit else ""


def allocations(
    cluster: ClusterInventory,
    claims: Sequence[ResourceClaim],
    nodes: Sequence[str] | None = None,
) -> Fit | None:
    """Return a node and the devices that claims without devices get, or None."""
    usable = _usable_nodes(cluster, (), None) if nodes is None else nodes
    allocator = BoundedAllocator(cluster, usable, new_share_id=lambda: "")
    try:
        return allocator.confirmed_fit(claims, usable)
    except rejections.AllocationError:
        return None


class _Investigation:
    """Explains claims that do not fit on the first nodes."""

    def __init__(
        self,
        cluster: ClusterInventory,
        claims: Sequence[ResourceClaim],
        allocated: Sequence[ResourceClaim],
        allocator: BoundedAllocator,
        combine: int,
    ) -> None:
        self._cluster = cluster
        self._combine = combine
        self._claims = claims
        self._allocated = allocated
        self._allocator = allocator
        parsed = [requests.parse_claim(claim.spec.devices) for claim in claims]
        self._resolved: Sequence[ResolvedClaim] = resolution.resolve(
            parsed, cluster.classes, cluster.selectors, cluster.features
        )
        self._survey: Survey = node_survey.survey_nodes(cluster, allocator.nodes, self._resolved)
        self._representatives = equivalence.representatives(
            self._survey.undecided_groups(), self._resolved
        )
        """For each undecided node the equivalent one that is searched."""

    def undecided(self) -> list[str]:
        """Return the nodes that still have to be searched.

        If an expression raises an error on some device, these are all nodes: the error of the first
        of them in order is the result.
        """
        later = self._allocator.nodes[NODES_TRIED_FIRST:]
        if any(stage.failing for funnel in self._survey.funnels for stage in funnel.stages):
            return list(later)
        refused = set(self._survey.evaluated_nodes) - set(self._survey.undecided_nodes)
        searched = self._representatives
        return [node for node in later if node not in refused and searched.get(node, node) == node]

    def refused(self) -> Explanation:
        reasons = diagnosis.reasons(
            self._survey, self._allocator, self._claims, self._representatives
        )
        return self._explanation(Outcome.REFUSED, reasons=reasons)

    def failed(self, failure: rejections.AllocationError) -> Explanation:
        if isinstance(failure, rejections.SearchTimeout):
            return self._explanation(Outcome.UNDECIDED)
        faults_found = faults.find(self._cluster, self._resolved, self._survey, failure)
        message = failure.text(self._claims)
        return self._explanation(Outcome.FAILED, faults_found=faults_found, message=message)

    def _explanation(
        self,
        outcome: Outcome,
        *,
        reasons: tuple[Reason, ...] = (),
        faults_found: tuple[Fault, ...] = (),
        message: str = "",
    ) -> Explanation:
        funnels = self._survey.funnels
        observations = facts.observe(self._cluster, self._survey, self._resolved)
        unreachable = find_unreachable_slices(self._cluster)
        off = [fault.gate for fault in faults_found if isinstance(fault, GateOff)]
        excluding = diagnosis.blocking_feature_gates(funnels, unreachable, reasons)
        context = ProposalContext(
            self._cluster,
            self._claims,
            self._resolved,
            self._survey,
            observations,
            tuple(dict.fromkeys([*off, *excluding])),
        )
        return Explanation(
            outcome=outcome,
            claims=_keys(self._claims),
            specs={claim.key: claim for claim in self._claims},
            allocated=_keys(self._allocated),
            nodes=len(self._allocator.nodes),
            message=message,
            faults=faults_found,
            reasons=reasons,
            funnels=funnels,
            facts=tuple(observed.facts for observed in observations),
            unusable=self._survey.unusable,
            unreachable_slices=unreachable,
            changes=relaxation.find(context, self._allocator.nodes) or self._combined(context),
        )

    def _combined(self, context: ProposalContext) -> tuple[SuggestedChange, ...]:
        """Return changes that help together, if none helps by itself."""
        if self._combine < 2:
            return ()
        return self._corrected_further(context) or self._by_request()

    def _corrected_further(self, context: ProposalContext) -> tuple[SuggestedChange, ...]:
        """Return a correction of an obvious mistake with what else is needed, or nothing."""
        for proposal in relaxation.corrections(context)[:_CORRECTIONS_TRIED]:
            correction = proposal.change
            with correction.applied_in(self._cluster):
                further = self._explained(correction.applied_to(self._claims))
            if further.changes:
                return tuple(_together((correction, change)) for change in further.changes)
        return ()

    def _by_request(self) -> tuple[SuggestedChange, ...]:
        """Return one change for each request that cannot be served by itself, or nothing."""
        blocked = dict.fromkeys(
            (funnel.claim, funnel.request.partition("/")[0])
            for funnel in self._survey.funnels
            if funnel.blocked
        )
        if not 1 < len(blocked) <= self._combine:
            return ()
        parts: list[SuggestedChange] = []
        for number, request in blocked:
            alone = self._explained([_only(self._claims[number], request)])
            part = next(filter(_is_of_request, alone.changes), None)
            if part is None:
                return ()
            is_of_claim = isinstance(part, ClaimChange)
            parts.append(msgspec.structs.replace(part, claim=number) if is_of_claim else part)
        together = _together(_distinct(parts))
        with together.applied_in(self._cluster):
            fit = self._explained(together.applied_to(self._claims))
        is_enough = fit.outcome is Outcome.FITS
        return (msgspec.structs.replace(together, node=fit.node),) if is_enough else ()

    def _explained(self, claims: Sequence[ResourceClaim]) -> Explanation:
        return explain(
            self._cluster,
            claims,
            new_share_id=lambda: "",
            nodes=self._allocator.nodes,
            combine=self._combine - 1,
        )


def _is_of_request(change: SuggestedChange) -> bool:
    """Whether a change for one request of a claim is one for the whole claim, too.

    Constraints have other positions there.
    """
    parts = change.parts if isinstance(change, Combined) else (change,)
    return not any(isinstance(part, ReplaceConstraint | DropConstraint) for part in parts)


def _together(parts: tuple[SuggestedChange, ...]) -> SuggestedChange:
    """Return one change with the parts of combined changes."""
    flat = [
        part
        for change in parts
        for part in (change.parts if isinstance(change, Combined) else (change,))
    ]
    return Combined(parts=tuple(flat), node=parts[-1].node)


def _distinct(parts: Iterable[SuggestedChange]) -> tuple[SuggestedChange, ...]:
    """Return the changes without those that are equal to an earlier one."""
    kept: list[SuggestedChange] = []
    for part in parts:
        if part not in kept:
            kept.append(part)
    return tuple(kept)


def _only(claim: ResourceClaim, request: str) -> ResourceClaim:
    """Return the claim with one request."""
    for other in claim.spec.devices.requests:
        if other.name != request:
            (claim,) = DropRequest(claim=0, request=other.name).applied_to([claim])
    return claim

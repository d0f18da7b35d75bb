"""Why claims are not allocated, and what would help: the way from claims to an `Explanation`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import rejections, requests
from dray.allocator.problem import resolution
from dray.allocator.problem.resolution import ResolvedClaim
from dray.api.ids import ClaimKey, DeviceId
from dray.api.selectors import node_selectors
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.explain.suggestions import relaxation
from dray.explain.suggestions.changes import SuggestedChange
from dray.explain.suggestions.proposals import ProposalContext
from dray.explain.survey import (
    diagnosis,
    equivalence,
    facts,
    faults,
    node_survey,
    unreachable_slices,
)
from dray.explain.survey.bounded_allocator import BoundedAllocator
from dray.explain.survey.diagnosis import Reason
from dray.explain.survey.facts import FilterFacts
from dray.explain.survey.faults import Fault, GateOff
from dray.explain.survey.funnel import Funnel
from dray.explain.survey.node_survey import Survey, UnusablePool
from dray.explain.survey.unreachable_slices import UnreachableSlices

ASKED_AT_ONCE = 64
"""Most claims that fit do so on one of the first nodes; of the others, most can be ruled out by
what has to be counted anyway."""


class Outcome(enum.StrEnum):
    ALLOCATED = "allocated"
    FITS = "fits"
    REFUSED = "refused"
    """No node can serve the claims as things are."""
    FAILED = "failed"
    """Something is wrong with the claims, or with what they meet."""
    UNDECIDED = "undecided"
    """The search was given up."""


class PickedDevice(msgspec.Struct, frozen=True):
    """A device for a request of a claim."""

    claim: ClaimKey
    request: str
    device: DeviceId


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    outcome: Outcome
    claims: tuple[ClaimKey, ...]
    allocated: tuple[ClaimKey, ...] = ()
    """Claims of the same pod that have devices already, which may leave only some nodes."""
    nodes: int = 0
    """How many nodes come into question."""
    node: str = ""
    """Where the claims fit."""
    devices: tuple[PickedDevice, ...] = ()
    """What claims have, or would get."""
    message: str = ""
    """Upstream's words for a failure."""
    faults: tuple[Fault, ...] = ()
    reasons: tuple[Reason, ...] = ()
    funnels: tuple[Funnel, ...] = ()
    facts: tuple[FilterFacts, ...] = ()
    unusable: tuple[UnusablePool, ...] = ()
    unreachable_slices: tuple[UnreachableSlices, ...] = ()
    changes: tuple[SuggestedChange, ...] = ()
    """What would help, the smallest change first."""


def explain(
    fleet: ClusterInventory,
    claims: Sequence[ResourceClaim],
    *,
    new_share_id: Callable[[], str],
    nodes: Iterable[str] | None = None,
) -> Explanation:
    """What becomes of the claims of a pod; `nodes` are those that come into question, if not all.

    The fleet is as before when this returns.
    """
    allocated = [each for each in claims if each.status.allocation is not None]
    waiting = [each for each in claims if each.status.allocation is None]
    had = [picked for each in allocated for picked in _picked(each, each.status.allocation)]
    if not waiting:
        return Explanation(outcome=Outcome.ALLOCATED, claims=_keys(claims), devices=tuple(had))
    asking = BoundedAllocator(
        fleet, _within_reach(fleet, allocated, nodes), new_share_id=new_share_id
    )
    inquiry: _Investigation | None = None
    try:
        fit = asking.first_fit(waiting, asking.nodes[:ASKED_AT_ONCE])
        if fit is None:
            inquiry = _Investigation(fleet, waiting, allocated, asking)
            fit = asking.first_fit(waiting, inquiry.undecided())
    except rejections.AllocationError as failure:
        return (inquiry or _Investigation(fleet, waiting, allocated, asking)).failed(failure)
    if fit is None:
        assert inquiry is not None
        return inquiry.refused()
    for claim, allocation in zip(waiting, fit.allocations, strict=True):
        had += _picked(claim, allocation)
    return Explanation(
        outcome=Outcome.FITS, claims=_keys(claims), node=fit.node, devices=tuple(had)
    )


def _keys(claims: Iterable[ResourceClaim]) -> tuple[ClaimKey, ...]:
    return tuple(claim.key for claim in claims)


def _picked(claim: ResourceClaim, allocation: AllocationResult | None) -> list[PickedDevice]:
    (key,) = _keys([claim])
    return [
        PickedDevice(key, each.request, each.device_id)
        for each in (allocation.devices.results if allocation else ())
    ]


def _within_reach(
    fleet: ClusterInventory, allocated: Iterable[ResourceClaim], nodes: Iterable[str] | None
) -> list[str]:
    """The nodes where the claims that are allocated can be used, in the order of the fleet."""
    tests = [
        node_selectors.compile_node_selector(claim.status.allocation.node_selector)
        for claim in allocated
        if claim.status.allocation is not None and claim.status.allocation.node_selector is not None
    ]
    chosen = None if nodes is None else set(nodes)
    return [
        entry.name
        for entry in fleet.by_index
        if entry is not None
        and entry.node is not None
        and (chosen is None or entry.name in chosen)
        and all(test(entry.node.metadata.labels, entry.name) for test in tests)
    ]


class _Investigation:
    """Looks into claims that do not fit."""

    def __init__(
        self,
        fleet: ClusterInventory,
        claims: Sequence[ResourceClaim],
        allocated: Sequence[ResourceClaim],
        asking: BoundedAllocator,
    ) -> None:
        self._fleet = fleet
        self._claims = claims
        self._allocated = allocated
        self._asking = asking
        questions = [requests.parse_claim(claim.spec.devices) for claim in claims]
        self._resolved: Sequence[ResolvedClaim] = resolution.resolve(
            questions, fleet.classes, fleet.selectors, fleet.features
        )
        self._survey: Survey = node_survey.survey_nodes(fleet, asking.nodes, self._resolved)
        self._twins = equivalence.representatives(self._survey.open_groups(), self._resolved)
        """Of nodes that the survey leaves open, the one that is asked for each."""

    def undecided(self) -> list[str]:
        """Nodes that have not been asked and that nothing is known against.

        Where a check fails instead of saying no, that decides about all nodes: each is asked.
        """
        later = self._asking.nodes[ASKED_AT_ONCE:]
        if any(stage.failing for funnel in self._survey.funnels for stage in funnel.stages):
            return list(later)
        refused = set(self._survey.sound) - set(self._survey.open_nodes)
        return [
            node for node in later if node not in refused and self._twins.get(node, node) == node
        ]

    def refused(self) -> Explanation:
        reasons = diagnosis.reasons(self._survey, self._asking, self._claims, self._twins)
        return self._explanation(Outcome.REFUSED, reasons=reasons)

    def failed(self, failure: rejections.AllocationError) -> Explanation:
        if isinstance(failure, rejections.SearchTimeout):
            return self._explanation(Outcome.UNDECIDED)
        found = faults.find(
            self._fleet, self._resolved, self._survey.funnels, self._survey.unusable, failure
        )
        message = failure.text(self._claims)
        return self._explanation(Outcome.FAILED, found=found, message=message)

    def _explanation(
        self,
        outcome: Outcome,
        *,
        reasons: tuple[Reason, ...] = (),
        found: tuple[Fault, ...] = (),
        message: str = "",
    ) -> Explanation:
        funnels = self._survey.funnels
        observations = facts.observe(self._fleet, self._survey, self._resolved)
        astray = unreachable_slices.find_unreachable_slices(self._fleet)
        off = [fault.gate for fault in found if isinstance(fault, GateOff)]
        question = ProposalContext(
            self._fleet,
            self._claims,
            self._resolved,
            self._survey,
            observations,
            tuple(
                dict.fromkeys([*off, *diagnosis.blocking_feature_gates(funnels, astray, reasons)])
            ),
        )
        return Explanation(
            outcome=outcome,
            claims=_keys(self._claims),
            allocated=_keys(self._allocated),
            nodes=len(self._asking.nodes),
            message=message,
            faults=found,
            reasons=reasons,
            funnels=funnels,
            facts=tuple(observed.facts for observed in observations),
            unusable=self._survey.unusable,
            unreachable_slices=astray,
            changes=relaxation.find(question, self._asking.nodes),
        )

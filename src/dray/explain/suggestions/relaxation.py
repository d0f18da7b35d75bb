"""Find the smallest changes with which the claims would fit, by running the allocator again.

Proposals come in the order of what they cost the user: first corrections of obvious mistakes, then
waiting, then requesting less, then giving up something. Every change that is returned was tried:
the changed claims fit on a node of the cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence, Set

from dray.allocator.model.requests import ALL, EXACT_COUNT
from dray.allocator.problem.resolution import ResolvedAlternative
from dray.api.ids import ClaimKey
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE
from dray.explain.suggestions import change_tester, changes, proposals, selector_rewrites
from dray.explain.suggestions.change_tester import ChangeTester
from dray.explain.suggestions.changes import SuggestedChange
from dray.explain.suggestions.proposals import Proposal, ProposalContext, Propose

CHANGES_RETURNED = 3
_NODES_TRIED = 8
_HOLDERS_RELEASED = 16


def find(context: ProposalContext, nodes: Sequence[str]) -> tuple[SuggestedChange, ...]:
    """Return a few changes of different kinds that help, the smallest first."""
    tester = ChangeTester(context.cluster, nodes, context.claims, context.survey.representatives)
    for budget in change_tester.POSITION_BUDGETS:
        tester.begin_round(budget)
        helpful = _round(context, tester)
        if helpful or not tester.gave_up:
            return helpful
    return ()


def corrections(context: ProposalContext) -> list[Proposal]:
    """Return one correction for each obvious mistake, whether or not it helps by itself."""
    by_subject: dict[Hashable, Proposal] = {}
    for propose in CORRECTIONS:
        for proposal in propose(context):
            by_subject.setdefault(_subject_of(proposal.change), proposal)
    return list(by_subject.values())


def _round(context: ProposalContext, tester: ChangeTester) -> tuple[SuggestedChange, ...]:
    helpful: list[SuggestedChange] = []
    for find_one in _BY_EFFORT:
        change = find_one(context, tester, {_subject_of(change) for change in helpful})
        if change is not None:
            helpful.append(change)
        if len(helpful) == CHANGES_RETURNED or tester.is_over:
            break
    return tuple(helpful)


def _subject_of(change: SuggestedChange) -> Hashable:
    """Return what a change is about: a second one about the same would add nothing."""
    match change:
        case changes.ReplaceSelector() | changes.DropSelector():
            return "selector", change.claim, change.request, change.index
        case changes.ReplaceClassSelector() | changes.DropClassSelector():
            return "class selector", change.device_class, change.index
        case changes.ReplaceConstraint() | changes.DropConstraint():
            return "constraint", change.claim, change.index
        case changes.RequestChange():
            return type(change), change.claim, change.request
    return type(change)


Find = Callable[[ProposalContext, ChangeTester, Set[Hashable]], SuggestedChange | None]


def _first_verified(propose: Propose) -> Find:
    """Return a function that finds the first proposal that helps."""

    def find_one(
        context: ProposalContext, tester: ChangeTester, touched: Set[Hashable]
    ) -> SuggestedChange | None:
        for proposal in propose(context):
            if tester.is_over:
                return None
            if _subject_of(proposal.change) in touched:
                continue
            verified = tester.verify(*proposal)
            if verified is not None:
                return verified
        return None

    return find_one


def _last_resort(find_one: Find) -> Find:
    """Return a function that does nothing if another change was found before."""
    return lambda context, tester, touched: None if touched else find_one(context, tester, touched)


def _fewer(
    context: ProposalContext, tester: ChangeTester, touched: Set[Hashable]
) -> SuggestedChange | None:
    """Return the change to the largest count that fits, or None."""
    left = {funnel.key: funnel.best.left for funnel in context.survey.funnels if funnel.best}
    for alternative in proposals.alternatives(context):
        change = _largest_count(alternative, left.get(alternative.key, 0), tester)
        if change is not None:
            return change
    return None


def _largest_count(
    alternative: ResolvedAlternative, available: int, tester: ChangeTester
) -> SuggestedChange | None:
    """Return the change to the largest count that fits, or None."""
    # If a count fits, every smaller one does. So try 1 first, then search by bisection.
    requested = alternative.parsed.count if alternative.parsed.mode == EXACT_COUNT else 0
    if alternative.parsed.mode not in (EXACT_COUNT, ALL):
        available = 1
    fewer = requested - 1 if requested else available
    low, high = 1, min(fewer, available, ALLOCATION_RESULTS_MAX_SIZE)
    largest = None
    claim, request = alternative.key
    while low <= high:
        count = low if largest is None else (low + high + 1) // 2
        change = changes.FewerDevices(claim=claim, request=request, count=count, asked=requested)
        verified = tester.verify(change, proposals.affecting(alternative))
        if verified is not None:
            largest, low = verified, count + 1
        elif largest is None:
            return None
        else:
            high = count - 1
    return largest


def _wait_for_several(
    context: ProposalContext, tester: ChangeTester, touched: Set[Hashable]
) -> SuggestedChange | None:
    """Return the fewest claims on one node that have to end before the claims fit, or None."""
    if changes.WaitForClaim in touched:
        return None
    best: changes.WaitForClaims | None = None
    for node, holders in itertools.islice(proposals.holders_by_node(context), _NODES_TRIED):
        limit = len(best.holders) - 1 if best else _HOLDERS_RELEASED
        found = _fewest_holders(node, holders[:limit], tester)
        best = found or best
    return best


def _fewest_holders(
    node: str, holders: Sequence[ClaimKey], tester: ChangeTester
) -> changes.WaitForClaims | None:
    """Return the claims that have to end, without those that may stay, or None."""

    def verified(keys: Sequence[ClaimKey]) -> SuggestedChange | None:
        return tester.verify(changes.WaitForClaims(holders=tuple(keys)), None, node)

    found = verified(holders) if len(holders) > 1 else None
    for holder in holders[::-1] if found else ():
        assert isinstance(found, changes.WaitForClaims)
        fewer = [key for key in found.holders if key != holder]
        found = (verified(fewer) if len(fewer) > 1 else None) or found
    return found if isinstance(found, changes.WaitForClaims) else None


CORRECTIONS: Sequence[Propose] = (
    proposals.rewritten(selector_rewrites.corrections),
    proposals.repair_selectors,
    proposals.correct_names,
    proposals.correct_drivers,
    proposals.rewritten(selector_rewrites.spellings),
)
"""Proposals that correct obvious mistakes; several may be needed together."""

_BY_EFFORT: Sequence[Find] = (
    *map(_first_verified, CORRECTIONS),
    _first_verified(proposals.wait),
    _wait_for_several,
    _first_verified(proposals.rewritten(selector_rewrites.thresholds)),
    _first_verified(proposals.ask_for_smaller_amounts),
    _first_verified(proposals.tolerate),
    _fewer,
    _first_verified(proposals.use_fitting_classes),
    _first_verified(proposals.rewritten(selector_rewrites.other_values)),
    _first_verified(proposals.rewritten(selector_rewrites.shortenings)),
    _first_verified(proposals.drop_selectors),
    _first_verified(proposals.drop_constraints),
    _last_resort(_first_verified(proposals.correct_classes)),
    _last_resort(_first_verified(proposals.enable_gates)),
    _last_resort(_first_verified(proposals.use_any_classes)),
    _last_resort(_first_verified(proposals.drop_requests)),
    _last_resort(_first_verified(proposals.drop_claims)),
    _last_resort(_first_verified(proposals.drop_class_selectors)),
)

"""The smallest changes with which the claims would fit, found by asking the allocator again.

Proposals come in the order of what they ask of the user: first what can only be a mistake, then
waiting, then asking for less, then doing without something. What is returned has been tried: the
changed claims fit on a node of the fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Set

from dray.allocator.model.requests import ALL, EXACT_COUNT
from dray.allocator.problem.resolution import ResolvedAlternative
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE
from dray.explain.suggestions import change_tester, proposals, selector_rewrites
from dray.explain.suggestions.change_tester import ChangeTester
from dray.explain.suggestions.changes import (
    DropClassSelector,
    DropConstraint,
    DropSelector,
    FewerDevices,
    ReplaceClassSelector,
    ReplaceConstraint,
    ReplaceSelector,
    RequestChange,
    SuggestedChange,
)
from dray.explain.suggestions.proposals import ProposalContext, Propose

CHANGES_WANTED = 3


def find(context: ProposalContext, nodes: Sequence[str]) -> tuple[SuggestedChange, ...]:
    """A few changes of different kinds that help, the smallest first."""
    tester = ChangeTester(context.cluster, nodes, context.claims, context.survey.representatives)
    for budget in change_tester.POSITION_BUDGETS:
        tester.begin_round(budget)
        found = _round(context, tester)
        if found or not tester.gave_up:
            return found
    return ()


def _round(context: ProposalContext, tester: ChangeTester) -> tuple[SuggestedChange, ...]:
    found: list[SuggestedChange] = []
    for find_one in _BY_EFFORT:
        change = find_one(context, tester, {_spot(change) for change in found})
        if change is not None:
            found.append(change)
        if len(found) == CHANGES_WANTED or tester.is_over:
            break
    return tuple(found)


def _spot(change: SuggestedChange) -> Hashable:
    """What a change touches: a second change of the same would say nothing new."""
    match change:
        case ReplaceSelector() | DropSelector():
            return "selector", change.claim, change.request, change.index
        case ReplaceClassSelector() | DropClassSelector():
            return "class selector", change.device_class, change.index
        case ReplaceConstraint() | DropConstraint():
            return "constraint", change.claim, change.index
        case RequestChange():
            return type(change), change.claim, change.request
    return type(change)


Find = Callable[[ProposalContext, ChangeTester, Set[Hashable]], SuggestedChange | None]


def _first_verified(propose: Propose) -> Find:
    """The first of the proposals that helps."""

    def find_one(
        context: ProposalContext, tester: ChangeTester, touched: Set[Hashable]
    ) -> SuggestedChange | None:
        for proposal in propose(context):
            if tester.is_over:
                return None
            if _spot(proposal.change) in touched:
                continue
            verified = tester.verify(*proposal)
            if verified is not None:
                return verified
        return None

    return find_one


def _last_resort(find_one: Find) -> Find:
    """Looked for only if nothing was found before."""
    return lambda context, tester, touched: None if touched else find_one(context, tester, touched)


def _fewer(
    context: ProposalContext, tester: ChangeTester, touched: Set[Hashable]
) -> SuggestedChange | None:
    """The largest count that fits."""
    left = {
        (funnel.claim, funnel.request): funnel.best.left
        for funnel in context.survey.funnels
        if funnel.best
    }
    for alternative in proposals.alternatives(context):
        available = left.get((alternative.claim, str(alternative.parsed.name)), 0)
        found = _largest_count(alternative, available, tester)
        if found is not None:
            return found
    return None


def _largest_count(
    alternative: ResolvedAlternative, available: int, tester: ChangeTester
) -> SuggestedChange | None:
    """Fitting is monotonic in the count: where one device does not fit, no count does."""
    requested = alternative.parsed.count if alternative.parsed.mode == EXACT_COUNT else 0
    if alternative.parsed.mode not in (EXACT_COUNT, ALL):
        available = 1
    fewer = requested - 1 if requested else available
    low, high = 1, min(fewer, available, ALLOCATION_RESULTS_MAX_SIZE)
    found = None
    while low <= high:
        count = low if found is None else (low + high + 1) // 2
        change = FewerDevices(
            claim=alternative.claim,
            request=str(alternative.parsed.name),
            count=count,
            asked=requested,
        )
        verified = tester.verify(change, proposals.affecting(alternative))
        if verified is not None:
            found, low = verified, count + 1
        elif found is None:
            return None
        else:
            high = count - 1
    return found


_BY_EFFORT: Sequence[Find] = (
    _first_verified(proposals.rewritten(selector_rewrites.corrections)),
    _first_verified(proposals.correct_names),
    _first_verified(proposals.rewritten(selector_rewrites.spellings)),
    _first_verified(proposals.wait),
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

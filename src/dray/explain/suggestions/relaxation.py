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


def find(question: ProposalContext, nodes: Sequence[str]) -> tuple[SuggestedChange, ...]:
    """A few changes of different kinds that help, the smallest first."""
    candidates = ChangeTester(
        question.fleet, nodes, question.claims, question.survey.representatives
    )
    for patience in change_tester.POSITION_BUDGETS:
        candidates.begin_round(patience)
        found = _round(question, candidates)
        if found or not candidates.gave_up:
            return found
    return ()


def _round(question: ProposalContext, candidates: ChangeTester) -> tuple[SuggestedChange, ...]:
    found: list[SuggestedChange] = []
    for find_one in _BY_EFFORT:
        change = find_one(question, candidates, {_spot(each) for each in found})
        if change is not None:
            found.append(change)
        if len(found) == CHANGES_WANTED or candidates.is_over:
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


def _tried(propose: Propose) -> Find:
    """The first of the proposals that helps."""

    def find_one(
        question: ProposalContext, candidates: ChangeTester, touched: Set[Hashable]
    ) -> SuggestedChange | None:
        for proposal in propose(question):
            if candidates.is_over:
                return None
            if _spot(proposal.change) in touched:
                continue
            proven = candidates.verify(*proposal)
            if proven is not None:
                return proven
        return None

    return find_one


def _last_resort(find_one: Find) -> Find:
    """Looked for only if nothing was found before."""
    return lambda question, candidates, touched: (
        None if touched else find_one(question, candidates, touched)
    )


def _fewer(
    question: ProposalContext, candidates: ChangeTester, touched: Set[Hashable]
) -> SuggestedChange | None:
    """The largest count that fits."""
    left = {
        (funnel.claim, funnel.request): funnel.best.left
        for funnel in question.survey.funnels
        if funnel.best
    }
    for option in proposals.options(question):
        there = left.get((option.claim, str(option.option.name)), 0)
        found = _largest_count(option, there, candidates)
        if found is not None:
            return found
    return None


def _largest_count(
    option: ResolvedAlternative, there: int, candidates: ChangeTester
) -> SuggestedChange | None:
    """Fitting is monotonic in the count: where one device does not fit, no count does."""
    asked = option.option.count if option.option.mode == EXACT_COUNT else 0
    if option.option.mode not in (EXACT_COUNT, ALL):
        there = 1
    low, high = 1, min(asked - 1 if asked else there, there, ALLOCATION_RESULTS_MAX_SIZE)
    found = None
    while low <= high:
        count = low if found is None else (low + high + 1) // 2
        change = FewerDevices(
            claim=option.claim, request=str(option.option.name), count=count, asked=asked
        )
        proven = candidates.verify(change, proposals.affecting(option))
        if proven is not None:
            found, low = proven, count + 1
        elif found is None:
            return None
        else:
            high = count - 1
    return found


_BY_EFFORT: Sequence[Find] = (
    _tried(proposals.rewritten(selector_rewrites.corrections)),
    _tried(proposals.correct_names),
    _tried(proposals.rewritten(selector_rewrites.spellings)),
    _tried(proposals.wait),
    _tried(proposals.rewritten(selector_rewrites.thresholds)),
    _tried(proposals.ask_for_smaller_amounts),
    _tried(proposals.tolerate),
    _fewer,
    _tried(proposals.use_fitting_classes),
    _tried(proposals.rewritten(selector_rewrites.other_values)),
    _tried(proposals.rewritten(selector_rewrites.shortenings)),
    _tried(proposals.drop_selectors),
    _tried(proposals.drop_constraints),
    _last_resort(_tried(proposals.correct_classes)),
    _last_resort(_tried(proposals.enable_gates)),
    _last_resort(_tried(proposals.use_any_classes)),
    _last_resort(_tried(proposals.drop_requests)),
    _last_resort(_tried(proposals.drop_claims)),
    _last_resort(_tried(proposals.drop_class_selectors)),
)

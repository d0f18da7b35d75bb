"""The smallest changes with which the claims would fit, found by asking the allocator again.

Proposals are made in the order of what they ask of the user: first what can only be a mistake, then
waiting, then asking for less, then doing without something. What is returned has been tried: the
changed claims fit on a node of the fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from typing import NamedTuple

from dray.allocator.fleet import OUTSIDE, Fleet
from dray.allocator.inventory import Inventory
from dray.allocator.requests import ALL, EXACT_COUNT, RESULTS_LIMIT
from dray.allocator.resolution import ResolvedClaim, ResolvedOption
from dray.api.claims import ResourceClaim
from dray.api.names import ClaimKey
from dray.explain import offers, rewrites, spelling, trials
from dray.explain.changes import (
    Change,
    DropClaim,
    DropClassSelector,
    DropConstraint,
    DropRequest,
    DropSelector,
    EnableGate,
    FewerDevices,
    LessCapacity,
    OtherClass,
    ReplaceClassSelector,
    ReplaceConstraint,
    ReplaceSelector,
    RequestChange,
    TolerateTaint,
    WaitForClaim,
)
from dray.explain.facts import Observation
from dray.explain.gates import Kind
from dray.explain.rewrites import Rewrite
from dray.explain.survey import StepKey, Survey
from dray.explain.trials import Trials

CHANGES_WANTED = 3
_CLASSES_TRIED = 16
_HOLDERS_TRIED = 8
_AMOUNTS_TRIED = 8


class Proposal(NamedTuple):
    """A change to try, which requests it can help, and where, if only one node comes into question.

    None stands for all requests.
    """

    change: Change
    affected: frozenset[StepKey] | None
    node: str | None = None


class Question(NamedTuple):
    """Everything that proposals are made from."""

    fleet: Fleet
    claims: Sequence[ResourceClaim]
    resolved: Sequence[ResolvedClaim]
    survey: Survey
    observations: Sequence[Observation]
    gates: Sequence[str]
    """Feature gates that are in the way."""


def find(question: Question, nodes: Sequence[str]) -> tuple[Change, ...]:
    """A few changes of different kinds that help, the smallest first."""
    candidates = Trials(question.fleet, nodes, question.claims, question.survey.representatives)
    for patience in trials.PATIENCE:
        candidates.begin_round(patience)
        found = _round(question, candidates)
        if found or not candidates.gave_up:
            return found
    return ()


def _round(question: Question, candidates: Trials) -> tuple[Change, ...]:
    found: list[Change] = []
    for find_one in _BY_EFFORT:
        change = find_one(question, candidates, {_spot(each) for each in found})
        if change is not None:
            found.append(change)
        if len(found) == CHANGES_WANTED or candidates.is_over:
            break
    return tuple(found)


def _spot(change: Change) -> Hashable:
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


Propose = Callable[[Question], Iterator[Proposal]]
Find = Callable[[Question, Trials, Set[Hashable]], Change | None]


def _tried(propose: Propose) -> Find:
    """The first of the proposals that helps."""

    def find_one(question: Question, candidates: Trials, touched: Set[Hashable]) -> Change | None:
        for proposal in propose(question):
            if candidates.is_over:
                return None
            if _spot(proposal.change) in touched:
                continue
            proven = candidates.proven(*proposal)
            if proven is not None:
                return proven
        return None

    return find_one


def _options(question: Question) -> Iterator[ResolvedOption]:
    for claim in question.resolved:
        for request in claim.requests:
            yield from request.options


def _affecting(option: ResolvedOption) -> frozenset[StepKey]:
    return frozenset({(option.claim, option.option.name.parent)})


def _inventories(question: Question) -> Iterator[tuple[str, Inventory]]:
    """The nodes that stand for the others."""
    fleet = question.fleet
    for standing in question.survey.representatives:
        yield standing.node, fleet.inventory(fleet.nodes[standing.node])


def _rewritten(
    rewrite: Callable[[Observation], Iterator[Rewrite]],
) -> Propose:
    """Other ways to write the selectors of requests."""

    def propose(question: Question) -> Iterator[Proposal]:
        for observed in question.observations:
            facts = observed.facts
            if facts.gate.kind is not Kind.SELECTOR:
                continue
            affected = frozenset({(facts.claim, facts.request.partition("/")[0])})
            for how, text, old, new in rewrite(observed):
                change = ReplaceSelector(
                    claim=facts.claim,
                    request=facts.request,
                    index=facts.gate.index,
                    expression=facts.gate.expression,
                    replacement=text,
                    how=how,
                    old=old,
                    new=new,
                )
                yield Proposal(change, affected)

    return propose


def _corrected_names(question: Question) -> Iterator[Proposal]:
    """Classes and constraint attributes that do not exist and are written much like others."""
    classes = question.fleet.classes
    for option in _options(question):
        asked = option.option.device_class
        if asked not in classes:
            for close in spelling.similar(asked, classes)[:_CLASSES_TRIED]:
                yield Proposal(_other_class(option, close, is_correction=True), _affecting(option))
    for observed in question.observations:
        if observed.facts.gate.kind is Kind.CONSTRAINTS:
            yield from _corrected_constraints(question, observed)


def _corrected_constraints(question: Question, observed: Observation) -> Iterator[Proposal]:
    claim = observed.facts.claim
    for index, constraint in enumerate(question.claims[claim].spec.devices.constraints):
        attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        for fact in observed.facts.subjects:
            if f"{fact.domain}/{fact.name}" != attribute:
                continue
            for similar in fact.similar:
                other = f"{similar.domain}/{similar.name}"
                change = ReplaceConstraint(
                    claim=claim, index=index, attribute=attribute, replacement=other
                )
                yield Proposal(change, _of_claim(question, claim))


def _of_claim(question: Question, claim: int) -> frozenset[StepKey]:
    return frozenset((claim, each.name) for each in question.claims[claim].spec.devices.requests)


def _waiting(question: Question) -> Iterator[Proposal]:
    """One claim that ends; those that hold most of what is wanted first."""
    own = {ClaimKey(each.metadata.namespace, each.metadata.name) for each in question.claims}
    for node, inventory in _inventories(question):
        weights = sum(
            (offers.holders(inventory, option) for option in _options(question)), start=_NOBODY
        )
        ranked = sorted(weights, key=lambda holder: (-weights[holder], holder))
        for holder in ranked[:_HOLDERS_TRIED]:
            if holder not in own and holder != OUTSIDE:
                yield Proposal(WaitForClaim(holder=holder), None, node)


_NOBODY = offers.Holders()


def _smaller_amounts(question: Question) -> Iterator[Proposal]:
    """Less of a capacity, the most that some device can give first."""
    for option in _options(question):
        asked = dict(option.option.capacity or {})
        found: dict[tuple[tuple[str, str], ...], float] = {}
        for _, inventory in _inventories(question):
            for amounts, share in offers.capacities(inventory, option):
                found[tuple(sorted(amounts.items()))] = share
        ranked = sorted(found, key=lambda amounts: -found[amounts])
        for chosen in ranked[:_AMOUNTS_TRIED]:
            change = LessCapacity(
                claim=option.claim,
                request=str(option.option.name),
                amounts=dict(chosen),
                asked=asked,
            )
            yield Proposal(change, _affecting(option))


def _tolerating(question: Question) -> Iterator[Proposal]:
    """One taint; then, for devices with several, all of them."""
    for option in _options(question):
        found = dict.fromkeys(
            taint
            for _, inventory in _inventories(question)
            for taint in offers.untolerated(inventory, option)
        )
        for taint in sorted(found, key=lambda each: each is None):
            change = TolerateTaint(claim=option.claim, request=str(option.option.name), taint=taint)
            yield Proposal(change, _affecting(option))


def _fewer(question: Question, candidates: Trials, touched: Set[Hashable]) -> Change | None:
    """The largest count that fits; where one device does not, no count does."""
    most = {(each.claim, each.request): each for each in question.survey.funnels}
    for option in _options(question):
        name = str(option.option.name)
        asked = 0 if option.option.is_all else option.option.count
        funnel = most.get((option.claim, name))
        there = funnel.best.left if funnel and funnel.best else 0
        if option.option.mode not in (EXACT_COUNT, ALL):
            asked, there = 0, 1
        low, high = 1, min(asked - 1 if asked else there, there, RESULTS_LIMIT)
        found = None
        while low <= high:
            count = low if found is None else (low + high + 1) // 2
            change = FewerDevices(claim=option.claim, request=name, count=count, asked=asked)
            proven = candidates.proven(change, _affecting(option))
            if proven is None and found is None:
                break
            if proven is None:
                high = count - 1
            else:
                found, low = proven, count + 1
        if found is not None:
            return found
    return None


def _without_selectors(question: Question) -> Iterator[Proposal]:
    for option in _options(question):
        for index, expression in enumerate(option.option.selectors):
            change = DropSelector(
                claim=option.claim,
                request=str(option.option.name),
                index=index,
                expression=expression or "",
            )
            yield Proposal(change, _affecting(option))


def _without_constraints(question: Question) -> Iterator[Proposal]:
    for number, claim in enumerate(question.claims):
        for index, constraint in enumerate(claim.spec.devices.constraints):
            change = DropConstraint(
                claim=number,
                index=index,
                attribute=constraint.match_attribute or constraint.distinct_attribute or "",
                is_match=constraint.match_attribute is not None,
            )
            yield Proposal(change, _of_claim(question, number))


def _fitting_classes(question: Question) -> Iterator[Proposal]:
    """Classes with devices that the request's own selectors match."""
    return _other_classes(question, has_selectors=True)


def _any_classes(question: Question) -> Iterator[Proposal]:
    return _other_classes(question, has_selectors=False)


def _other_classes(question: Question, *, has_selectors: bool) -> Iterator[Proposal]:
    for option in _options(question):
        if bool(option.option.selectors) is not has_selectors:
            continue
        others = sorted(
            each for each in question.fleet.classes if each != option.option.device_class
        )
        for name in others[:_CLASSES_TRIED]:
            yield Proposal(_other_class(option, name, is_correction=False), _affecting(option))


def _other_class(option: ResolvedOption, name: str, *, is_correction: bool) -> OtherClass:
    return OtherClass(
        claim=option.claim,
        request=str(option.option.name),
        device_class=name,
        asked=option.option.device_class,
        is_correction=is_correction,
    )


def _corrected_classes(question: Question) -> Iterator[Proposal]:
    """Mistakes in selectors of classes."""
    for observed in question.observations:
        gate = observed.facts.gate
        if gate.kind is Kind.CLASS:
            for how, text, old, new in rewrites.corrections(observed):
                change = ReplaceClassSelector(
                    device_class=gate.device_class,
                    index=gate.index,
                    expression=gate.expression,
                    replacement=text,
                    how=how,
                    old=old,
                    new=new,
                )
                yield Proposal(change, None)


def _enabling(question: Question) -> Iterator[Proposal]:
    for gate in question.gates:
        yield Proposal(EnableGate(gate=gate), None)


def _without_requests(question: Question) -> Iterator[Proposal]:
    for number, claim in enumerate(question.claims):
        asked = claim.spec.devices.requests
        for request in asked if len(asked) > 1 else ():
            change = DropRequest(claim=number, request=request.name)
            yield Proposal(change, frozenset({(number, request.name)}))


def _without_claims(question: Question) -> Iterator[Proposal]:
    for number, claim in enumerate(question.claims if len(question.claims) > 1 else ()):
        key = ClaimKey(claim.metadata.namespace, claim.metadata.name)
        yield Proposal(DropClaim(claim=number, name=key), _of_claim(question, number))


def _without_class_selectors(question: Question) -> Iterator[Proposal]:
    tried = set()
    for option in _options(question):
        for test in option.tests:
            if test.device_class is not None and test.selector not in tried:
                tried.add(test.selector)
                change = DropClassSelector(
                    device_class=test.device_class, index=test.number, expression=test.text
                )
                yield Proposal(change, None)


_BY_EFFORT: Sequence[Find] = (
    _tried(_rewritten(rewrites.corrections)),
    _tried(_corrected_names),
    _tried(_rewritten(rewrites.spellings)),
    _tried(_waiting),
    _tried(_rewritten(rewrites.thresholds)),
    _tried(_smaller_amounts),
    _tried(_tolerating),
    _fewer,
    _tried(_fitting_classes),
    _tried(_rewritten(rewrites.other_values)),
    _tried(_rewritten(rewrites.shortenings)),
    _tried(_without_selectors),
    _tried(_without_constraints),
    _tried(_any_classes),
    _tried(_corrected_classes),
    _tried(_enabling),
    _tried(_without_requests),
    _tried(_without_claims),
    _tried(_without_class_selectors),
)

"""Changes worth trying, made from what was found out about the claims and the nodes.

Each function proposes one kind of change, the least intrusive first; whether a proposal helps is
for `relaxation` to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dray.allocator.inventory.cluster_inventory import EXTERNAL_HOLDER, ClusterInventory
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.problem.resolution import ResolvedAlternative, ResolvedClaim
from dray.api.types.dra import ResourceClaim
from dray.explain.selectors import spelling
from dray.explain.suggestions import availability, selector_rewrites
from dray.explain.suggestions.changes import (
    DropClaim,
    DropClassSelector,
    DropConstraint,
    DropRequest,
    DropSelector,
    EnableGate,
    LessCapacity,
    OtherClass,
    ReplaceClassSelector,
    ReplaceConstraint,
    ReplaceSelector,
    SuggestedChange,
    TolerateTaint,
    WaitForClaim,
)
from dray.explain.suggestions.selector_rewrites import Rewrite
from dray.explain.survey.facts import Observation
from dray.explain.survey.filters import FilterKind
from dray.explain.survey.node_survey import StepKey, Survey

_CLASSES_TRIED = 16
_HOLDERS_TRIED = 8
_AMOUNTS_TRIED = 8


class Proposal(NamedTuple):
    """A change to try, which requests it can help, and where, if only one node comes into question.

    None stands for all requests.
    """

    change: SuggestedChange
    affected: frozenset[StepKey] | None
    node: str | None = None


class ProposalContext(NamedTuple):
    """Everything that proposals are made from."""

    fleet: ClusterInventory
    claims: Sequence[ResourceClaim]
    resolved: Sequence[ResolvedClaim]
    survey: Survey
    observations: Sequence[Observation]
    gates: Sequence[str]
    """Feature gates that are in the way."""


Propose = Callable[[ProposalContext], Iterator[Proposal]]


def options(question: ProposalContext) -> Iterator[ResolvedAlternative]:
    for claim in question.resolved:
        for request in claim.requests:
            yield from request.options


def affecting(option: ResolvedAlternative) -> frozenset[StepKey]:
    return frozenset({(option.claim, option.option.name.parent)})


def _inventories(question: ProposalContext) -> Iterator[tuple[str, NodeInventory]]:
    """The nodes that stand for the others."""
    fleet = question.fleet
    for standing in question.survey.representatives:
        yield standing.node, fleet.inventory(fleet.nodes[standing.node])


def rewritten(rewrite: Callable[[Observation], Iterator[Rewrite]]) -> Propose:
    """Other ways to write the selectors of requests."""

    def propose(question: ProposalContext) -> Iterator[Proposal]:
        for observed in question.observations:
            facts = observed.facts
            if facts.filter.kind is not FilterKind.SELECTOR:
                continue
            affected = frozenset({(facts.claim, facts.request.partition("/")[0])})
            for how, text, old, new in rewrite(observed):
                change = ReplaceSelector(
                    claim=facts.claim,
                    request=facts.request,
                    index=facts.filter.index,
                    expression=facts.filter.expression,
                    replacement=text,
                    how=how,
                    old=old,
                    new=new,
                )
                yield Proposal(change, affected)

    return propose


def correct_names(question: ProposalContext) -> Iterator[Proposal]:
    """Classes and constraint attributes that do not exist and are written much like others."""
    classes = question.fleet.classes
    for option in options(question):
        asked = option.option.device_class
        if asked not in classes:
            for close in spelling.similar(asked, classes)[:_CLASSES_TRIED]:
                yield Proposal(_other_class(option, close), affecting(option))
    for observed in question.observations:
        if observed.facts.filter.kind is FilterKind.CONSTRAINTS:
            yield from _corrected_constraints(question, observed)


def _corrected_constraints(question: ProposalContext, observed: Observation) -> Iterator[Proposal]:
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


def _of_claim(question: ProposalContext, claim: int) -> frozenset[StepKey]:
    return frozenset(
        (claim, request.name) for request in question.claims[claim].spec.devices.requests
    )


def wait(question: ProposalContext) -> Iterator[Proposal]:
    """One claim that ends; those that hold most of what is wanted first."""
    own = {claim.key for claim in question.claims}
    for node, inventory in _inventories(question):
        weights = sum(
            (availability.holding_claims(inventory, option) for option in options(question)),
            start=_NOBODY,
        )
        ranked = sorted(weights, key=lambda holder: (-weights[holder], holder))
        for holder in ranked[:_HOLDERS_TRIED]:
            if holder not in own and holder != EXTERNAL_HOLDER:
                yield Proposal(WaitForClaim(holder=holder), None, node)


_NOBODY = availability.Holders()


def ask_for_smaller_amounts(question: ProposalContext) -> Iterator[Proposal]:
    """Less of a capacity, the most that some device can give first."""
    for option in options(question):
        asked = dict(option.option.capacity or {})
        found: dict[tuple[tuple[str, str], ...], float] = {}
        for _, inventory in _inventories(question):
            for amounts, share in availability.affordable_amounts(inventory, option):
                found[tuple(sorted(amounts.items()))] = share
        ranked = sorted(found, key=lambda amounts: -found[amounts])
        for chosen in ranked[:_AMOUNTS_TRIED]:
            change = LessCapacity(
                claim=option.claim,
                request=str(option.option.name),
                amounts=dict(chosen),
                asked=asked,
            )
            yield Proposal(change, affecting(option))


def tolerate(question: ProposalContext) -> Iterator[Proposal]:
    """One taint; then, for devices with several, all of them."""
    for option in options(question):
        found = dict.fromkeys(
            taint
            for _, inventory in _inventories(question)
            for taint in availability.untolerated_taints(inventory, option)
        )
        for taint in sorted(found, key=lambda each: each is None):
            change = TolerateTaint(claim=option.claim, request=str(option.option.name), taint=taint)
            yield Proposal(change, affecting(option))


def drop_selectors(question: ProposalContext) -> Iterator[Proposal]:
    for option in options(question):
        for index, expression in enumerate(option.option.selectors):
            change = DropSelector(
                claim=option.claim,
                request=str(option.option.name),
                index=index,
                expression=expression or "",
            )
            yield Proposal(change, affecting(option))


def drop_constraints(question: ProposalContext) -> Iterator[Proposal]:
    for number, claim in enumerate(question.claims):
        for index, constraint in enumerate(claim.spec.devices.constraints):
            change = DropConstraint(
                claim=number,
                index=index,
                attribute=constraint.match_attribute or constraint.distinct_attribute or "",
                is_match=constraint.match_attribute is not None,
            )
            yield Proposal(change, _of_claim(question, number))


def use_fitting_classes(question: ProposalContext) -> Iterator[Proposal]:
    """Classes with devices that the request's own selectors match."""
    return _other_classes(question, has_selectors=True)


def use_any_classes(question: ProposalContext) -> Iterator[Proposal]:
    return _other_classes(question, has_selectors=False)


def _other_classes(question: ProposalContext, *, has_selectors: bool) -> Iterator[Proposal]:
    for option in options(question):
        if bool(option.option.selectors) is not has_selectors:
            continue
        others = sorted(
            device_class
            for device_class in question.fleet.classes
            if device_class != option.option.device_class
        )
        for name in others[:_CLASSES_TRIED]:
            yield Proposal(_other_class(option, name), affecting(option))


def _other_class(option: ResolvedAlternative, name: str) -> OtherClass:
    return OtherClass(
        claim=option.claim,
        request=str(option.option.name),
        device_class=name,
        asked=option.option.device_class,
    )


def correct_classes(question: ProposalContext) -> Iterator[Proposal]:
    """Mistakes in selectors of classes."""
    for observed in question.observations:
        class_filter = observed.facts.filter
        if class_filter.kind is FilterKind.CLASS:
            for how, text, old, new in selector_rewrites.corrections(observed):
                change = ReplaceClassSelector(
                    device_class=class_filter.device_class,
                    index=class_filter.index,
                    expression=class_filter.expression,
                    replacement=text,
                    how=how,
                    old=old,
                    new=new,
                )
                yield Proposal(change, None)


def enable_gates(question: ProposalContext) -> Iterator[Proposal]:
    for gate in question.gates:
        yield Proposal(EnableGate(gate=gate), None)


def drop_requests(question: ProposalContext) -> Iterator[Proposal]:
    for number, claim in enumerate(question.claims):
        asked = claim.spec.devices.requests
        for request in asked if len(asked) > 1 else ():
            change = DropRequest(claim=number, request=request.name)
            yield Proposal(change, frozenset({(number, request.name)}))


def drop_claims(question: ProposalContext) -> Iterator[Proposal]:
    for number, claim in enumerate(question.claims if len(question.claims) > 1 else ()):
        key = claim.key
        yield Proposal(DropClaim(claim=number, name=key), _of_claim(question, number))


def drop_class_selectors(question: ProposalContext) -> Iterator[Proposal]:
    of_classes = dict.fromkeys(
        (test.device_class, test.number, test.text)
        for option in options(question)
        for test in option.tests
        if test.device_class is not None
    )
    for device_class, index, expression in of_classes:
        change = DropClassSelector(device_class=device_class, index=index, expression=expression)
        yield Proposal(change, None)

"""Proposals of changes, made from the survey of the nodes and the facts about filters.

Each function proposes one kind of change, the least intrusive first; `relaxation` tests whether a
proposal helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from dray.allocator.inventory.cluster_inventory import EXTERNAL_HOLDER, ClusterInventory
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.problem.resolution import ResolvedAlternative, ResolvedClaim
from dray.api import features
from dray.api.ids import ClaimKey
from dray.api.types.dra import ResourceClaim
from dray.explain.selectors import expressions, repairs, spelling
from dray.explain.selectors.expressions import ATTRIBUTES, CAPACITY, SelectorSubject
from dray.explain.suggestions import availability, changes, selector_rewrites
from dray.explain.suggestions.changes import SuggestedChange
from dray.explain.suggestions.selector_rewrites import Rewrite
from dray.explain.survey.facts import Observation
from dray.explain.survey.filters import FilterKind
from dray.explain.survey.node_survey import RequestKey, Survey

_CLASSES_TRIED = 16
_HOLDERS_TRIED = 8
_AMOUNTS_TRIED = 8
_VALUES_TRIED = 4


class Proposal(NamedTuple):
    """A change to test, the requests that it can help (None for all), and a node if only one."""

    change: SuggestedChange
    affected: frozenset[RequestKey] | None
    node: str | None = None


class ProposalContext(NamedTuple):
    """Everything that proposals are made from: the claims and the results about them."""

    cluster: ClusterInventory
    claims: Sequence[ResourceClaim]
    resolved: Sequence[ResolvedClaim]
    survey: Survey
    observations: Sequence[Observation]
    gates: Sequence[str]
    """Feature gates that exclude devices."""


Propose = Callable[[ProposalContext], Iterator[Proposal]]


def alternatives(context: ProposalContext) -> Iterator[ResolvedAlternative]:
    for claim in context.resolved:
        yield from claim.alternatives()


def affecting(alternative: ResolvedAlternative) -> frozenset[RequestKey]:
    return frozenset({(alternative.claim, alternative.parsed.name.parent)})


def _inventories(context: ProposalContext) -> Iterator[tuple[str, NodeInventory]]:
    """Yield the representative nodes with their inventories."""
    cluster = context.cluster
    for unserved in context.survey.representatives:
        yield unserved.node, cluster.inventory(cluster.nodes[unserved.node])


def rewritten(rewrite: Callable[[Observation], Iterator[Rewrite]]) -> Propose:
    """Return a function that proposes rewritten selectors of requests."""

    def propose(context: ProposalContext) -> Iterator[Proposal]:
        for observed in context.observations:
            facts = observed.facts
            if facts.filter.kind is not FilterKind.SELECTOR:
                continue
            affected = frozenset({(facts.claim, facts.request.partition("/")[0])})
            for how, text, old, new in rewrite(observed):
                change = changes.ReplaceSelector(
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


def correct_drivers(context: ProposalContext) -> Iterator[Proposal]:
    """Propose drivers that exist for selectors that name another one."""
    drivers = {resource_slice.spec.driver for resource_slice in context.cluster.slices()}
    for alternative in alternatives(context):
        for located in alternative.selectors:
            named = expressions.driver_of(located.text)
            if not named or named in drivers:
                continue
            for driver in spelling.similar_domains(named, drivers)[:_VALUES_TRIED]:
                (text,) = expressions.with_driver(located.text, driver)
                rewrite: dict[str, Any] = {
                    "index": located.number,
                    "expression": located.text,
                    "replacement": text,
                    "how": changes.Rewriting.VALUE,
                    "old": named,
                    "new": driver,
                }
                yield _replaced(alternative, located.device_class, rewrite)


def _replaced(
    alternative: ResolvedAlternative, device_class: str | None, rewrite: dict[str, Any]
) -> Proposal:
    """Return the proposal of another selector in a request, or in its class."""
    claim, request = alternative.key
    if device_class is None:
        own = changes.ReplaceSelector(claim=claim, request=request, **rewrite)
        return Proposal(own, affecting(alternative))
    return Proposal(changes.ReplaceClassSelector(device_class=device_class, **rewrite), None)


def repair_selectors(context: ProposalContext) -> Iterator[Proposal]:
    """Propose repairs of selectors that do not compile."""
    cluster = context.cluster
    published: frozenset[SelectorSubject] | None = None
    for alternative in alternatives(context):
        for located in alternative.selectors:
            if expressions.compiled(located.text, cluster.features).error is None:
                continue
            if published is None:
                published = _published(cluster)
            text = repairs.repaired(located.text, published, cluster.features)
            for replacement in (text, *_with_spellings(text, cluster)) if text else ():
                rewrite: dict[str, Any] = {
                    "index": located.number,
                    "expression": located.text,
                    "replacement": replacement,
                    "how": changes.Rewriting.SYNTAX,
                }
                yield _replaced(alternative, located.device_class, rewrite)


def _with_spellings(text: str, cluster: ClusterInventory) -> Iterator[str]:
    """Yield the selector with published values that contain the one in it, in any spelling."""
    for compared in expressions.comparisons(text):
        if compared.relation == "==" and isinstance(compared.constant, str):
            values = sorted(_strings(cluster, compared.subject))
            word = compared.constant.lower()
            close = spelling.same_but_spelling(compared.constant, values)
            close += [value for value in values if word in value.lower()]
            for value in close[:_VALUES_TRIED]:
                yield expressions.replaced(text, compared.span, expressions.written(value))


def _strings(cluster: ClusterInventory, subject: SelectorSubject) -> set[str]:
    """Return the texts that devices publish for an attribute."""
    return {
        attribute.string_value
        for resource_slice in cluster.slices()
        for device in resource_slice.spec.devices
        for name, attribute in device.attributes.items()
        if attribute.string_value
        and SelectorSubject.published(ATTRIBUTES, resource_slice.spec.driver, name) == subject
    }


def _published(cluster: ClusterInventory) -> frozenset[SelectorSubject]:
    """Return the attributes and capacities of all devices."""
    return frozenset(
        SelectorSubject.published(field, resource_slice.spec.driver, name)
        for resource_slice in cluster.slices()
        for device in resource_slice.spec.devices
        for field, names in ((ATTRIBUTES, device.attributes), (CAPACITY, device.capacity))
        for name in names
    )


def correct_names(context: ProposalContext) -> Iterator[Proposal]:
    """Propose similar names for classes and constraint attributes that do not exist."""
    classes = context.cluster.classes
    for alternative in alternatives(context):
        requested = alternative.parsed.device_class
        if requested not in classes:
            for close in spelling.similar_domains(requested, classes)[:_CLASSES_TRIED]:
                yield Proposal(_other_class(alternative, close), affecting(alternative))
    for observed in context.observations:
        if observed.facts.filter.kind is FilterKind.CONSTRAINTS:
            yield from _corrected_constraints(context, observed)


def _corrected_constraints(context: ProposalContext, observed: Observation) -> Iterator[Proposal]:
    claim = observed.facts.claim
    for index, constraint in enumerate(context.claims[claim].spec.devices.constraints):
        attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        for fact in observed.facts.subjects:
            if f"{fact.domain}/{fact.name}" != attribute:
                continue
            for similar in fact.similar:
                other = f"{similar.domain}/{similar.name}"
                change = changes.ReplaceConstraint(
                    claim=claim, index=index, attribute=attribute, replacement=other
                )
                yield Proposal(change, _of_claim(context, claim))


def _of_claim(context: ProposalContext, claim: int) -> frozenset[RequestKey]:
    requests = context.claims[claim].spec.devices.requests
    return frozenset((claim, request.name) for request in requests)


def wait(context: ProposalContext) -> Iterator[Proposal]:
    """Propose to wait for one claim, those that hold most of what is needed first."""
    for node, holders in holders_by_node(context):
        for holder in holders[:_HOLDERS_TRIED]:
            yield Proposal(changes.WaitForClaim(holder=holder), None, node)


def holders_by_node(context: ProposalContext) -> Iterator[tuple[str, list[ClaimKey]]]:
    """Yield each representative node with the claims to wait for, the most important first."""
    own = {claim.key for claim in context.claims}
    for node, inventory in _inventories(context):
        weights = availability.Holders()
        for alternative in alternatives(context):
            weights += availability.holding_claims(inventory, alternative)
        ranked = sorted(weights, key=lambda holder: (-weights[holder], holder))
        yield node, [key for key in ranked if key not in own and key != EXTERNAL_HOLDER]


def ask_for_smaller_amounts(context: ProposalContext) -> Iterator[Proposal]:
    """Propose smaller amounts of capacities, the largest that a device has left first."""
    for alternative in alternatives(context):
        requested = dict(alternative.parsed.capacity or {})
        share_of: dict[tuple[tuple[str, str], ...], float] = {}
        for _, inventory in _inventories(context):
            for amounts, share in availability.affordable_amounts(inventory, alternative):
                share_of[tuple(sorted(amounts.items()))] = share
        ranked = sorted(share_of, key=lambda amounts: -share_of[amounts])
        claim, request = alternative.key
        for chosen in ranked[:_AMOUNTS_TRIED]:
            change = changes.LessCapacity(
                claim=claim, request=request, amounts=dict(chosen), asked=requested
            )
            yield Proposal(change, affecting(alternative))


def tolerate(context: ProposalContext) -> Iterator[Proposal]:
    """Propose to tolerate one taint; then, for devices with several, all taints."""
    for alternative in alternatives(context):
        untolerated = dict.fromkeys(
            taint
            for _, inventory in _inventories(context)
            for taint in availability.untolerated_taints(inventory, alternative)
        )
        claim, request = alternative.key
        for taint in sorted(untolerated, key=lambda taint: taint is None):
            change = changes.TolerateTaint(claim=claim, request=request, taint=taint)
            yield Proposal(change, affecting(alternative))


def drop_selectors(context: ProposalContext) -> Iterator[Proposal]:
    for alternative in alternatives(context):
        claim, request = alternative.key
        for index, expression in enumerate(alternative.parsed.selectors):
            change = changes.DropSelector(
                claim=claim, request=request, index=index, expression=expression or ""
            )
            yield Proposal(change, affecting(alternative))


def drop_constraints(context: ProposalContext) -> Iterator[Proposal]:
    for number, claim in enumerate(context.claims):
        for index, constraint in enumerate(claim.spec.devices.constraints):
            change = changes.DropConstraint(
                claim=number,
                index=index,
                attribute=constraint.match_attribute or constraint.distinct_attribute or "",
                is_match=constraint.match_attribute is not None,
            )
            yield Proposal(change, _of_claim(context, number))


def use_fitting_classes(context: ProposalContext) -> Iterator[Proposal]:
    """Propose other classes for requests with selectors of their own."""
    return _other_classes(context, has_selectors=True)


def use_any_classes(context: ProposalContext) -> Iterator[Proposal]:
    return _other_classes(context, has_selectors=False)


def _other_classes(context: ProposalContext, *, has_selectors: bool) -> Iterator[Proposal]:
    for alternative in alternatives(context):
        if bool(alternative.parsed.selectors) is not has_selectors:
            continue
        requested = alternative.parsed.device_class
        others = spelling.by_distance(requested, set(context.cluster.classes) - {requested})
        for name in others[:_CLASSES_TRIED]:
            yield Proposal(_other_class(alternative, name), affecting(alternative))


def _other_class(alternative: ResolvedAlternative, name: str) -> changes.OtherClass:
    return changes.OtherClass(
        claim=alternative.claim,
        request=str(alternative.parsed.name),
        device_class=name,
        asked=alternative.parsed.device_class,
    )


def correct_classes(context: ProposalContext) -> Iterator[Proposal]:
    """Propose corrections of selectors in classes."""
    for observed in context.observations:
        class_filter = observed.facts.filter
        if class_filter.kind is FilterKind.CLASS:
            for how, text, old, new in selector_rewrites.corrections(observed):
                change = changes.ReplaceClassSelector(
                    device_class=class_filter.device_class,
                    index=class_filter.index,
                    expression=class_filter.expression,
                    replacement=text,
                    how=how,
                    old=old,
                    new=new,
                )
                yield Proposal(change, None)


def enable_gates(context: ProposalContext) -> Iterator[Proposal]:
    for gate in context.gates:
        if features.exists_in(gate, context.cluster.features.version):
            yield Proposal(changes.EnableGate(gate=gate), None)


def drop_requests(context: ProposalContext) -> Iterator[Proposal]:
    for number, claim in enumerate(context.claims):
        requested = claim.spec.devices.requests
        for request in requested if len(requested) > 1 else ():
            change = changes.DropRequest(claim=number, request=request.name)
            yield Proposal(change, frozenset({(number, request.name)}))


def drop_claims(context: ProposalContext) -> Iterator[Proposal]:
    for number, claim in enumerate(context.claims if len(context.claims) > 1 else ()):
        key = claim.key
        yield Proposal(changes.DropClaim(claim=number, name=key), _of_claim(context, number))


def drop_class_selectors(context: ProposalContext) -> Iterator[Proposal]:
    of_classes = dict.fromkeys(
        (located.device_class, located.number, located.text)
        for alternative in alternatives(context)
        for located in alternative.selectors
        if located.device_class is not None
    )
    for device_class, index, expression in of_classes:
        change = changes.DropClassSelector(
            device_class=device_class, index=index, expression=expression
        )
        yield Proposal(change, None)

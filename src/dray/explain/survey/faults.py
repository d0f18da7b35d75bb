"""Errors in claims, classes and slices that make an allocation impossible on any node.

The allocator stops at the first error, with upstream's text. Here all causes are found, as data,
with what helps to correct them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.selectors import CachedSelector
from dray.allocator.model import rejections, requests
from dray.allocator.model.candidates import Candidate
from dray.allocator.model.requests import Alternative
from dray.allocator.problem.resolution import LocatedSelector, ResolvedAlternative, ResolvedClaim
from dray.api.features import Features
from dray.api.ids import DeviceId, PoolId
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE
from dray.cel.device import Selector
from dray.cel.runtime.values import COST_LIMIT
from dray.explain.selectors import expressions, spelling
from dray.explain.survey.filters import CannotEvaluate, DeviceFilter, FilterKind
from dray.explain.survey.funnel import FilterCount, Funnel
from dray.explain.survey.node_survey import Survey, UnusablePool

_DEVICES_NAMED = 16


class Fault(msgspec.Struct, frozen=True, kw_only=True, tag_field="fault", tag=True):
    """One cause; `claim` is the position of the claim, -1 where it is not about one."""

    claim: int = -1
    request: str = ""


class ClassUnknown(Fault, frozen=True, kw_only=True):
    device_class: str
    similar: tuple[str, ...]
    """Classes with similar names."""
    known: tuple[str, ...]


class ClassMissing(Fault, frozen=True, kw_only=True):
    """The request names no class."""


class SelectorFault(Fault, frozen=True, kw_only=True):
    """An error of a selector; of the class if `device_class` is set."""

    device_class: str
    index: int
    expression: str


class SelectorBroken(SelectorFault, frozen=True, kw_only=True):
    """A selector that cannot be compiled."""

    detail: str


class SelectorFails(SelectorFault, frozen=True, kw_only=True):
    """A selector that cannot be evaluated on some devices."""

    device: DeviceId | None
    detail: str
    failing: int
    total: int
    devices: tuple[DeviceId, ...] = ()
    """The first ones of the failing devices."""


class SelectorTooCostly(SelectorFault, frozen=True, kw_only=True):
    """A selector whose estimated cost exceeds the limit."""

    cost: int
    limit: int


class AttributeFails(Fault, frozen=True, kw_only=True):
    """A derived attribute, a capacity or a node selector that cannot be evaluated on a device."""

    kind: FilterKind
    device: DeviceId | None
    detail: str


class TooManyDevices(Fault, frozen=True, kw_only=True):
    needed: int
    limit: int


class GateOff(Fault, frozen=True, kw_only=True):
    """The request needs a feature whose gate is off."""

    gate: str


class Unsupported(Fault, frozen=True, kw_only=True):
    """A selector, constraint or allocation mode of an unknown kind."""

    what: str


class PoolNotWhole(Fault, frozen=True, kw_only=True):
    """allocationMode All while a pool cannot be used."""

    pool: PoolId


class AllAgainstConstraint(Fault, frozen=True, kw_only=True):
    """allocationMode All, and a constraint excludes some of the devices."""


class Other(Fault, frozen=True, kw_only=True):
    """An error for which there is only upstream's text."""

    detail: str


def find(
    cluster: ClusterInventory,
    claims: Sequence[ResolvedClaim],
    survey: Survey,
    failure: rejections.AllocationError,
) -> tuple[Fault, ...]:
    """Return every cause of an allocation error, those of the claim that failed first."""
    faults = [
        *_in_claims(cluster, claims),
        *_too_many(claims, survey.funnels),
        *_in_funnels(cluster, claims, survey),
        *_pools_not_whole(claims, survey.unusable),
    ]
    failed_claim = -1 if failure.claim is None else failure.claim
    if not any(fault.claim == failed_claim or failed_claim < 0 for fault in faults):
        faults += _against_constraints(claims, failed_claim)
    if not faults:
        return (Other(claim=failed_claim, detail=failure.detail),)
    return tuple(sorted(faults, key=lambda fault: fault.claim != failed_claim))


def _in_claims(cluster: ClusterInventory, claims: Sequence[ResolvedClaim]) -> Iterator[Fault]:
    """Yield the faults of claims by themselves."""
    for number, claim in enumerate(claims):
        for request in claim.requests:
            if request.request.is_prioritized and not cluster.features.prioritized_list:
                yield GateOff(claim=number, request=request.request.name, gate="DRAPrioritizedList")
            for alternative in request.alternatives:
                yield from _in_alternative(cluster, alternative)
        for index, constraint in enumerate(claim.parsed.constraints):
            if not (constraint.match_attribute or constraint.distinct_attribute):
                yield Unsupported(claim=number, what=f"constraint {index}")


def _too_many(claims: Sequence[ResolvedClaim], funnels: Iterable[Funnel]) -> Iterator[Fault]:
    needed_by = {funnel.key: funnel.most_needed for funnel in funnels}
    for number, claim in enumerate(claims):
        needed = sum(_fewest(request.alternatives, needed_by) for request in claim.requests)
        if needed > ALLOCATION_RESULTS_MAX_SIZE:
            yield TooManyDevices(claim=number, needed=needed, limit=ALLOCATION_RESULTS_MAX_SIZE)


def _fewest(
    alternatives: Sequence[ResolvedAlternative], needed_by: Mapping[tuple[int, str], int]
) -> int:
    return min(
        needed_by.get(resolved.key, 0) if resolved.parsed.is_all else resolved.parsed.count
        for resolved in alternatives
    )


def _in_alternative(cluster: ClusterInventory, resolved: ResolvedAlternative) -> Iterator[Fault]:
    alternative, (claim, request) = resolved.parsed, resolved.key
    for gate in _gates_off(alternative, cluster.features):
        yield GateOff(claim=claim, request=request, gate=gate)
    if not alternative.device_class:
        yield ClassMissing(claim=claim, request=request)
    elif alternative.device_class not in cluster.classes:
        yield ClassUnknown(
            claim=claim,
            request=request,
            device_class=alternative.device_class,
            similar=tuple(spelling.similar(alternative.device_class, cluster.classes)),
            known=tuple(sorted(cluster.classes)),
        )
    if alternative.mode not in (requests.EXACT_COUNT, requests.ALL):
        yield Unsupported(claim=claim, request=request, what=f"allocation mode {alternative.mode}")
    for index, expression in enumerate(alternative.selectors):
        if expression is None:
            yield Unsupported(claim=claim, request=request, what=f"selector {index}")
    for located in resolved.selectors:
        yield from _in_selector(resolved, located, cluster.features)


def _in_selector(
    resolved: ResolvedAlternative, located: LocatedSelector, features: Features
) -> Iterator[Fault]:
    compiled = expressions.compiled(located.text, features)
    place: dict[str, Any] = {
        "claim": resolved.claim,
        "request": str(resolved.parsed.name),
        "device_class": located.device_class or "",
        "index": located.number,
        "expression": located.text,
    }
    if compiled.error is not None:
        yield SelectorBroken(**place, detail=compiled.error.detail)
    elif compiled.estimated_cost > COST_LIMIT:
        yield SelectorTooCostly(**place, cost=compiled.estimated_cost, limit=COST_LIMIT)


def _is_at_fault(compiled: Selector) -> bool:
    return compiled.error is not None or compiled.estimated_cost > COST_LIMIT


def _gates_off(alternative: Alternative, features: Features) -> Iterator[str]:
    if alternative.capacity is not None and not features.consumable_capacity:
        yield "DRAConsumableCapacity"
    if alternative.derived and not features.derived_attributes:
        yield "DRADerivedAttributes"
    if alternative.admin_access is not None and not features.admin_access:
        yield "DRAAdminAccess"


def _in_funnels(
    cluster: ClusterInventory, claims: Sequence[ResolvedClaim], survey: Survey
) -> Iterator[Fault]:
    """Yield the faults of expressions that cannot be evaluated on some devices."""
    alternatives = {
        alternative.key: alternative for claim in claims for alternative in claim.alternatives()
    }
    for funnel in survey.funnels:
        for stage in funnel.stages:
            expression = stage.filter.expression
            is_reported = expression and _is_at_fault(
                expressions.compiled(expression, cluster.features)
            )
            if isinstance(stage.rejection, CannotEvaluate) and not is_reported:
                devices: tuple[DeviceId, ...] = ()
                if stage.filter.is_selector:
                    selectors = _selectors_up_to(alternatives[funnel.key], stage.filter)
                    nodes = set(survey.evaluated_nodes)
                    found = _failing_devices(cluster, selectors, nodes)
                    devices = tuple(itertools.islice(found, _DEVICES_NAMED))
                yield _failing(funnel, stage, stage.rejection.detail, devices)


def _selectors_up_to(
    resolved: ResolvedAlternative, device_filter: DeviceFilter
) -> list[CachedSelector]:
    """Return the selectors that a device is shown to, up to the one of a filter."""
    selectors: list[CachedSelector] = []
    for located in resolved.selectors:
        selectors.append(located.selector)
        place = (located.device_class or "", located.number)
        if place == (device_filter.device_class, device_filter.index):
            break
    return selectors


def _failing_devices(
    cluster: ClusterInventory, selectors: Sequence[CachedSelector], nodes: Set[str]
) -> Iterator[DeviceId]:
    """Yield the devices for some nodes on which only the last of the selectors fails."""
    *earlier, last = selectors
    for resource_slice in cluster.slices():
        spec = resource_slice.spec
        if spec.node_name and spec.node_name not in nodes:
            continue
        for device in spec.devices:
            candidate = Candidate(0, 0, 0, spec.driver, resource_slice, device)
            if all(selector.result(candidate) is True for selector in earlier) and isinstance(
                last.result(candidate), str
            ):
                yield candidate.id


def _failing(
    funnel: Funnel, stage: FilterCount, detail: str, devices: tuple[DeviceId, ...]
) -> Fault:
    device_filter = stage.filter
    if not device_filter.is_selector:
        return AttributeFails(
            claim=funnel.claim,
            request=funnel.request,
            kind=device_filter.kind,
            device=stage.example,
            detail=detail,
        )
    return SelectorFails(
        claim=funnel.claim,
        request=funnel.request,
        device=stage.example,
        detail=detail,
        device_class=device_filter.device_class,
        index=device_filter.index,
        expression=device_filter.expression,
        failing=stage.failing,
        total=stage.before,
        devices=devices,
    )


def _pools_not_whole(
    claims: Iterable[ResolvedClaim], unusable: Sequence[UnusablePool]
) -> Iterator[Fault]:
    for alternative in _for_all(claims):
        claim, request = alternative.key
        for pool in unusable:
            yield PoolNotWhole(claim=claim, request=request, pool=pool.pool)


def _against_constraints(claims: Sequence[ResolvedClaim], failed_claim: int) -> Iterator[Fault]:
    for alternative in _for_all(claims):
        if alternative.claim == failed_claim and claims[failed_claim].parsed.constraints:
            yield AllAgainstConstraint(claim=failed_claim, request=str(alternative.parsed.name))


def _for_all(claims: Iterable[ResolvedClaim]) -> Iterator[ResolvedAlternative]:
    """Yield the alternatives with allocationMode All."""
    for claim in claims:
        for alternative in claim.alternatives():
            if alternative.parsed.is_all:
                yield alternative

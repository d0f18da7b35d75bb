"""Claims with their classes looked up and their expressions compiled, once for all nodes.

Errors of a claim by itself are found here and kept as values. They are raised when a node is
searched: upstream reports an error of an earlier request on that node first
(incubating/allocator_incubating.go Allocate, validateDeviceRequest).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.checks import capacity, constraints
from dray.allocator.inventory.selectors import CachedSelector, Selectors
from dray.allocator.model import requests
from dray.allocator.model.candidates import Slot, slots_for
from dray.allocator.model.rejections import AllocationError
from dray.allocator.model.requests import Alternative, ParsedClaim, ParsedRequest
from dray.api.features import Features
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE, DeviceClass

Classes = Mapping[str, DeviceClass]


class LocatedSelector(NamedTuple):
    """A selector and its place in a class, or in the request if `device_class` is None."""

    selector: CachedSelector
    text: str
    number: int
    device_class: str | None = None


class ResolvedAlternative(NamedTuple):
    claim: int
    parsed: Alternative
    device_class: DeviceClass
    selectors: Sequence[LocatedSelector]
    slots: Sequence[Slot]
    """For an exact count; allocationMode All gets its slots on the node."""
    demands: capacity.RememberedDemands
    failure: AllocationError | None = None

    @property
    def key(self) -> tuple[int, str]:
        """Return the position of the claim and the name of the request or subrequest."""
        return self.claim, str(self.parsed.name)


class ResolvedRequest(NamedTuple):
    claim: int
    request: ParsedRequest
    alternatives: Sequence[ResolvedAlternative]
    failure: AllocationError | None = None
    """An error that upstream reports before it evaluates any alternative."""


class ResolvedClaim(NamedTuple):
    parsed: ParsedClaim
    requests: Sequence[ResolvedRequest]
    failure: AllocationError | None = None
    """An error in a constraint."""
    has_few_devices: bool = False
    """Whether it is within the limit of devices on every node."""

    def alternatives(self) -> Iterator[ResolvedAlternative]:
        for request in self.requests:
            yield from request.alternatives

    def least_devices(self) -> int:
        """Return how many devices the claim needs at least, without allocationMode All."""
        return sum(
            min(resolved.parsed.count for resolved in request.alternatives)
            for request in self.requests
        )


def resolve(
    parsed: Sequence[ParsedClaim], classes: Classes, selectors: Selectors, features: Features
) -> list[ResolvedClaim]:
    resolver = _Resolver(classes, selectors, features)
    return [resolver.claim(number, claim) for number, claim in enumerate(parsed)]


class _Resolver:
    def __init__(self, classes: Classes, selectors: Selectors, features: Features) -> None:
        self._classes = classes
        self._selectors = selectors
        self._features = features

    def claim(self, number: int, parsed: ParsedClaim) -> ResolvedClaim:
        resolved = [self._request(number, request) for request in parsed.requests]
        return ResolvedClaim(
            parsed, resolved, _constraint_failure(number, parsed), _has_few_devices(resolved)
        )

    def _request(self, claim: int, request: ParsedRequest) -> ResolvedRequest:
        alternatives = [self._alternative(claim, parsed) for parsed in request.alternatives]
        failure = next(_request_failures(claim, request, self._features), None)
        return ResolvedRequest(claim, request, alternatives, failure)

    def _alternative(self, claim: int, alternative: Alternative) -> ResolvedAlternative:
        device_class = self._classes.get(alternative.device_class)
        failure = None
        error = next(_alternative_errors(alternative, device_class, self._features), None)
        if error is not None:
            where, message = error
            request = f"request {alternative.own_name}{where}"
            failure = AllocationError(message, claim=claim, request=request)
        device_class = device_class or DeviceClass()
        selectors = [] if failure else self._selectors_of(alternative, device_class)
        slots = slots_for(claim, alternative, 0 if alternative.is_all else alternative.count)
        demands = capacity.RememberedDemands(
            alternative.capacity, fractional=self._features.fractional_capacity_range
        )
        return ResolvedAlternative(
            claim, alternative, device_class, selectors, slots, demands, failure
        )

    def _selectors_of(
        self, alternative: Alternative, device_class: DeviceClass
    ) -> list[LocatedSelector]:
        name = device_class.metadata.name
        published = device_class.spec.selectors
        of_class = [selector.cel.expression if selector.cel else "" for selector in published]
        selectors = [
            LocatedSelector(self._selectors.selector(text), text, number, name)
            for number, text in enumerate(of_class)
        ]
        selectors += [
            LocatedSelector(self._selectors.selector(text), text, number)
            for number, text in enumerate(alternative.selectors)
            if text is not None
        ]
        return selectors


def _has_few_devices(requests: Sequence[ResolvedRequest]) -> bool:
    """Return whether requests are within the limit whatever a node has."""
    alternatives = [resolved.parsed for request in requests for resolved in request.alternatives]
    return (
        not any(parsed.is_all for parsed in alternatives)
        and sum(max(parsed.count, 0) for parsed in alternatives) <= ALLOCATION_RESULTS_MAX_SIZE
    )


def _request_failures(
    claim: int, request: ParsedRequest, features: Features
) -> Iterator[AllocationError]:
    if request.is_prioritized and not features.prioritized_list:
        yield AllocationError(
            "has subrequests, but the DRAPrioritizedList feature is disabled",
            claim=claim,
            request=f"request {request.name}",
        )
    if features.consumable_capacity:
        return
    kind = "subrequest" if request.is_prioritized else "request"
    for alternative in request.alternatives:
        if alternative.capacity is not None:
            yield AllocationError(
                "has capacity requests, but the DRAConsumableCapacity feature is disabled",
                claim=claim,
                request=f"{kind} {alternative.own_name}",
            )


def _alternative_errors(
    alternative: Alternative, device_class: DeviceClass | None, features: Features
) -> Iterator[tuple[str, str]]:
    """Yield the errors of a request by itself, in upstream's order: the place and the message."""
    if alternative.derived and not features.derived_attributes:
        yield "", "cannot handle request with derived attributes, the feature is disabled"
    for index, selector in enumerate(alternative.selectors):
        if selector is None:
            yield f", selector #{index}", "CEL expression empty (unsupported selector type?)"
    if alternative.admin_access is not None and not features.admin_access:
        yield "", "admin access is requested, but the feature is disabled"
    name = alternative.device_class
    if not name:
        yield "", "missing device class name (unsupported request type?)"
    if device_class is None:
        missing = f'deviceclass.resource.k8s.io "{name}" not found'
        yield "", f"could not retrieve device class {name}: {missing}"
    if alternative.mode not in (requests.EXACT_COUNT, requests.ALL):
        yield "", f"unsupported count mode {alternative.mode}"


def _constraint_failure(claim: int, parsed: ParsedClaim) -> AllocationError | None:
    for number, constraint in enumerate(parsed.constraints):
        if constraints.build(number, constraint, compares_lists=False) is None:
            return AllocationError(
                "empty constraint (unsupported constraint type?)",
                claim=claim,
                request=f"constraint #{number}",
            )
    return None

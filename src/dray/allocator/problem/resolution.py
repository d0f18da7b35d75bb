"""Questions meet the fleet: classes looked up, expressions compiled, gates respected.

What is wrong with a claim by itself is found here, once for all nodes. It is a value until a node
is asked, because upstream comes upon it only after what that node shows for the requests before it
(incubating/allocator_incubating.go Allocate, validateDeviceRequest).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.checks import constraints
from dray.allocator.inventory.selectors import Selector, Selectors
from dray.allocator.model import requests
from dray.allocator.model.candidates import Slot
from dray.allocator.model.rejections import Failure
from dray.allocator.model.requests import Option, Question, Request
from dray.api.features import Features
from dray.api.types.dra import DeviceClass

Classes = Mapping[str, DeviceClass]


class Test(NamedTuple):
    """A selector and where it stands; without a class it is the request's."""

    selector: Selector
    text: str
    number: int
    device_class: str | None = None


class ResolvedOption(NamedTuple):
    claim: int
    option: Option
    device_class: DeviceClass
    tests: Sequence[Test]
    slots: Sequence[Slot]
    """For an exact count; how many "All" needs depends on the node."""
    failure: Failure | None = None


class ResolvedRequest(NamedTuple):
    claim: int
    request: Request
    options: Sequence[ResolvedOption]
    failure: Failure | None = None
    """What is wrong before any option is looked at."""


class ResolvedClaim(NamedTuple):
    question: Question
    requests: Sequence[ResolvedRequest]
    failure: Failure | None = None
    """What is wrong with a constraint."""

    def least_devices(self) -> int:
        """How many devices the claim needs at least, "All" aside."""
        return sum(
            min(resolved.option.count for resolved in request.options) for request in self.requests
        )


def resolve(
    questions: Sequence[Question], classes: Classes, selectors: Selectors, features: Features
) -> list[ResolvedClaim]:
    resolver = _Resolver(classes, selectors, features)
    return [resolver.claim(number, question) for number, question in enumerate(questions)]


class _Resolver:
    def __init__(self, classes: Classes, selectors: Selectors, features: Features) -> None:
        self._classes = classes
        self._selectors = selectors
        self._features = features

    def claim(self, number: int, question: Question) -> ResolvedClaim:
        resolved = [self._request(number, request) for request in question.requests]
        return ResolvedClaim(question, resolved, _constraint_failure(number, question))

    def _request(self, claim: int, request: Request) -> ResolvedRequest:
        options = [self._option(claim, option) for option in request.options]
        failure = next(_request_failures(claim, request, self._features), None)
        return ResolvedRequest(claim, request, options, failure)

    def _option(self, claim: int, option: Option) -> ResolvedOption:
        device_class = self._classes.get(option.device_class)
        failure = next(_option_failures(claim, option, device_class, self._features), None)
        if device_class is None:
            device_class = DeviceClass()
        tests = [] if failure else self._tests(option, device_class)
        count = 0 if option.is_all else min(option.count, requests.RESULTS_LIMIT)
        slots = [Slot(claim, option, ordinal) for ordinal in range(count)]
        return ResolvedOption(claim, option, device_class, tests, slots, failure)

    def _tests(self, option: Option, device_class: DeviceClass) -> list[Test]:
        name = device_class.metadata.name
        of_class = [
            selector.cel.expression if selector.cel else ""
            for selector in device_class.spec.selectors
        ]
        tests = [
            Test(self._selectors.selector(text), text, number, name)
            for number, text in enumerate(of_class)
        ]
        tests += [
            Test(self._selectors.selector(text), text, number)
            for number, text in enumerate(option.selectors)
            if text is not None
        ]
        return tests


def _request_failures(claim: int, request: Request, features: Features) -> Iterator[Failure]:
    if request.is_prioritized and not features.prioritized_list:
        yield Failure(
            "has subrequests, but the DRAPrioritizedList feature is disabled",
            claim=claim,
            request=f"request {request.name}",
        )
    if features.consumable_capacity:
        return
    kind = "subrequest" if request.is_prioritized else "request"
    for option in request.options:
        if option.capacity is not None:
            yield Failure(
                "has capacity requests, but the DRAConsumableCapacity feature is disabled",
                claim=claim,
                request=f"{kind} {option.own_name}",
            )


def _option_failures(
    claim: int, option: Option, device_class: DeviceClass | None, features: Features
) -> Iterator[Failure]:
    for where, complaint in _complaints(option, device_class, features):
        yield Failure(complaint, claim=claim, request=f"request {option.own_name}{where}")


def _complaints(
    option: Option, device_class: DeviceClass | None, features: Features
) -> Iterator[tuple[str, str]]:
    """What is wrong with a request by itself, the first thing first, and where in it."""
    if option.derived and not features.derived_attributes:
        yield "", "cannot handle request with derived attributes, the feature is disabled"
    for index, selector in enumerate(option.selectors):
        if selector is None:
            yield f", selector #{index}", "CEL expression empty (unsupported selector type?)"
    if option.admin_access is not None and not features.admin_access:
        yield "", "admin access is requested, but the feature is disabled"
    name = option.device_class
    if not name:
        yield "", "missing device class name (unsupported request type?)"
    if device_class is None:
        missing = f'deviceclass.resource.k8s.io "{name}" not found'
        yield "", f"could not retrieve device class {name}: {missing}"
    if option.mode not in (requests.EXACT_COUNT, requests.ALL):
        yield "", f"unsupported count mode {option.mode}"


def _constraint_failure(claim: int, question: Question) -> Failure | None:
    for number, constraint in enumerate(question.constraints):
        if constraints.build(number, constraint, compares_lists=False) is None:
            return Failure(
                "empty constraint (unsupported constraint type?)",
                claim=claim,
                request=f"constraint #{number}",
            )
    return None

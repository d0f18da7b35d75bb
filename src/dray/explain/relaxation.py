"""The smallest change that would have succeeded, found by asking the allocator again.

Changes are tried one at a time, the least intrusive first. What is proposed has been tried: the
changed claims fit on a node of the fleet as it is, or as it would be after one claim has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from dray.allocator import verdicts
from dray.allocator.fleet import Fleet
from dray.allocator.placement import Fit, Placement
from dray.api.claims import (
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from dray.api.names import ClaimKey, RequestName
from dray.api.taints import DeviceTaint, DeviceToleration
from dray.explain.funnel import Funnel

MAX_ATTEMPTS = 200
"""How many changed questions are asked before giving up."""

Body = ExactDeviceRequest | DeviceSubRequest


class Relaxation(msgspec.Struct, frozen=True, tag_field="change", tag=True):
    """One change, and where the claims would then fit."""

    node: str


class TolerateTaint(Relaxation, frozen=True):
    claim: int
    request: str
    taint: DeviceTaint


class DropSelector(Relaxation, frozen=True):
    claim: int
    request: str
    index: int
    expression: str


class FewerDevices(Relaxation, frozen=True):
    claim: int
    request: str
    count: int
    asked: int


class LessCapacity(Relaxation, frozen=True):
    """Ask for what some device still has instead of more."""

    claim: int
    request: str
    capacity: str
    amount: str
    asked: str


class DropConstraint(Relaxation, frozen=True):
    claim: int
    index: int
    attribute: str
    is_match: bool


class ExactCountInstead(Relaxation, frozen=True):
    """One device instead of all of them."""

    claim: int
    request: str


class OtherClass(Relaxation, frozen=True):
    claim: int
    request: str
    device_class: str
    asked: str


class WaitForClaim(Relaxation, frozen=True):
    """Nothing to change: the claims fit once this one has ended."""

    holder: ClaimKey


def find(
    fleet: Fleet,
    new_placement: Callable[[], Placement],
    claims: Sequence[ResourceClaim],
    funnels: Sequence[Funnel],
) -> Relaxation | None:
    """The first change that helps, or None where no single one does."""
    placement = new_placement()
    for attempt, change in enumerate(_changes(claims, fleet, funnels)):
        if attempt >= MAX_ATTEMPTS:
            return None
        node = change.attempt(fleet, placement)
        if node is not None:
            return change.described(node)
    return None


class _Change(msgspec.Struct, frozen=True):
    """A change that can be tried."""

    describe: Callable[[str], Relaxation]
    claims: Sequence[ResourceClaim]
    without: ClaimKey | None = None

    def attempt(self, fleet: Fleet, placement: Placement) -> str | None:
        """The node on which the changed claims fit."""
        if self.without is None:
            return _fitting_node(placement, self.claims)
        with fleet.without(self.without):
            return _fitting_node(placement, self.claims)

    def described(self, node: str) -> Relaxation:
        return self.describe(node)


def _fitting_node(placement: Placement, claims: Sequence[ResourceClaim]) -> str | None:
    try:
        answer = placement.first_fit(claims)
    except verdicts.Failure:
        return None
    return answer.node if isinstance(answer, Fit) else None


def _changes(
    claims: Sequence[ResourceClaim], fleet: Fleet, funnels: Sequence[Funnel]
) -> Iterator[_Change]:
    """Every change worth trying, the one that asks least of the user first."""
    bodies = [
        (number, name, body)
        for number, claim in enumerate(claims)
        for name, body in _bodies(claim.spec.devices.requests)
    ]
    for number, name, body in bodies:
        yield from _tolerations(claims, number, name, body, funnels)
    for number, name, body in bodies:
        yield from _smaller_capacities(claims, number, name, body, funnels)
    for number, name, body in bodies:
        yield from _without_selectors(claims, number, name, body)
    for number, name, body in bodies:
        yield from _fewer(claims, number, name, body)
    yield from _without_constraints(claims)
    yield from _after_others(claims, funnels)
    for number, name, body in bodies:
        yield from _other_classes(claims, number, name, body, fleet)


def _bodies(requests: Iterable[DeviceRequest]) -> Iterator[tuple[RequestName, Body]]:
    for request in requests:
        if request.exactly is not None:
            yield RequestName(request.name), request.exactly
        for alternative in request.first_available:
            yield RequestName(request.name, alternative.name), alternative


def _changed(
    claims: Sequence[ResourceClaim], number: int, name: RequestName, **fields: object
) -> list[ResourceClaim]:
    """The claims with other fields in one request or alternative."""

    def change(request: DeviceRequest) -> DeviceRequest:
        if request.name != name.parent:
            return request
        if not name.sub:
            return msgspec.structs.replace(
                request, exactly=msgspec.structs.replace(request.exactly, **fields)
            )
        alternatives = tuple(
            msgspec.structs.replace(each, **fields) if each.name == name.sub else each
            for each in request.first_available
        )
        return msgspec.structs.replace(request, first_available=alternatives)

    claim = claims[number]
    devices = claim.spec.devices
    changed = msgspec.structs.replace(devices, requests=tuple(map(change, devices.requests)))
    return _with_devices(claims, number, changed)


def _with_devices(
    claims: Sequence[ResourceClaim], number: int, devices: object
) -> list[ResourceClaim]:
    spec = msgspec.structs.replace(claims[number].spec, devices=devices)
    result = list(claims)
    result[number] = msgspec.structs.replace(claims[number], spec=spec)
    return result


def _tolerations(
    claims: Sequence[ResourceClaim],
    number: int,
    name: RequestName,
    body: Body,
    funnels: Sequence[Funnel],
) -> Iterator[_Change]:
    for taint in _taints(funnels, number, str(name)):
        toleration = DeviceToleration(
            key=taint.key, operator="Equal", value=taint.value, effect=taint.effect
        )
        yield _Change(
            lambda node, taint=taint: TolerateTaint(node, number, str(name), taint),  # type: ignore[misc]
            _changed(claims, number, name, tolerations=(*body.tolerations, toleration)),
        )


def _taints(funnels: Sequence[Funnel], number: int, name: str) -> Iterator[DeviceTaint]:
    for funnel in funnels:
        if (funnel.claim, funnel.request) == (number, name):
            for stage in funnel.stages:
                if isinstance(stage.example, verdicts.TaintNotTolerated):
                    yield stage.example.taint


def _smaller_capacities(
    claims: Sequence[ResourceClaim],
    number: int,
    name: RequestName,
    body: Body,
    funnels: Sequence[Funnel],
) -> Iterator[_Change]:
    if body.capacity is None:
        return
    for funnel in funnels:
        if (funnel.claim, funnel.request) != (number, str(name)):
            continue
        for stage in funnel.stages:
            short = stage.example
            if not isinstance(short, verdicts.CapacityShort):
                continue
            asked = body.capacity.requests.get(short.capacity)
            if asked is None or short.available in ("0", asked):
                continue
            amounts = {**body.capacity.requests, short.capacity: short.available}
            capacity = msgspec.structs.replace(body.capacity, requests=amounts)
            yield _Change(
                lambda node, short=short, asked=asked: LessCapacity(  # type: ignore[misc]
                    node, number, str(name), short.capacity, short.available, asked
                ),
                _changed(claims, number, name, capacity=capacity),
            )


def _without_selectors(
    claims: Sequence[ResourceClaim], number: int, name: RequestName, body: Body
) -> Iterator[_Change]:
    for index, selector in enumerate(body.selectors):
        rest = body.selectors[:index] + body.selectors[index + 1 :]
        expression = selector.cel.expression if selector.cel else ""
        yield _Change(
            lambda node, index=index, expression=expression: DropSelector(  # type: ignore[misc]
                node, number, str(name), index, expression
            ),
            _changed(claims, number, name, selectors=rest),
        )


def _fewer(
    claims: Sequence[ResourceClaim], number: int, name: RequestName, body: Body
) -> Iterator[_Change]:
    if body.allocation_mode == "All":
        yield _Change(
            lambda node: ExactCountInstead(node, number, str(name)),
            _changed(claims, number, name, allocation_mode="ExactCount", count=1),
        )
        return
    for count in range(body.count - 1, 0, -1):
        yield _Change(
            lambda node, count=count: FewerDevices(node, number, str(name), count, body.count),  # type: ignore[misc]
            _changed(claims, number, name, count=count),
        )


def _without_constraints(claims: Sequence[ResourceClaim]) -> Iterator[_Change]:
    for number, claim in enumerate(claims):
        devices = claim.spec.devices
        for index, constraint in enumerate(devices.constraints):
            rest = devices.constraints[:index] + devices.constraints[index + 1 :]
            changed = msgspec.structs.replace(devices, constraints=rest)
            attribute = constraint.match_attribute or constraint.distinct_attribute or ""
            is_match = constraint.match_attribute is not None
            yield _Change(
                lambda node, number=number, index=index, attribute=attribute, is_match=is_match: (  # type: ignore[misc]
                    DropConstraint(node, number, index, attribute, is_match)
                ),
                _with_devices(claims, number, changed),
            )


def _after_others(claims: Sequence[ResourceClaim], funnels: Sequence[Funnel]) -> Iterator[_Change]:
    holders: dict[ClaimKey, None] = {}
    for funnel in funnels:
        for stage in funnel.stages:
            holders.update(dict.fromkeys(stage.holders))
            found = getattr(stage.example, "holders", ())
            holders.update(dict.fromkeys(found))
    for holder in holders:
        yield _Change(lambda node, holder=holder: WaitForClaim(node, holder), claims, holder)  # type: ignore[misc]


def _other_classes(
    claims: Sequence[ResourceClaim], number: int, name: RequestName, body: Body, fleet: Fleet
) -> Iterator[_Change]:
    for other in sorted(fleet.classes):
        if other != body.device_class_name:
            yield _Change(
                lambda node, other=other: OtherClass(  # type: ignore[misc]
                    node, number, str(name), other, body.device_class_name
                ),
                _changed(claims, number, name, device_class_name=other),
            )

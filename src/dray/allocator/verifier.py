"""An independent verifier: find allocations that break a rule.

It looks at a whole state, every claim with its allocation. It shares no code with the search, on
purpose: it adds up plain numbers and compares plain attributes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dray.api.features import Features
from dray.api.formats import quantity
from dray.api.ids import ClaimKey, DeviceId, PoolId
from dray.api.types import dra
from dray.api.types.dra import DeviceAttribute, DeviceConstraint, ResourceClaim, ResourceSlice

# A copy on purpose: the verifier shares no code and no constant with what it verifies.
_RESULTS_LIMIT = 32


class Violation(msgspec.Struct, frozen=True, tag_field="violation", tag=True):
    """An illegal state."""


class HeldTwice(Violation, frozen=True):
    """Several claims hold a device as a whole, or one does while others hold shares."""

    device: DeviceId
    claims: tuple[ClaimKey, ...]


class NotShareable(Violation, frozen=True):
    device: DeviceId
    claim: ClaimKey


class CounterOverdrawn(Violation, frozen=True):
    pool: PoolId
    counter_set: str
    counter: str
    used: str
    total: str


class CapacityOverdrawn(Violation, frozen=True):
    device: DeviceId
    capacity: str
    used: str
    total: str


class CapacityNotAllowed(Violation, frozen=True):
    """A share of a size that the device's request policy does not allow."""

    device: DeviceId
    claim: ClaimKey
    capacity: str
    consumed: str


class GroupsMixed(Violation, frozen=True):
    """Devices without a compatibility group in common draw from one counter set."""

    pool: PoolId
    counter_set: str
    devices: tuple[str, ...]


class ConstraintBroken(Violation, frozen=True):
    claim: ClaimKey
    constraint: int
    devices: tuple[DeviceId, ...]


class TaintIgnored(Violation, frozen=True):
    """A device was allocated although the request does not tolerate its taint."""

    device: DeviceId
    claim: ClaimKey
    taint: str


class AdminAccessWrong(Violation, frozen=True):
    """A result and its request disagree about admin access."""

    device: DeviceId
    claim: ClaimKey


class WrongNumber(Violation, frozen=True):
    """A request does not have exactly as many devices as it needs."""

    claim: ClaimKey
    request: str
    wanted: int
    got: int


class DeviceRepeated(Violation, frozen=True):
    """A claim holds a device twice that it may hold once."""

    device: DeviceId
    claim: ClaimKey


class UnknownDevice(Violation, frozen=True):
    """A claim that was just allocated holds a device that no slice publishes."""

    device: DeviceId
    claim: ClaimKey


def find_violations(
    slices: Iterable[ResourceSlice],
    claims: Sequence[ResourceClaim],
    features: Features,
    *,
    just_allocated: Iterable[ClaimKey] = (),
) -> list[Violation]:
    """Return every violation in the allocations of `claims`.

    Taints and counts may change after allocation, so only `just_allocated` are checked for them.
    """
    verifier = _Verifier(slices, claims, features)
    new = set(just_allocated)
    return [
        *verifier.exclusive_use(),
        *verifier.counters(),
        *verifier.groups(),
        *verifier.capacity(),
        *verifier.constraints(),
        *verifier.requests(new),
        *verifier.taints(new),
    ]


class _AllocatedResult(msgspec.Struct, frozen=True):
    """One allocated device of one claim."""

    claim: ClaimKey
    result: dra.DeviceRequestAllocationResult

    @property
    def id(self) -> DeviceId:
        return self.result.device_id


class _Verifier:
    """Finds the violations of one state, one kind per method."""

    def __init__(
        self, slices: Iterable[ResourceSlice], claims: Sequence[ResourceClaim], features: Features
    ) -> None:
        self._features = features
        self._slices = _newest(slices)
        self._devices = {
            DeviceId(resource_slice.spec.driver, resource_slice.spec.pool.name, device.name): device
            for resource_slice in self._slices
            for device in resource_slice.spec.devices
        }
        self._claims = {claim.key: claim for claim in claims if claim.status.allocation is not None}
        self._results = [
            _AllocatedResult(key, result)
            for key, claim in self._claims.items()
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        ]
        self._by_device: dict[DeviceId, list[_AllocatedResult]] = defaultdict(list)
        for allocated in self._results:
            if not allocated.result.admin_access:
                self._by_device[allocated.id].append(allocated)

    def exclusive_use(self) -> Iterator[Violation]:
        for id, holders in self._by_device.items():
            shares = [allocated for allocated in holders if self._is_share(allocated)]
            if len(holders) > 1 and len(shares) < len(holders):
                yield HeldTwice(id, tuple(allocated.claim for allocated in holders))
            device = self._devices.get(id)
            for allocated in shares:
                if device is not None and not device.allow_multiple_allocations:
                    yield NotShareable(id, allocated.claim)

    def counters(self) -> Iterator[Violation]:
        totals: dict[tuple[PoolId, str, str], int] = {}
        for resource_slice in self._slices:
            pool = resource_slice.pool_id
            for counter_set in resource_slice.spec.shared_counters:
                for name, counter in counter_set.counters.items():
                    totals[pool, counter_set.name, name] = _nano(counter.value)
        used: dict[tuple[PoolId, str, str], int] = defaultdict(int)
        for pool, device in self._allocated():
            for consumption in device.consumes_counters:
                for name, counter in consumption.counters.items():
                    used[pool, consumption.counter_set, name] += _nano(counter.value)
        for key, nano in used.items():
            total = totals.get(key, 0)
            if nano > total:
                yield CounterOverdrawn(*key, _text(nano), _text(total))

    def groups(self) -> Iterator[Violation]:
        if not self._features.device_compatibility_groups:
            return
        drawing: dict[tuple[PoolId, str], list[tuple[str, frozenset[str]]]] = defaultdict(list)
        for pool, device in self._allocated():
            for consumption in device.consumes_counters:
                groups = frozenset(consumption.compatibility_groups)
                drawing[pool, consumption.counter_set].append((device.name, groups))
        for (pool, counter_set), members in drawing.items():
            sets = [groups for _, groups in members]
            if any(sets) and not frozenset.intersection(*sets):
                names = tuple(name for name, _ in members)
                yield GroupsMixed(pool, counter_set, names)

    def capacity(self) -> Iterator[Violation]:
        for id, holders in self._by_device.items():
            device = self._devices.get(id)
            shares = [allocated for allocated in holders if self._is_share(allocated)]
            if device is None or not shares:
                continue
            for name, capacity in device.capacity.items():
                amounts = [_nano(share.result.consumed_capacity.get(name, "0")) for share in shares]
                total = _nano(capacity.value)
                if sum(amounts) > total:
                    yield CapacityOverdrawn(id, name, _text(sum(amounts)), _text(total))
                for share, nano in zip(shares, amounts, strict=True):
                    if not _is_handed_out(nano, capacity.request_policy):
                        yield CapacityNotAllowed(id, share.claim, name, _text(nano))

    def constraints(self) -> Iterator[Violation]:
        for key, claim in self._claims.items():
            for number, constraint in enumerate(claim.spec.devices.constraints):
                bound = [
                    allocated
                    for allocated in self._results
                    if allocated.claim == key and _binds(constraint, allocated.result.request)
                ]
                if any(allocated.id not in self._devices for allocated in bound):
                    continue
                if not self._is_met(claim, constraint, bound):
                    yield ConstraintBroken(key, number, tuple(allocated.id for allocated in bound))

    def requests(self, new: set[ClaimKey]) -> Iterator[Violation]:
        for key, claim in self._claims.items():
            if key not in new:
                continue
            results = [result for result in self._results if result.claim == key]
            if len(results) > _RESULTS_LIMIT:
                yield WrongNumber(key, "", _RESULTS_LIMIT, len(results))
            yield from self._numbers(key, claim, results)
            yield from self._details(key, claim, results)

    def taints(self, new: set[ClaimKey]) -> Iterator[Violation]:
        if not self._features.device_taints:
            return
        for allocated in self._results:
            device = self._devices.get(allocated.id)
            if device is None or allocated.claim not in new:
                continue
            requested = _requested(self._claims[allocated.claim], allocated.result.request)
            for taint in device.taints:
                forbids = taint.effect in ("NoSchedule", "NoExecute")
                if forbids and not _is_tolerated(taint, requested.tolerations if requested else ()):
                    yield TaintIgnored(allocated.id, allocated.claim, taint.key)

    def _is_share(self, allocated: _AllocatedResult) -> bool:
        return self._features.consumable_capacity and allocated.result.share_id is not None

    def _allocated(self) -> Iterator[tuple[PoolId, dra.Device]]:
        for id, device in self._devices.items():
            if self._by_device.get(id):
                yield id.pool_id, device

    def _numbers(
        self, key: ClaimKey, claim: ResourceClaim, results: Sequence[_AllocatedResult]
    ) -> Iterator[Violation]:
        for request in claim.spec.devices.requests:
            names = [f"{request.name}/{sub.name}" for sub in request.first_available]
            names = names or [request.name]
            got = Counter(allocated.result.request for allocated in results)
            chosen = [name for name in names if got[name]]
            if len(chosen) != 1:
                yield WrongNumber(key, request.name, 1, len(chosen))
                continue
            requested, count = _requested(claim, chosen[0]), got[chosen[0]]
            if requested and requested.allocation_mode == "ExactCount" and requested.count != count:
                yield WrongNumber(key, chosen[0], requested.count, count)

    def _details(
        self, key: ClaimKey, claim: ResourceClaim, results: Sequence[_AllocatedResult]
    ) -> Iterator[Violation]:
        seen: set[tuple[DeviceId, str | None]] = set()
        for allocated in results:
            device = self._devices.get(allocated.id)
            if device is None:
                yield UnknownDevice(allocated.id, key)
                continue
            requested = _requested(claim, allocated.result.request)
            is_admin = isinstance(requested, dra.ExactDeviceRequest) and bool(
                requested.admin_access
            )
            if bool(allocated.result.admin_access) != is_admin:
                yield AdminAccessWrong(allocated.id, key)
            is_shareable = self._features.consumable_capacity and device.allow_multiple_allocations
            once = (allocated.id, allocated.result.request if is_shareable else None)
            if once in seen:
                yield DeviceRepeated(allocated.id, key)
            seen.add(once)

    def _is_met(
        self, claim: ResourceClaim, constraint: DeviceConstraint, bound: Sequence[_AllocatedResult]
    ) -> bool:
        name = constraint.match_attribute or constraint.distinct_attribute or ""
        if any(_derives(claim, allocated.result.request, name) for allocated in bound):
            return True
        ids = [allocated.id for allocated in bound]
        attributes = [_lookup(self._devices[id], id.driver, name) for id in ids]
        lists = self._features.list_type_attributes
        values = [_values(attribute, lists) for attribute in attributes if attribute]
        if len(values) < len(bound):
            return False
        if constraint.match_attribute is not None:
            return len(values) < 2 or bool(set.intersection(*values))
        return sum(map(len, values)) == len(set().union(*values))


def _newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    # Not `api.semantics.pools`: a fault there must not hide itself from the verifier.
    every_slice = list(slices)
    newest: dict[PoolId, int] = {}
    for resource_slice in every_slice:
        pool = resource_slice.pool_id
        newest[pool] = max(newest.get(pool, 0), resource_slice.spec.pool.generation)
    return [
        resource_slice
        for resource_slice in every_slice
        if newest[resource_slice.pool_id] == resource_slice.spec.pool.generation
    ]


def _nano(text: str) -> int:
    return quantity.parse(text).nano


def _text(nano: int) -> str:
    return str(quantity.Quantity(nano, quantity.QuantityFormat.BINARY_SI))


def _is_handed_out(nano: int, policy: dra.CapacityRequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and nano == _nano(policy.default)):
        return True
    if policy.valid_range is not None:
        allowed = policy.valid_range
        least = _nano(allowed.min or "0")
        if nano < least or (allowed.max is not None and nano > _nano(allowed.max)):
            return False
        return allowed.step is None or (nano - least) % _nano(allowed.step) == 0
    return not policy.valid_values or any(nano == _nano(value) for value in policy.valid_values)


def _binds(constraint: DeviceConstraint, request: str) -> bool:
    names = constraint.requests
    return not names or request in names or request.partition("/")[0] in names


def _requested(
    claim: ResourceClaim, name: str
) -> dra.ExactDeviceRequest | dra.DeviceSubRequest | None:
    parent, _, sub = name.partition("/")
    for request in claim.spec.devices.requests:
        if request.name == parent:
            if not sub:
                return request.exactly
            subrequests = request.first_available
            return next((subrequest for subrequest in subrequests if subrequest.name == sub), None)
    return None


def _derives(claim: ResourceClaim, request: str, attribute: str) -> bool:
    requested = _requested(claim, request)
    derived = requested.derived_attributes if requested else ()
    return any(definition.name == attribute for definition in derived)


def _is_tolerated(taint: Any, tolerations: Iterable[Any]) -> bool:
    # Not `api.semantics.tolerations`, for the same reason.
    return any(
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
        for toleration in tolerations
    )


def _lookup(device: dra.Device, driver: str, name: str) -> DeviceAttribute | None:
    attributes: Mapping[str, DeviceAttribute] = device.attributes
    own = name.removeprefix(f"{driver}/")
    return attributes.get(name, attributes.get(own))


def _values(attribute: DeviceAttribute, with_lists: bool) -> set[tuple[str, Any]]:
    """Return the values as (form, value); a value that cannot be compared equals no other."""
    forms = ["string", "int", "bool", "version"]
    for form in forms:
        members = getattr(attribute, f"{form}_values") if with_lists else ()
        if members:
            return {(form, member) for member in members}
    for form in forms:
        value = getattr(attribute, f"{form}_value")
        if value is not None:
            return {(form, value)}
    return {("incomparable", id(attribute))}

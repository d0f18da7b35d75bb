"""Changes that could make claims fit, as values that can be applied.

Most change a request of a claim. Some change the cluster: a claim ends, a class is corrected, a
feature gate is turned on. These are applied during a `with` block, in which only a new `Allocator`
sees them: an existing one may have cached results.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import requests
from dray.api import features
from dray.api.ids import ClaimKey
from dray.api.types import dra
from dray.api.types.dra import DeviceClaim, DeviceSelector, DeviceToleration

Body = dra.ExactDeviceRequest | dra.DeviceSubRequest
"""The content of a request or of one of its subrequests."""

Claims = Sequence[dra.ResourceClaim]
_Part = TypeVar("_Part")


class Rewriting(enum.StrEnum):
    """A kind of change to a selector."""

    NAME = "another name"
    DOMAIN = "another domain"
    FIELD = "capacity for attribute or the other way round"
    TYPE = "a constant of the right type"
    GUARD = "passes over devices without the attribute"
    SPELLING = "a value that is written otherwise"
    THRESHOLD = "a lower or higher threshold"
    VALUE = "another value"
    CLAUSE = "without one clause"
    SYNTAX = "a repaired syntax"


class SuggestedChange(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag=True):
    """One change, and a node on which the claims then fit."""

    node: str = ""

    def applied_to(self, claims: Claims) -> Claims:
        """Return the claims after the change."""
        return claims

    def applied_in(self, cluster: ClusterInventory) -> contextlib.AbstractContextManager[None]:
        """Apply the change to the cluster until the block ends."""
        return contextlib.nullcontext()


class ClaimChange(SuggestedChange, frozen=True, kw_only=True):
    """Changes the spec of one claim; `claim` is its position."""

    claim: int

    def applied_to(self, claims: Claims) -> Claims:
        changed = claims[self.claim]
        devices = self._changed(changed.spec.devices)
        spec = msgspec.structs.replace(changed.spec, devices=devices)
        changed = msgspec.structs.replace(changed, spec=spec)
        return _with_part(claims, self.claim, changed)

    def _changed(self, devices: DeviceClaim) -> DeviceClaim:
        raise NotImplementedError


class RequestChange(ClaimChange, frozen=True, kw_only=True):
    """Changes one request, or one of its alternatives as in `request/alternative`."""

    request: str

    def _changed(self, devices: DeviceClaim) -> DeviceClaim:
        changed = tuple(map(self._changed_request, devices.requests))
        return msgspec.structs.replace(devices, requests=changed)

    def _changed_request(self, request: dra.DeviceRequest) -> dra.DeviceRequest:
        parent, _, alternative = self.request.partition("/")
        if request.name != parent:
            return request
        if request.exactly is not None and not alternative:
            exactly = msgspec.structs.replace(request.exactly, **self._fields(request.exactly))
            return msgspec.structs.replace(request, exactly=exactly)
        changed = tuple(
            msgspec.structs.replace(config, **self._fields(config))
            if config.name == alternative
            else config
            for config in request.first_available
        )
        return msgspec.structs.replace(request, first_available=changed)

    def _fields(self, body: Body) -> dict[str, object]:
        """Return the changed fields of the request."""
        raise NotImplementedError


class ReplaceSelector(RequestChange, frozen=True, kw_only=True):
    """Rewrite one selector: `new` instead of `old`, or another text altogether."""

    index: int
    expression: str
    replacement: str
    how: Rewriting
    old: str = ""
    new: str = ""

    def _fields(self, body: Body) -> dict[str, object]:
        selector = DeviceSelector(dra.CELDeviceSelector(self.replacement))
        return {"selectors": _with_part(body.selectors, self.index, selector)}


class DropSelector(RequestChange, frozen=True, kw_only=True):
    index: int
    expression: str

    def _fields(self, body: Body) -> dict[str, object]:
        return {"selectors": _without_part(body.selectors, self.index)}


class TolerateTaint(RequestChange, frozen=True, kw_only=True):
    """Tolerate one taint, or without `taint` every taint."""

    taint: dra.DeviceTaint | None

    def _fields(self, body: Body) -> dict[str, object]:
        return {"tolerations": (*body.tolerations, self.toleration())}

    def toleration(self) -> DeviceToleration:
        taint = self.taint
        if taint is None:
            return DeviceToleration(operator="Exists")
        if not taint.value:
            return DeviceToleration(taint.key, "Exists", effect=taint.effect)
        return DeviceToleration(taint.key, "Equal", taint.value, taint.effect)


class FewerDevices(RequestChange, frozen=True, kw_only=True):
    """An exact count: fewer than requested, or instead of all."""

    count: int
    asked: int
    """0 for all."""

    def _fields(self, body: Body) -> dict[str, object]:
        return {"allocation_mode": requests.EXACT_COUNT, "count": self.count}


class LessCapacity(RequestChange, frozen=True, kw_only=True):
    """Other amounts of some capacities; those no longer requested are absent."""

    amounts: dict[str, str]
    asked: dict[str, str]

    def _fields(self, body: Body) -> dict[str, object]:
        return {"capacity": dra.CapacityRequirements(self.amounts) if self.amounts else None}


class OtherClass(RequestChange, frozen=True, kw_only=True):
    device_class: str
    asked: str

    def _fields(self, body: Body) -> dict[str, object]:
        return {"device_class_name": self.device_class}


class DropRequest(ClaimChange, frozen=True, kw_only=True):
    """Remove a request."""

    request: str

    def _changed(self, devices: DeviceClaim) -> DeviceClaim:
        rest = tuple(request for request in devices.requests if request.name != self.request)
        constraints = tuple(
            msgspec.structs.replace(constraint, requests=kept)
            for constraint in devices.constraints
            if (kept := self._kept(constraint.requests)) or not constraint.requests
        )
        config = tuple(
            msgspec.structs.replace(config, requests=kept)
            for config in devices.config
            if (kept := self._kept(config.requests)) or not config.requests
        )
        return DeviceClaim(rest, constraints, config)

    def _kept(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name.partition("/")[0] != self.request)


class ReplaceConstraint(ClaimChange, frozen=True, kw_only=True):
    """Another attribute for a constraint."""

    index: int
    attribute: str
    replacement: str

    def _changed(self, devices: DeviceClaim) -> DeviceClaim:
        constraint = devices.constraints[self.index]
        is_match = constraint.match_attribute is not None
        field = "match_attribute" if is_match else "distinct_attribute"
        changed = msgspec.structs.replace(constraint, **{field: self.replacement})
        constraints = _with_part(devices.constraints, self.index, changed)
        return msgspec.structs.replace(devices, constraints=constraints)


class DropConstraint(ClaimChange, frozen=True, kw_only=True):
    index: int
    attribute: str
    is_match: bool

    def _changed(self, devices: DeviceClaim) -> DeviceClaim:
        rest = _without_part(devices.constraints, self.index)
        return msgspec.structs.replace(devices, constraints=rest)


class DropClaim(SuggestedChange, frozen=True, kw_only=True):
    """Remove one of several claims."""

    claim: int
    name: ClaimKey

    def applied_to(self, claims: Claims) -> Claims:
        return _without_part(claims, self.claim)


class WaitForClaim(SuggestedChange, frozen=True, kw_only=True):
    """Nothing to change: the claims fit once this one has ended."""

    holder: ClaimKey

    def applied_in(self, cluster: ClusterInventory) -> contextlib.AbstractContextManager[None]:
        return without(cluster, self.holder)


class WaitForClaims(SuggestedChange, frozen=True, kw_only=True):
    """Nothing to change: the claims fit once all of these have ended."""

    holders: tuple[ClaimKey, ...]

    @contextlib.contextmanager
    def applied_in(self, cluster: ClusterInventory) -> Iterator[None]:
        with contextlib.ExitStack() as released:
            for holder in self.holders:
                released.enter_context(without(cluster, holder))
            yield


class Combined(SuggestedChange, frozen=True, kw_only=True):
    """Several changes, of which none helps by itself."""

    parts: tuple[SuggestedChange, ...]

    def applied_to(self, claims: Claims) -> Claims:
        for part in self.parts:
            claims = part.applied_to(claims)
        return claims

    @contextlib.contextmanager
    def applied_in(self, cluster: ClusterInventory) -> Iterator[None]:
        with contextlib.ExitStack() as applied:
            for part in self.parts:
                applied.enter_context(part.applied_in(cluster))
            yield


class ClusterChange(SuggestedChange, frozen=True, kw_only=True):
    """Changes the cluster for all claims, which only an administrator can do."""


class ReplaceClassSelector(ClusterChange, frozen=True, kw_only=True):
    """Rewrite a selector of a class."""

    device_class: str
    index: int
    expression: str
    replacement: str
    how: Rewriting
    old: str = ""
    new: str = ""

    def applied_in(self, cluster: ClusterInventory) -> contextlib.AbstractContextManager[None]:
        selector = DeviceSelector(dra.CELDeviceSelector(self.replacement))
        selectors = cluster.classes[self.device_class].spec.selectors
        return _with_selectors(
            cluster, self.device_class, _with_part(selectors, self.index, selector)
        )


class DropClassSelector(ClusterChange, frozen=True, kw_only=True):
    """Remove a selector of a class."""

    device_class: str
    index: int
    expression: str

    def applied_in(self, cluster: ClusterInventory) -> contextlib.AbstractContextManager[None]:
        selectors = cluster.classes[self.device_class].spec.selectors
        return _with_selectors(cluster, self.device_class, _without_part(selectors, self.index))


class EnableGate(ClusterChange, frozen=True, kw_only=True):
    """Turn on a feature gate, and those that it needs."""

    gate: str

    @contextlib.contextmanager
    def applied_in(self, cluster: ClusterInventory) -> Iterator[None]:
        before = cluster.features
        names = [self.gate, *features.GATES[self.gate].needs]
        on = {features.GATES[name].field: True for name in names}
        cluster.use_features(msgspec.structs.replace(before, **on))
        try:
            yield
        finally:
            cluster.use_features(before)


@contextlib.contextmanager
def _with_selectors(
    cluster: ClusterInventory, device_class: str, selectors: tuple[DeviceSelector, ...]
) -> Iterator[None]:
    """Give a class other selectors until the block ends."""
    before = cluster.classes
    spec = msgspec.structs.replace(before[device_class].spec, selectors=selectors)
    changed = msgspec.structs.replace(before[device_class], spec=spec)
    # Not put_class, which would invalidate the cached results of all allocators for nothing.
    cluster.classes = {**before, device_class: changed}
    try:
        yield
    finally:
        cluster.classes = before


@contextlib.contextmanager
def without(cluster: ClusterInventory, key: ClaimKey) -> Iterator[None]:
    """Release a claim until the block ends."""
    allocation = cluster.release(key)
    try:
        yield
    finally:
        if allocation is not None:
            cluster.record_allocation(key, allocation)


def _with_part(parts: Sequence[_Part], index: int, part: _Part) -> tuple[_Part, ...]:
    return (*parts[:index], part, *parts[index + 1 :])


def _without_part(parts: Sequence[_Part], index: int) -> tuple[_Part, ...]:
    return (*parts[:index], *parts[index + 1 :])

"""A search without any cleverness, to hold the allocator against.

Plain recursion over every combination in upstream's order, written from upstream's description
(structured/internal/incubating and, for alpha gates, experimental) and sharing nothing with
`dray.allocator`: no sets as integers, no shapes, no pruning, no memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dray.api.features import Features
from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.types.dra import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClass,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from dray.cel import device as cel
from dray.cel.runtime.values import CostExceeded, EvaluationError

Id = tuple[str, str, str]
HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check "
    "with has() for optional fields"
)


class UpstreamError(Exception):
    """What upstream would return as error."""


class _TooMany(Exception):
    """The options chosen so far leave no room in the result."""


@dataclass
class State:
    """What is allocated."""

    exclusive: set[Id] = field(default_factory=set)
    shared: dict[Id, dict[str, int]] = field(default_factory=dict)

    def has(self, id: Id) -> bool:
        return id in self.exclusive or id in self.shared


@dataclass
class Asked:
    """One request or subrequest."""

    request: str
    sub: str
    spec: ExactDeviceRequest | DeviceSubRequest
    count: int = 0
    everything: list[Candidate] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.request}/{self.sub}" if self.sub else self.request

    @property
    def own_name(self) -> str:
        return self.sub or self.request

    @property
    def is_admin(self) -> bool:
        return bool(getattr(self.spec, "admin_access", None))


@dataclass(frozen=True, eq=False)
class Candidate:
    """One device of the node."""

    resource_slice: ResourceSlice
    device: Device

    @property
    def id(self) -> Id:
        return self.resource_slice.spec.driver, self.resource_slice.spec.pool.name, self.device.name


@dataclass
class Pool:
    slices: list[ResourceSlice]
    usable: bool = True
    invalid: bool = False


class Upstream:
    """One attempt to allocate claims on a node whose slices are all local to it."""

    def __init__(
        self,
        slices: Sequence[ResourceSlice],
        classes: Mapping[str, DeviceClass],
        state: State,
        features: Features,
    ) -> None:
        self.classes = classes
        self.state = state
        self.features = features
        self.pools = _pools(slices, features)
        self.counters = self._available_counters()
        self.picked: dict[Id, set[int]] = {}
        self.picked_shares: dict[Id, list[dict[str, int]]] = {}
        self.charged: list[Candidate] = []
        self.results: list[list[tuple[str, Id, dict[str, str]]]] = []

    def allocate(
        self, claims: Sequence[ResourceClaim]
    ) -> list[list[tuple[str, Id, dict[str, str]]]] | None:
        """For each claim (request, device, consumed) in order; None if they do not fit."""
        self.claims = claims
        self.results = [[] for _ in claims]
        self.members: list[list[list[tuple[Asked, Candidate]]]] = [
            [[] for _ in claim.spec.devices.constraints] for claim in claims
        ]
        self.asked = [self._requests(claim) for claim in claims]
        try:
            found = self._request(0, 0)
        except _TooMany:
            raise UpstreamError("allocation max size exceeded") from None
        if found:
            return self.results
        if any(pool.invalid for _, pool in self.pools):
            raise UpstreamError("invalid resource pools were encountered")
        return None

    def _requests(self, claim: ResourceClaim) -> list[list[Asked]]:
        reference = _reference(claim)
        found = []
        least = 0
        for request in claim.spec.devices.requests:
            options = (
                [Asked(request.name, sub.name, sub) for sub in request.first_available]
                if request.first_available
                else [Asked(request.name, "", request.exactly or ExactDeviceRequest())]
            )
            for asked in options:
                self._count(reference, asked)
            least += min(asked.count for asked in options)
            found.append(options)
        if least > 32:
            raise UpstreamError(
                f"claim {reference}: number of requested devices {least} exceeds the claim limit "
                "of 32"
            )
        return found

    def _count(self, reference: str, asked: Asked) -> None:
        asked.count = asked.spec.count
        if asked.spec.allocation_mode != "All":
            return
        where = f"claim {reference}, request {asked.own_name}"
        for id, pool in self.pools:
            if not pool.usable:
                state = "invalid" if pool.invalid else "being updated"
                raise UpstreamError(
                    f"{where}: asks for all devices, but resource pool {'/'.join(id)} is currently "
                    f"{state}"
                )
            for resource_slice in pool.slices:
                for device in resource_slice.spec.devices:
                    candidate = Candidate(resource_slice, device)
                    if self._is_selected(reference, asked, candidate) and self._has_capacity(
                        asked, candidate, {}, []
                    ):
                        asked.everything.append(candidate)
        asked.count = len(asked.everything)

    def _request(self, claim: int, request: int) -> bool:
        if claim == len(self.claims):
            return True
        if request == len(self.asked[claim]):
            try:
                return self._request(claim + 1, 0)
            except _TooMany:
                return False
        options = self.asked[claim][request]
        if not options[0].sub:
            return self._device(claim, request, options[0], 0, 0)
        all_too_many = True
        for asked in options:
            try:
                found = self._device(claim, request, asked, 0, 0)
            except _TooMany:
                continue
            all_too_many = False
            if found:
                return True
        if all_too_many:
            raise _TooMany
        return False

    def _device(self, claim: int, request: int, asked: Asked, ordinal: int, start: int) -> bool:
        wants_all = asked.spec.allocation_mode == "All"
        if wants_all and not asked.everything:
            return False
        if ordinal >= asked.count:
            return self._request(claim, request + 1)
        if len(self.results[claim]) + asked.count - ordinal > 32:
            raise _TooMany
        if wants_all:
            candidate = asked.everything[ordinal]
            return self._take(claim, asked, candidate, must=True) and self._go_on(
                claim, request, asked, ordinal, 0, candidate
            )
        reference = _reference(self.claims[claim])
        for index, candidate in enumerate(self._devices()):
            if index < start or self._is_in_use(claim, asked, candidate.id):
                continue
            if not self._is_selected(reference, asked, candidate):
                continue
            if not self._has_capacity(
                asked,
                candidate,
                self.state.shared.get(candidate.id, {}),
                self.picked_shares.get(candidate.id, []),
            ):
                continue
            if self._take(claim, asked, candidate, must=False) and self._go_on(
                claim, request, asked, ordinal, index + 1, candidate
            ):
                return True
        return False

    def _go_on(
        self, claim: int, request: int, asked: Asked, ordinal: int, start: int, candidate: Candidate
    ) -> bool:
        found = False
        try:
            found = self._device(claim, request, asked, ordinal + 1, start)
        finally:
            if not found:
                self._give_back(claim, asked, candidate)
        return found

    def _devices(self) -> Iterator[Candidate]:
        for _, pool in self.pools:
            if pool.usable:
                for resource_slice in pool.slices:
                    for device in resource_slice.spec.devices:
                        yield Candidate(resource_slice, device)

    def _is_shareable(self, device: Device) -> bool:
        return self.features.consumable_capacity and bool(device.allow_multiple_allocations)

    def _is_in_use(self, claim: int, asked: Asked, id: Id) -> bool:
        if asked.is_admin:
            return claim in self.picked.get(id, ())
        return id in self.state.exclusive or bool(self.picked.get(id))

    def _is_selected(self, reference: str, asked: Asked, candidate: Candidate) -> bool:
        device_class = self.classes[asked.spec.device_class_name]
        if candidate.device.binding_conditions and not self.features.device_binding_conditions:
            return False
        of_class = f"class {device_class.metadata.name}"
        return self._matches(of_class, device_class.spec.selectors, candidate) and self._matches(
            f"claim {reference}", asked.spec.selectors, candidate
        )

    def _matches(self, whose: str, selectors: Any, candidate: Candidate) -> bool:
        for number, selector in enumerate(selectors):
            compiled = cel.compile_selector(
                selector.cel.expression,
                stored=True,
                consumable_capacity=self.features.consumable_capacity,
                list_type_attributes=self.features.list_type_attributes,
            )
            try:
                if not compiled.matches(
                    cel.view(candidate.resource_slice.spec.driver, candidate.device)
                ):
                    return False
            except (EvaluationError, CostExceeded) as error:
                text = str(error)
                hint = HINT if "no such key:" in text else ""
                raise UpstreamError(
                    f"{whose}: selector #{number} on device {'/'.join(candidate.id)}: "
                    f"CEL runtime error: {text}{hint}"
                ) from None
        return True

    def _demand(self, asked: Asked, device: Device) -> dict[str, Quantity]:
        wanted = asked.spec.capacity.requests if asked.spec.capacity else {}
        return {
            name: _consumed(wanted.get(name), capacity)
            for name, capacity in device.capacity.items()
        }

    def _has_capacity(
        self,
        asked: Asked,
        candidate: Candidate,
        held: Mapping[str, int],
        picked: Sequence[Mapping[str, int]],
    ) -> bool:
        if not self.features.consumable_capacity:
            return True
        capacities = candidate.device.capacity
        wanted = asked.spec.capacity.requests if asked.spec.capacity else {}
        if any(name not in capacities for name in wanted):
            return False
        for name, taken in self._demand(asked, candidate.device).items():
            if _is_forbidden(taken, capacities[name]):
                return False
            used = held.get(name, 0) + sum(share.get(name, 0) for share in picked)
            if used + taken.nano > quantity.parse(capacities[name].value).nano:
                return False
        return True

    def _take(self, claim: int, asked: Asked, candidate: Candidate, *, must: bool) -> bool:
        device, id = candidate.device, candidate.id
        is_shareable = self._is_shareable(device)
        if self._is_in_use(claim, asked, id) and not (is_shareable and asked.is_admin):
            return False
        pays = not (is_shareable and (id in self.state.shared or id in self.picked_shares))
        joins = self._joins_groups(candidate) and self._has_counters(candidate)
        if pays and device.consumes_counters and not joins:
            return False
        if self.features.device_taints and not _is_tolerated(device, asked):
            return False
        if not self._meets_constraints(claim, asked, candidate):
            if must:
                where = f"claim {_reference(self.claims[claim])}, request {asked.own_name}"
                raise UpstreamError(
                    f"{where}: cannot add device {'/'.join(id)} because a claim constraint would "
                    "not be satisfied"
                )
            return False
        if not self._has_capacity(
            asked, candidate, self.state.shared.get(id, {}), self.picked_shares.get(id, [])
        ):
            return False
        self._record(claim, asked, candidate, pays=pays)
        return True

    def _record(self, claim: int, asked: Asked, candidate: Candidate, *, pays: bool) -> None:
        id = candidate.id
        self.charged.append(candidate) if pays else self.charged.append(_NOTHING)
        for number in self._constraints_on(claim, asked):
            self.members[claim][number].append((asked, candidate))
        consumed = {}
        if self._is_shareable(candidate.device):
            demand = self._demand(asked, candidate.device)
            self.picked_shares.setdefault(id, []).append(
                {name: taken.nano for name, taken in demand.items()}
            )
            consumed = {name: str(taken) for name, taken in demand.items()}
        else:
            self.picked.setdefault(id, set()).add(claim)
        self.results[claim].append((asked.name, id, consumed))

    def _give_back(self, claim: int, asked: Asked, candidate: Candidate) -> None:
        self.results[claim].pop()
        self.charged.pop()
        for number in self._constraints_on(claim, asked):
            self.members[claim][number].pop()
        if self._is_shareable(candidate.device):
            shares = self.picked_shares[candidate.id]
            shares.pop()
            if not shares:
                del self.picked_shares[candidate.id]
        else:
            self.picked[candidate.id].discard(claim)

    def _available_counters(self) -> dict[tuple[str, ...], int]:
        available = {}
        for id, pool in self.pools:
            for resource_slice in pool.slices:
                for counter_set in resource_slice.spec.shared_counters:
                    for name, counter in counter_set.counters.items():
                        available[*id, counter_set.name, name] = quantity.parse(counter.value).nano
        for candidate in self._devices():
            if self.state.has(candidate.id):
                for key, nano in _draws(candidate):
                    available[key] -= nano
        return available

    def _has_counters(self, candidate: Candidate) -> bool:
        left = dict(self.counters)
        for item in (*self.charged, candidate):
            for key, nano in _draws(item):
                left[key] -= nano
        driver, pool, _ = candidate.id
        return all(nano >= 0 for key, nano in left.items() if key[:2] == (driver, pool))

    def _joins_groups(self, candidate: Candidate) -> bool:
        if not self.features.device_compatibility_groups:
            return True
        present = [device for device in self._devices() if self.state.has(device.id)]
        for mine in candidate.device.consumes_counters:
            groups = [
                frozenset(theirs.compatibility_groups)
                for item in (*present, *self.charged)
                if item is not _NOTHING and item.id[:2] == candidate.id[:2]
                for theirs in item.device.consumes_counters
                if theirs.counter_set == mine.counter_set
            ]
            if groups and not _are_compatible(groups, frozenset(mine.compatibility_groups)):
                return False
        return True

    def _constraints_on(self, claim: int, asked: Asked) -> Iterator[int]:
        for number, constraint in enumerate(self.claims[claim].spec.devices.constraints):
            names = constraint.requests
            if not names or asked.request in names or (asked.sub and asked.name in names):
                yield number

    def _meets_constraints(self, claim: int, asked: Asked, candidate: Candidate) -> bool:
        for number in self._constraints_on(claim, asked):
            constraint = self.claims[claim].spec.devices.constraints[number]
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            mine = self._value(asked, candidate, name)
            if mine is None:
                return False
            others = [self._value(*member, name) for member in self.members[claim][number]]
            if constraint.match_attribute is not None:
                fits = self._matches_all(mine, others)
            else:
                fits = self._differs_from_all(mine, others)
            if not fits:
                return False
        return True

    def _value(self, asked: Asked, candidate: Candidate, name: str) -> DeviceAttribute | None:
        for derived in asked.spec.derived_attributes:
            if derived.name == name:
                return self._derived(name, derived.expression, candidate)
        attributes = candidate.device.attributes
        if name in attributes:
            return attributes[name]
        domain, _, identifier = name.partition("/")
        return (
            attributes.get(identifier) if domain == candidate.resource_slice.spec.driver else None
        )

    def _derived(self, name: str, expression: str, candidate: Candidate) -> DeviceAttribute:
        compiled = cel.compile_derived_attribute(expression, stored=True)
        try:
            return compiled.evaluate(
                cel.view(candidate.resource_slice.spec.driver, candidate.device)
            )
        except EvaluationError as error:
            raise UpstreamError(
                f"evaluate derived attribute {name} on device {'/'.join(candidate.id)} failed: "
                f"{error}"
            ) from None

    def _matches_all(self, mine: DeviceAttribute, others: Sequence[DeviceAttribute | None]) -> bool:
        if self.features.list_type_attributes:
            common = _members(mine)
            for other in others:
                common &= _members(other)
            return bool(common)
        if not others:
            return True
        return bool(_scalar(mine)) and all(_scalar(other) == _scalar(mine) for other in others)

    def _differs_from_all(
        self, mine: DeviceAttribute, others: Sequence[DeviceAttribute | None]
    ) -> bool:
        if self.features.list_type_attributes:
            return bool(_members(mine)) and all(
                not _members(mine) & _members(other) for other in others
            )
        if not others:
            return True
        return bool(_scalar(mine)) and all(_scalar(other) != _scalar(mine) for other in others)


_NOTHING = Candidate(ResourceSlice(), Device())


def _pools(slices: Sequence[ResourceSlice], features: Features) -> list[tuple[Any, Pool]]:
    by_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
    for resource_slice in slices:
        by_pool.setdefault((resource_slice.spec.driver, resource_slice.spec.pool.name), []).append(
            resource_slice
        )
    found = []
    for id, of_pool in sorted(by_pool.items()):
        newest = max(resource_slice.spec.pool.generation for resource_slice in of_pool)
        of_pool = [
            resource_slice
            for resource_slice in of_pool
            if resource_slice.spec.pool.generation == newest
        ]
        wanted = of_pool[0].spec.pool.resource_slice_count
        of_pool.sort(key=lambda resource_slice: resource_slice.metadata.name)
        names = [
            device.name for resource_slice in of_pool for device in resource_slice.spec.devices
        ]
        if len(of_pool) != wanted:
            pool = Pool([], usable=False)
        elif len(names) != len(set(names)):
            pool = Pool([], usable=False, invalid=True)
        else:
            pool = Pool(of_pool)
        found.append((id, pool))
    binding = [item for item in found if _has_binding_conditions(item[1])]
    return [item for item in found if item not in binding] + binding


def _has_binding_conditions(pool: Pool) -> bool:
    return any(
        device.binding_conditions
        for resource_slice in pool.slices
        for device in resource_slice.spec.devices
    )


def _draws(candidate: Candidate) -> Iterator[tuple[tuple[str, ...], int]]:
    driver, pool, _ = candidate.id
    for consumption in candidate.device.consumes_counters:
        for name, counter in consumption.counters.items():
            key = (driver, pool, consumption.counter_set, name)
            yield key, quantity.parse(counter.value).nano


def _are_compatible(present: list[frozenset[str]], mine: frozenset[str]) -> bool:
    if not present[0]:
        return not mine
    common = present[0]
    for groups in present[1:]:
        if groups:
            common &= groups
    return bool(common & mine)


def _is_tolerated(device: Device, asked: Asked) -> bool:
    for taint in device.taints:
        if taint.effect not in ("NoSchedule", "NoExecute"):
            continue
        if not any(
            toleration.effect in ("", taint.effect)
            and toleration.key in ("", taint.key)
            and (toleration.operator == "Exists" or toleration.value == taint.value)
            for toleration in asked.spec.tolerations
        ):
            return False
    return True


def _consumed(wanted: str | None, capacity: DeviceCapacity) -> Quantity:
    """Policies of the tests are whole numbers, so there is no rounding of fractions."""
    policy = capacity.request_policy
    if wanted is None:
        return quantity.parse((policy and policy.default) or capacity.value)
    amount = quantity.parse(wanted)
    if policy is None:
        return amount
    if policy.valid_range is not None and policy.valid_range.min is not None:
        least = quantity.parse(policy.valid_range.min)
        if amount < least:
            return least
        if policy.valid_range.step is None:
            return amount
        step = quantity.parse(policy.valid_range.step).value()
        steps = -(-(amount.value() - least.value()) // step)
        return quantity.of(least.value() + steps * step)
    return next(
        (quantity.parse(value) for value in policy.valid_values if amount <= quantity.parse(value)),
        amount,
    )


def _is_forbidden(taken: Quantity, capacity: DeviceCapacity) -> bool:
    policy = capacity.request_policy
    if policy is None or policy.default == str(taken):
        return False
    if policy.valid_range is not None:
        limit = policy.valid_range.max
        return limit is not None and taken > quantity.parse(limit)
    values = [quantity.parse(value) for value in policy.valid_values]
    return bool(values) and taken not in values


def _scalar(attribute: DeviceAttribute | None) -> tuple[str, Any] | None:
    if attribute is None:
        return None
    for kind in ("string", "int", "bool", "version"):
        value = getattr(attribute, f"{kind}_value")
        if value is not None:
            return kind, value
    return None


def _members(attribute: DeviceAttribute | None) -> set[tuple[str, Any]]:
    if attribute is None:
        return set()
    for kind in ("int", "bool", "string", "version"):
        values = getattr(attribute, f"{kind}_values")
        if values:
            return {(kind, value) for value in values}
    scalar = _scalar(attribute)
    return {scalar} if scalar else set()


def _reference(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"

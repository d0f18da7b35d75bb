"""Consumable capacity: how much of a device a request consumes, by its policy, and what is left.

Follows incubating/consumable_capacity.go. Amounts are compared in nano units.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.checks.usage import DeviceHolders
from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.rejections import DeviceRejection, InsufficientCapacity
from dray.allocator.model.requests import Alternative
from dray.allocator.model.trail import Trail
from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.ids import DeviceId
from dray.api.types.dra import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity

_MAXIMUM_INT64 = 2**63 - 1
_REMEMBERED_LIMIT = 1 << 12
_SMALLEST = quantity.parse("1n")
_NOT_REPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"


class CapacityError(Exception):
    """An amount that cannot be computed; the text is upstream's."""


class Amount(NamedTuple):
    """The amount taken of one capacity, and the device's total in nano units."""

    taken: Quantity
    total: int
    nano: int
    """What is taken, in nano units."""


Demand = Mapping[str, Amount]
"""What one alternative takes of devices with equal capacities, by capacity."""


def demand(
    requested: Mapping[str, str] | None,
    capacities: Mapping[str, DeviceCapacity],
    *,
    fractional: bool,
) -> Demand | None:
    """Return what a request takes of each capacity, or None if the device lacks one.

    Raises CapacityError if an amount cannot be rounded or is negative.
    """
    needed = requested or {}
    if any(name not in capacities for name in needed):
        return None
    amounts = {}
    for name, capacity in capacities.items():
        text = needed.get(name)
        try:
            taken = consumed(
                quantity.parse(text) if text is not None else None, capacity, fractional=fractional
            )
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if taken.sign() < 0:
            raise CapacityError(f'capacity "{name}": capacity value is negative')
        amounts[name] = Amount(taken, quantity.parse(capacity.value).nano, taken.nano)
    return amounts


class RememberedDemands:
    """The demands of one request, computed once for each map of capacities.

    Interned slices share their maps (`inventory.interning`), so a fleet has few.
    """

    __slots__ = ("_fractional", "_remembered", "_requested")

    def __init__(self, requested: Mapping[str, str] | None, *, fractional: bool) -> None:
        self._requested = requested
        self._fractional = fractional
        self._remembered: dict[int, tuple[object, Demand | CapacityError | None]] = {}
        """By the identity of the map, which is kept with the demand, so that it stays its own."""

    def on(self, capacities: Mapping[str, DeviceCapacity]) -> Demand | None:
        """Return what the request takes, or None if a device with these capacities is too small.

        Raises CapacityError as `demand`.
        """
        remembered = self._remembered.get(id(capacities))
        if remembered is None:
            if len(self._remembered) >= _REMEMBERED_LIMIT:
                self._remembered.clear()
            remembered = capacities, self._compute(capacities)
            self._remembered[id(capacities)] = remembered
        _, found = remembered
        if isinstance(found, CapacityError):
            raise found.with_traceback(None)
        return found

    def _compute(self, capacities: Mapping[str, DeviceCapacity]) -> Demand | CapacityError | None:
        try:
            amounts = demand(self._requested, capacities, fractional=self._fractional)
        except CapacityError as error:
            return error
        if amounts is None or exceeds(amounts, capacities, fractional=self._fractional):
            return None
        return amounts


def consumed(requested: Quantity | None, capacity: DeviceCapacity, *, fractional: bool) -> Quantity:
    """Return the amount taken for a request: the default, or rounded up as the policy requires."""
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy else None
        return quantity.parse(capacity.value if default is None else default)
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_into_range(requested, policy.valid_range, fractional=fractional)
    # Validation requires ascending values, so the first that is large enough is the smallest.
    for text in policy.valid_values:
        value = quantity.parse(text)
        if requested <= value:
            return value
    return requested


def least(capacity: DeviceCapacity) -> Quantity:
    """Return the smallest amount that a request can take of a capacity."""
    policy = capacity.request_policy
    if policy is None:
        return min(_SMALLEST, quantity.parse(capacity.value))
    texts = [policy.default] if policy.default is not None else []
    if policy.valid_range is not None and policy.valid_range.min is not None:
        texts.append(policy.valid_range.min)
    else:
        texts += policy.valid_values
    return min(map(quantity.parse, texts), default=_SMALLEST)


def violates_policy(
    taken: Quantity, policy: CapacityRequestPolicy | None, *, fractional: bool
) -> bool:
    if policy is None or (policy.default is not None and _is_same(taken, policy.default)):
        return False
    if policy.valid_range is not None:
        return _is_outside(taken, policy.valid_range, fractional=fractional)
    if policy.valid_values:
        return all(taken != quantity.parse(text) for text in policy.valid_values)
    return False


def uses_milli(allowed: CapacityRequestPolicyRange, *, fractional: bool) -> bool:
    """Return whether a range is computed in thousandths: the gate is on, every bound is exact."""
    if not fractional:
        return False
    for text in (allowed.min, allowed.max, allowed.step):
        if text is not None and safe_milli(quantity.parse(text)) is None:
            return False
    return allowed.step is None or quantity.parse(allowed.step).milli_value() >= 1


def safe_milli(value: Quantity) -> int | None:
    """Return the value in thousandths, or None if precision would be lost."""
    milli = value.milli_value()
    return milli if milli * 10**6 == value.nano else None


def _is_same(taken: Quantity, default: str) -> bool:
    # Go compares the representation, so 1000m is not the default 1: violatesPolicy in
    # https://github.com/kubernetes/kubernetes/blob/release-1.37/staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go
    other = quantity.parse(default)
    return (
        taken == other
        and not taken.is_decimal
        and (taken.format, taken.exponent, taken.text) == (other.format, other.exponent, other.text)
    )


def _rounded_into_range(
    requested: Quantity, allowed: CapacityRequestPolicyRange, *, fractional: bool
) -> Quantity:
    least = quantity.parse(allowed.min or "0")
    if requested < least:
        return least
    if allowed.step is None:
        return requested
    step = quantity.parse(allowed.step)
    if uses_milli(allowed, fractional=fractional):
        return _rounded_in_milli(requested, least, step)
    if requested.nano > _MAXIMUM_INT64 * 10**9:
        raise CapacityError(f"{_NOT_REPRESENTABLE}: request {requested} exceeds MaxInt64")
    rounded = _next_step(requested.value(), least.value(), step.value())
    if rounded > _MAXIMUM_INT64:
        raise CapacityError(
            f"{_NOT_REPRESENTABLE}: rounding request {requested} up to the next step "
            "passes MaxInt64"
        )
    return quantity.of(rounded, step.format)


def _rounded_in_milli(requested: Quantity, least: Quantity, step: Quantity) -> Quantity:
    milli = safe_milli(requested)
    if milli is None:
        raise CapacityError(
            f"{_NOT_REPRESENTABLE}: request {requested} is not a representable milli value"
        )
    rounded = _next_step(milli, least.milli_value(), step.milli_value())
    if rounded > _MAXIMUM_INT64:
        raise CapacityError(
            f"{_NOT_REPRESENTABLE}: rounding request {requested} up to the next step "
            "passes the milli-value range"
        )
    if rounded % 1000 == 0:
        return quantity.of(rounded // 1000, step.format)
    return quantity.of_milli(rounded, step.format)


def _next_step(value: int, least: int, step: int) -> int:
    if step <= 0:
        raise CapacityError(f"{_NOT_REPRESENTABLE}: the step is not positive")
    return least + step * -(-(value - least) // step)


def _is_outside(taken: Quantity, allowed: CapacityRequestPolicyRange, *, fractional: bool) -> bool:
    if allowed.max is not None and taken > quantity.parse(allowed.max):
        return True
    if allowed.step is None:
        return False
    step, least = quantity.parse(allowed.step), quantity.parse(allowed.min or "0")
    if uses_milli(allowed, fractional=fractional):
        milli = safe_milli(taken)
        return milli is None or (milli - least.milli_value()) % step.milli_value() != 0
    return (taken.value() - least.value()) % (step.value() or 1) != 0


def exceeds(
    amounts: Demand, capacities: Mapping[str, DeviceCapacity], *, fractional: bool
) -> str | None:
    """Return the first capacity that is too small or whose policy forbids the amount, or None."""
    for name, amount in amounts.items():
        policy = capacities[name].request_policy
        taken = amount.taken
        if amount.nano > amount.total or violates_policy(taken, policy, fractional=fractional):
            return name
    return None


def rejection(
    device: DeviceId,
    requested: Mapping[str, str] | None,
    capacities: Mapping[str, DeviceCapacity],
    amounts: Demand | None,
    *,
    fractional: bool,
) -> DeviceRejection | None:
    """Return why the device could not serve the demand even if it were free, or None."""
    if amounts is None:
        missing = next(name for name in requested or () if name not in capacities)
        return rejections.CapacityMissing(device, missing)
    name = exceeds(amounts, capacities, fractional=fractional)
    if name is None:
        return None
    amount = amounts[name]
    if amount.nano > amount.total:
        return _insufficient(device, name, amount, amount.total)
    return rejections.CapacityAgainstPolicy(device, name, str(amount.taken))


def _insufficient(
    device: DeviceId,
    name: str,
    amount: Amount,
    available: int,
    holders: DeviceHolders | None = None,
) -> InsufficientCapacity:
    return InsufficientCapacity(
        device,
        name,
        needed=str(amount.taken),
        available=str(Quantity(available, amount.taken.format)),
        total=str(Quantity(amount.total, amount.taken.format)),
        holders=holders.claims() if holders else (),
    )


DemandOf = Callable[[Alternative, Candidate], Demand]
_NOTHING: Mapping[str, int] = {}


class Capacity(Check):
    """Checks that a device has enough capacity left for one more share."""

    name = rejections.CheckName.CAPACITY
    __slots__ = ("_demand_of", "_devices", "_holders_of", "_in_use", "_picked", "applies_to")

    def __init__(
        self,
        devices: Sequence[Candidate],
        device_holders: Callable[[Candidate], DeviceHolders | None],
        demand_of: DemandOf,
        *,
        shareable: int,
        shared: int,
    ) -> None:
        self._devices = devices
        self.applies_to = shareable | shared
        """Devices that are shared or may be. For others, used as a whole, eligibility is enough."""
        self._in_use = shared
        """Devices of which claims or picks have shares. Eligibility is enough for others here."""
        self._holders_of = device_holders
        self._demand_of = demand_of
        self._picked: dict[int, Mapping[str, int]] = {}
        """Amounts consumed by the picks so far, by device and capacity."""

    def take(self, slot: Slot, device: Candidate, trail: Trail) -> DeviceRejection | None:
        demand = self._demand_of(slot.alternative, device)
        exhausted = self._exhausted(demand, device)
        if exhausted is not None:
            return self._rejection(device, exhausted, demand[exhausted])
        if device.is_shareable:
            picked = self._picked.get(device.index)
            trail.push(self._restore, device.index, picked, self._in_use)
            self._in_use |= device.bit
            before = picked or _NOTHING
            self._picked[device.index] = {
                name: before.get(name, 0) + amount.nano for name, amount in demand.items()
            }
        return None

    def filter_candidates(self, slot: Slot, candidates: int, needed: int) -> int:
        kept = candidates
        rest = candidates & self._in_use
        while rest:
            bit = rest & -rest
            rest ^= bit
            device = self._devices[bit.bit_length() - 1]
            if self._exhausted(self._demand_of(slot.alternative, device), device) is not None:
                kept ^= bit
        return kept

    def state_key(self, device: Candidate) -> Hashable:
        holders = self._holders_of(device)
        consumed = holders.capacity if holders else _NOTHING
        picked = self._picked.get(device.index)
        return frozenset(consumed.items()), None if picked is None else frozenset(picked.items())

    def _exhausted(self, demand: Demand, device: Candidate) -> str | None:
        """Return the first capacity of which too little is left, or None."""
        holders = self._holders_of(device)
        consumed = holders.capacity if holders else _NOTHING
        picked = self._picked.get(device.index, _NOTHING)
        for name, amount in demand.items():
            if amount.nano + consumed.get(name, 0) + picked.get(name, 0) > amount.total:
                return name
        return None

    def _rejection(self, device: Candidate, name: str, amount: Amount) -> InsufficientCapacity:
        holders = self._holders_of(device)
        consumed = holders.capacity.get(name, 0) if holders else 0
        picked = self._picked.get(device.index, _NOTHING).get(name, 0)
        available = amount.total - consumed - picked
        return _insufficient(device.id, name, amount, available, holders)

    def _restore(self, index: int, picked: Mapping[str, int] | None, in_use: int) -> None:
        self._in_use = in_use
        if picked is None:
            del self._picked[index]
        else:
            self._picked[index] = picked

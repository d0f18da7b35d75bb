"""Rules for capacities, and for the policy that says which parts of a capacity may be requested."""

from __future__ import annotations

from typing import Final, NamedTuple

from dray.api.features import Features
from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.types import dra
from dray.validation import fields, lists

VALID_VALUES_MAX_ITEMS: Final = 10
_MAXIMUM_INT64 = 2**63 - 1
_UNIT_NANO = 10**9


def exclusive_capacity(capacity: dra.DeviceCapacity, path: fields.Path) -> fields.Errors:
    """Reject a request policy: a device for one claim has no capacity to share."""
    if capacity.request_policy is not None:
        yield fields.forbidden(path.child("requestPolicy"), "allowMultipleAllocations must be true")


def shared_capacity(
    capacity: dra.DeviceCapacity, path: fields.Path, features: Features
) -> fields.Errors:
    policy, path = capacity.request_policy, path.child("requestPolicy")
    if policy is None or not (policy.valid_values or policy.valid_range is not None):
        return
    if policy.valid_values and policy.valid_range is not None:
        yield fields.forbidden(
            path,
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" '
            "at the same time",
        )
        return
    form = "validValues" if policy.valid_values else "validRange"
    if policy.default is None:
        yield fields.required(path.child("default"), f"required when {form} is defined")
        return
    default, total = quantity.parse(policy.default), quantity.parse(capacity.value)
    if policy.valid_range is not None:
        yield from _range(policy.valid_range, default, total, path.child(form), features)
    else:
        values = [quantity.parse(text) for text in policy.valid_values]
        yield from _values(values, default, total, path.child(form), features)


def _values(
    values: list[Quantity],
    default: Quantity,
    total: Quantity,
    path: fields.Path,
    features: Features,
) -> fields.Errors:
    for index in range(1, len(values)):
        if values[index - 1] > values[index]:
            yield fields.invalid(
                path.index(index), str(values[index]), "values must be sorted in ascending order"
            )

    def option(value: Quantity, option_path: fields.Path) -> fields.Errors:
        if value > total:
            yield fields.invalid(
                option_path, str(value), f"option is larger than capacity value: {total}"
            )

    yield from lists.limited_set(
        values,
        VALID_VALUES_MAX_ITEMS,
        option,
        _decimal_text if features.fractional_capacity_range else _whole_text,
        path,
    )
    if default not in values or len(values) > VALID_VALUES_MAX_ITEMS:
        yield fields.invalid(
            path, str(default), "default value is not valid according to the requestPolicy"
        )


def _whole_text(value: Quantity) -> str:
    return str(value.value())


def _decimal_text(value: Quantity) -> str:
    """Format with as many decimals as upstream's number has: "1.5" is not "1.50"."""
    if value.exponent >= 0:
        return str(value.nano // _UNIT_NANO)
    whole, nano = divmod(abs(value.nano), _UNIT_NANO)
    fraction = f"{nano:09}"[: -value.exponent]
    return f"{'-' if value.nano < 0 else ''}{whole}.{fraction}"


class _Bound(NamedTuple):
    """A number of the policy, with the field that holds it."""

    field: str
    value: Quantity


def _range(
    valid_range: dra.CapacityRequestPolicyRange,
    default: Quantity,
    total: Quantity,
    path: fields.Path,
    features: Features,
) -> fields.Errors:
    if valid_range.min is None:
        yield fields.required(path.child("min"), "required when validRange is defined")
        return
    minimum = quantity.parse(valid_range.min)
    maximum = quantity.parse(valid_range.max) if valid_range.max is not None else None
    step = quantity.parse(valid_range.step) if valid_range.step is not None else None
    bounds = [_Bound("default", default), _Bound("min", minimum)]
    if maximum is not None:
        bounds.append(_Bound("max", maximum))
    if step is not None:
        bounds.append(_Bound("step", step))

    yield from _order(default, minimum, maximum, total, path)
    in_milli = features.fractional_capacity_range and any(
        bound.value.nano % _UNIT_NANO for bound in bounds
    )
    if in_milli:
        too_fine = list(_representable_in_milli(bounds, path))
        yield from too_fine
        if too_fine:
            return
    if step is not None:
        yield from _step(step, bounds, total, path, in_milli)


def _order(
    default: Quantity,
    minimum: Quantity,
    maximum: Quantity | None,
    total: Quantity,
    path: fields.Path,
) -> fields.Errors:
    if minimum > total:
        yield fields.invalid(
            path.child("min"), str(minimum), f"min is larger than capacity value: {total}"
        )
    if default < minimum:
        yield fields.invalid(
            path.child("default"), str(default), f"default is less than min: {minimum}"
        )
    if maximum is None:
        return
    if minimum > maximum:
        yield fields.invalid(path.child("max"), str(minimum), f"min is larger than max: {maximum}")
    if maximum > total:
        yield fields.invalid(
            path.child("max"), str(maximum), f"max is larger than capacity value: {total}"
        )
    if default > maximum:
        yield fields.invalid(
            path.child("default"), str(default), f"default is more than max: {maximum}"
        )


def _representable_in_milli(bounds: list[_Bound], path: fields.Path) -> fields.Errors:
    for field, value in bounds:
        if quantity.of_milli(value.milli_value()) != value:
            yield fields.invalid(
                path.child(field), str(value), "value cannot be represented as a milli value"
            )


def _representable_in_int64(bounds: list[_Bound], path: fields.Path) -> fields.Errors:
    for field, value in bounds:
        if value.sign() < 0:
            yield fields.invalid(
                path.child(field), str(value), "must be greater than or equal to 0"
            )
        elif value > quantity.of(_MAXIMUM_INT64):
            yield fields.invalid(
                path.child(field), str(value), f"must not be larger than {_MAXIMUM_INT64}"
            )


def _step(
    step: Quantity, bounds: list[_Bound], total: Quantity, path: fields.Path, in_milli: bool
) -> fields.Errors:
    """Require default and maximum to be whole steps above the minimum."""
    step_path = path.child("step")
    if step.sign() <= 0:
        yield fields.invalid(step_path, str(step), "must be greater than zero")
        return
    by_field = dict(bounds)
    minimum = by_field["min"]
    first = minimum + step
    if first > total:
        yield fields.invalid(
            step_path, str(step), f"one step {first} is larger than capacity value: {total}"
        )
    if not in_milli:
        out_of_range = list(_representable_in_int64(bounds, path))
        yield from out_of_range
        if out_of_range:
            return
    for field in ("default", "max"):
        value = by_field.get(field)
        if value is not None and _steps_remainder(value, minimum, step, in_milli):
            yield fields.invalid(
                step_path,
                str(value),
                f"value is not a multiple of a given step ({step}) from ({minimum})",
            )


def _steps_remainder(value: Quantity, minimum: Quantity, step: Quantity, in_milli: bool) -> int:
    if in_milli:
        return (value.milli_value() - minimum.milli_value()) % step.milli_value()
    return (value.value() - minimum.value()) % step.value()

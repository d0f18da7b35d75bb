"""Rules for LimitRange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from dray.api.formats import names, quantity
from dray.api.formats.quantity import Quantity
from dray.api.semantics import pod_resources
from dray.api.types import core
from dray.validation import fields, metadata
from dray.validation.pods import resources

TYPES: Final = ("Container", "PersistentVolumeClaim", "Pod")
_PATH: Final = fields.SPEC.child("limits")
_MAX_MILLI: Final = (2**63 - 1) // 1000


def limit_range(value: core.LimitRange) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    yield from _items(value)


def limit_range_update(new: core.LimitRange, old: core.LimitRange) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _items(new)


def _items(value: core.LimitRange) -> fields.Errors:
    seen: set[str] = set()
    for index, item in enumerate(value.spec.limits):
        path = _PATH.index(index)
        yield from _type(item.type, path.child("type"))
        yield from fields.unrepeated(path.child("type"), item.type, seen)
        yield from _names(item, path)
        yield from _relations(item, path)


def _type(value: str, path: fields.Path) -> fields.Errors:
    details = names.qualified_name_errors(value)
    yield from fields.invalid_details(path, value, details)
    if not details and "/" not in value and value not in TYPES:
        yield fields.invalid(path, value, "must be a standard limit type or fully qualified")


def _names(item: core.LimitRangeItem, path: fields.Path) -> fields.Errors:
    check: Callable[[str, fields.Path], fields.Errors] = resources.resource_name
    if item.type in ("Container", "Pod"):
        check = resources.container_resource_name
    of_pod = "may not be specified when `type` is 'Pod'"
    for name, amounts in (
        ("max", item.max),
        ("min", item.min),
        ("default", item.default),
        ("defaultRequest", item.default_request),
        ("maxLimitRequestRatio", item.max_limit_request_ratio),
    ):
        if amounts and item.type == "Pod" and name.startswith("default"):
            yield fields.forbidden(path.child(name), of_pod)
            continue
        for key in amounts:
            yield from check(key, path.child(name).key(key))
    if item.type == "PersistentVolumeClaim" and "storage" not in {*item.min, *item.max}:
        yield fields.required(
            path.child("limits"),
            "either minimum or maximum storage value is required, but neither was provided",
        )


class _Amounts(NamedTuple):
    """The bounds and defaults of one resource; None where there are none."""

    min: Quantity | None
    max: Quantity | None
    default: Quantity | None
    request: Quantity | None
    ratio: Quantity | None


def _relations(item: core.LimitRangeItem, path: fields.Path) -> fields.Errors:
    is_of_pod = item.type == "Pod"
    defaults = {} if is_of_pod else item.default
    requests = {} if is_of_pod else item.default_request
    several = (item.min, item.max, defaults, requests, item.max_limit_request_ratio)
    for name in dict.fromkeys(name for amounts in several for name in amounts):
        found = (amounts.get(name) for amounts in several)
        amounts = _Amounts(*(quantity.parse(text) if text else None for text in found))
        yield from _order(name, amounts, path)
        yield from _ratio(name, amounts, path)


def _order(name: str, found: _Amounts, path: fields.Path) -> fields.Errors:
    for field, shown, low, low_text, high, high_text in (
        ("min", found.min, found.min, "min", found.max, "max"),
        ("defaultRequest", found.request, found.min, "min", found.request, "default request"),
        ("defaultRequest", found.request, found.request, "default request", found.max, "max"),
        (
            *("defaultRequest", found.request, found.request, "default request"),
            *(found.default, "default limit"),
        ),
        ("default", found.min, found.min, "min", found.default, "default"),
        ("default", found.max, found.default, "default", found.max, "max"),
    ):
        if low is not None and high is not None and low > high:
            yield fields.invalid(
                path.child(field).key(name),
                str(shown),
                f"{low_text} value {low} is greater than {high_text} value {high}",
            )
    if pod_resources.is_overcommittable_resource(name):
        return
    if found.default is not None and found.request is not None and found.default != found.request:
        yield fields.invalid(
            path.child("defaultRequest").key(name),
            str(found.request),
            f"default value {found.default} must equal to defaultRequest value {found.request} "
            f"in {name}",
        )


def _ratio(name: str, found: _Amounts, path: fields.Path) -> fields.Errors:
    if found.ratio is None:
        return
    path = path.child("maxLimitRequestRatio").key(name)
    if found.ratio < quantity.of(1):
        yield fields.invalid(path, str(found.ratio), f"ratio {found.ratio} is less than 1")
    if found.min is None or found.max is None or not found.min.sign():
        return
    most = found.max.as_float() / found.min.as_float()
    if found.ratio.as_float() > most:
        yield fields.invalid(
            path, str(found.ratio), f"ratio {found.ratio} is greater than max/min = {most:f}"
        )

"""Rules for DeviceClass, and for the selectors and configuration that classes share with claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from dray.api.features import Features
from dray.api.formats import names
from dray.api.semantics import pod_resources
from dray.api.types import dra
from dray.cel import device
from dray.validation import fields, identifiers, lists, metadata

SELECTORS_MAX_ITEMS: Final = 32
CONFIGURATIONS_MAX_ITEMS: Final = 32
EXPRESSION_MAX_BYTES: Final = 10 * 1024
EXPRESSION_MAX_COST: Final = 1_000_000
PARAMETERS_MAX_BYTES: Final = 10 * 1024
SELECTORS_MAX_WORK: Final = 96 * 1024
"""Bytes of the selectors of one object; the slowest take less than a second to compile."""
EXPRESSION_WORK: Final = 32
CALL_WORK: Final = 16
"""What an expression, and each call or bracket in it, takes besides its text, in bytes of text."""


def device_class(value: dra.DeviceClass, features: Features) -> fields.Errors:
    yield from _metadata(value)
    yield from _spec(value.spec, None, features)


def device_class_update(
    new: dra.DeviceClass, old: dra.DeviceClass, features: Features
) -> fields.Errors:
    yield from _metadata(new)
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _spec(new.spec, old.spec, features)


def _metadata(value: dra.DeviceClass) -> fields.Errors:
    name, path = value.metadata.name, fields.METADATA
    if not name:
        yield metadata.name_missing(path)
    else:
        for detail in names.dns_subdomain_errors(name, "bytes"):
            yield fields.invalid(
                path.child("name"), name, detail, origin=identifiers.LONG_NAME, covered=True
            )
    yield from metadata.nameless(value.metadata, namespaced=False, path=path)
    yield from metadata.finalizers_known(value.metadata.finalizers, path.child("finalizers"))


def _spec(
    spec: dra.DeviceClassSpec, old: dra.DeviceClassSpec | None, features: Features
) -> fields.Errors:
    """Check a spec, except for unchanged parts, which were valid when they were stored."""
    path = fields.SPEC
    selectors_stored = old is not None and old.selectors == spec.selectors
    if not selectors_stored and is_too_much_work(spec.selectors):
        yield too_much_work(path.child("selectors"))
        return
    config_stored = old is not None and old.config == spec.config
    yield from selectors(
        spec.selectors, path.child("selectors"), features, is_stored=selectors_stored
    )
    yield from lists.limited(
        spec.config,
        CONFIGURATIONS_MAX_ITEMS,
        lambda config, config_path: opaque_configuration(
            config.opaque, config_path, is_stored=config_stored
        ),
        path.child("config"),
        size_covered=True,
    )
    name = spec.extended_resource_name
    if name is not None and not pod_resources.is_extended_resource(name):
        yield fields.invalid(
            path.child("extendedResourceName"),
            name,
            "must be a valid extended resource name",
            origin=identifiers.EXTENDED_RESOURCE_NAME,
            covered=True,
        )


def selectors(
    values: tuple[dra.DeviceSelector, ...],
    path: fields.Path,
    features: Features,
    *,
    is_stored: bool = False,
) -> fields.Errors:
    def selector(value: dra.DeviceSelector, value_path: fields.Path) -> fields.Errors:
        value_path = value_path.child("cel")
        if value.cel is None:
            yield fields.required(value_path)
        elif not is_stored:
            yield from _expression(value.cel.expression, value_path.child("expression"), features)

    yield from lists.limited(values, SELECTORS_MAX_ITEMS, selector, path, size_covered=True)


def is_too_much_work(selectors: Iterable[dra.DeviceSelector]) -> bool:
    """Return whether selectors take too long to compile; those that are equal count once."""
    expressions = {selector.cel.expression for selector in selectors if selector.cel is not None}
    work = sum(
        len(expression) + EXPRESSION_WORK + CALL_WORK * expression.count("(")
        for expression in expressions
    )
    return work > SELECTORS_MAX_WORK


def too_much_work(path: fields.Path) -> fields.FieldError:
    """Return an error that Kubernetes does not have: it takes seconds to compile such selectors."""
    return fields.forbidden(
        path,
        "too complex, the CEL expressions of all selectors together exceed "
        f"{SELECTORS_MAX_WORK} bytes, where each counts {EXPRESSION_WORK} bytes more, "
        f"and each opening parenthesis {CALL_WORK}",
    )


def _expression(expression: str, path: fields.Path, features: Features) -> fields.Errors:
    if is_too_long(expression):
        yield fields.too_long(path, EXPRESSION_MAX_BYTES)
        return
    compiled = device.compile_selector(
        expression,
        stored=False,
        consumable_capacity=features.consumable_capacity,
        list_type_attributes=features.list_type_attributes,
    )
    if compiled.error is not None:
        yield compile_error(compiled.error, expression, path)
    elif compiled.estimated_cost > EXPRESSION_MAX_COST:
        yield too_complex(path)


def is_too_long(expression: str) -> bool:
    return len(expression.encode()) > EXPRESSION_MAX_BYTES


def too_complex(path: fields.Path) -> fields.FieldError:
    return fields.forbidden(path, "too complex, exceeds cost limit")


def compile_error(
    error: device.CompileError, expression: str, path: fields.Path
) -> fields.FieldError:
    if error.kind == "Invalid":
        return fields.invalid(path, expression, error.detail)
    return fields.internal_error(path, error.detail)


def opaque_configuration(
    config: dra.OpaqueDeviceConfiguration | None, path: fields.Path, *, is_stored: bool
) -> fields.Errors:
    path = path.child("opaque")
    if config is None:
        yield fields.required(path)
        return
    yield from identifiers.covered_driver_name(config.driver, path.child("driver"))
    maximum = None if is_stored else PARAMETERS_MAX_BYTES
    yield from raw_object(config.parameters, path.child("parameters"), maximum)


def raw_object(value: Any, path: fields.Path, max_bytes: int | None) -> fields.Errors:
    """Check JSON of a driver: it must be an object, and not too large."""
    if value is msgspec.UNSET or value is None:
        yield fields.required(path)
    elif max_bytes is not None and len(msgspec.json.encode(value)) > max_bytes:
        yield fields.too_long(path, max_bytes)
    elif not isinstance(value, dict):
        yield fields.invalid(path, fields.VALUE_OMITTED, "must be a valid JSON object")

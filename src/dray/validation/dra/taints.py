"""Rules for device taints, tolerations and DeviceTaintRule."""

from __future__ import annotations

from typing import Final

from dray.api.types import dra
from dray.api.well_known import NO_EXECUTE, NO_SCHEDULE
from dray.validation import fields, identifiers, metadata

EFFECTS: Final = (NO_EXECUTE, NO_SCHEDULE, "None")
OPERATORS: Final = ("Equal", "Exists")
RULE_CONDITIONS_MAX_ITEMS: Final = 8


def taint_rule(rule: dra.DeviceTaintRule) -> fields.Errors:
    yield from metadata.created(rule.metadata, namespaced=False)
    yield from _rule_spec(rule.spec, None)


def taint_rule_update(new: dra.DeviceTaintRule, old: dra.DeviceTaintRule) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _rule_spec(new.spec, old.spec)


def taint_rule_status_update(new: dra.DeviceTaintRule, old: dra.DeviceTaintRule) -> fields.Errors:
    path = fields.STATUS.child("conditions")
    conditions = new.status.conditions
    yield from metadata.updated(new.metadata, old.metadata)
    yield from metadata.conditions(conditions, path)
    yield from fields.limited_items(path, conditions, RULE_CONDITIONS_MAX_ITEMS)


def _rule_spec(spec: dra.DeviceTaintRuleSpec, old: dra.DeviceTaintRuleSpec | None) -> fields.Errors:
    if spec.device_selector is not None:
        yield from _selector(spec.device_selector, fields.SPEC.child("deviceSelector"))
    yield from taint(spec.taint, fields.SPEC.child("taint"), old.taint if old else None)


def _selector(selector: dra.DeviceTaintSelector, path: fields.Path) -> fields.Errors:
    if selector.driver is not None:
        yield from identifiers.driver_name(selector.driver, path.child("driver"))
    if selector.pool is not None:
        yield from identifiers.pool_name(selector.pool, path.child("pool"))
    if selector.device is not None:
        yield from identifiers.dns_label(selector.device, path.child("device"))


def taint(
    value: dra.DeviceTaint, path: fields.Path, old: dra.DeviceTaint | None = None
) -> fields.Errors:
    yield from identifiers.label_name(value.key, path.child("key"))
    if value.value:
        yield from identifiers.label_value(value.value, path.child("value"))
    if old is None or old.effect != value.effect:
        yield from fields.required_one_of(path.child("effect"), value.effect, EFFECTS, covered=True)


def toleration(value: dra.DeviceToleration, path: fields.Path) -> fields.Errors:
    if value.key:
        yield from fields.covered(identifiers.label_name(value.key, path.child("key")))
    if value.operator == "Exists":
        if value.value:
            yield fields.invalid(
                path.child("value"), value.value, "must be empty for operator `Exists`"
            )
    elif value.operator == "Equal":
        yield from identifiers.label_value(value.value, path.child("value"))
    else:
        yield from fields.required_one_of(
            path.child("operator"), value.operator, OPERATORS, covered=True
        )
    if value.effect:
        yield from fields.one_of(path.child("effect"), value.effect, EFFECTS, covered=True)

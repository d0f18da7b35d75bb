"""Rules for label selectors, and whether a selector matches labels."""

from __future__ import annotations

from dray.api import meta
from dray.validation import fields, identifiers, lists


def label_selector(selector: meta.LabelSelector | None, path: fields.Path) -> fields.Errors:
    if selector is None:
        return
    yield from identifiers.labels(selector.match_labels, path.child("matchLabels"))
    yield from lists.each(selector.match_expressions, _requirement, path.child("matchExpressions"))


def _requirement(requirement: meta.LabelSelectorRequirement, path: fields.Path) -> fields.Errors:
    values = path.child("values")
    if requirement.operator in ("In", "NotIn"):
        if not requirement.values:
            yield fields.required(values, "must be specified when `operator` is 'In' or 'NotIn'")
    elif requirement.operator in ("Exists", "DoesNotExist"):
        if requirement.values:
            yield fields.forbidden(
                values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
    else:
        yield fields.invalid(
            path.child("operator"), requirement.operator, "not a valid selector operator"
        )
    yield from identifiers.label_name(requirement.key, path.child("key"))
    yield from lists.each(requirement.values, identifiers.label_value, values)


def is_empty(selector: meta.LabelSelector) -> bool:
    return not (selector.match_labels or selector.match_expressions)

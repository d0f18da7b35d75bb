"""Rules for label selectors and node selectors."""

from __future__ import annotations

from dray.api.types import meta
from dray.validation import fields, identifiers, lists


def label_selector(selector: meta.LabelSelector | None, path: fields.Path) -> fields.Errors:
    if selector is None:
        return
    yield from identifiers.labels(selector.match_labels, path.child("matchLabels"))
    yield from lists.each_item(
        selector.match_expressions, _requirement, path.child("matchExpressions")
    )


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
    yield from lists.each_item(requirement.values, identifiers.label_value, values)


def is_empty(selector: meta.LabelSelector) -> bool:
    return not (selector.match_labels or selector.match_expressions)


def node_selector(selector: meta.NodeSelector, path: fields.Path) -> fields.Errors:
    path = path.child("nodeSelectorTerms")
    if not selector.node_selector_terms:
        yield fields.required(path, "must have at least one node selector term")
    yield from lists.each_item(selector.node_selector_terms, term, path)


def term(
    value: meta.NodeSelectorTerm, path: fields.Path, *, any_label_value: bool = False
) -> fields.Errors:
    for index, requirement in enumerate(value.match_expressions):
        requirement_path = path.child("matchExpressions").index(index)
        yield from _expression(requirement, requirement_path)
        if not any_label_value:
            yield from _label_values(requirement.values, requirement_path.child("values"))
    yield from lists.each_item(value.match_fields, _field, path.child("matchFields"))


def _expression(requirement: meta.NodeSelectorRequirement, path: fields.Path) -> fields.Errors:
    yield from _operator(requirement, path)
    yield from identifiers.label_name(requirement.key, path.child("key"))


def _label_values(values: tuple[str, ...], path: fields.Path) -> fields.Errors:
    errors = lists.each_item(values, identifiers.label_value, path)
    yield from fields.with_origin(errors, identifiers.LABEL_VALUE)


def _operator(requirement: meta.NodeSelectorRequirement, path: fields.Path) -> fields.Errors:
    operator, values = requirement.operator, requirement.values
    if operator in ("In", "NotIn"):
        if not values:
            yield fields.required(
                path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'"
            )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield fields.forbidden(
                path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield fields.required(
                path.child("values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            )
    else:
        yield _bad_operator(operator, path)


def _field(requirement: meta.NodeSelectorRequirement, path: fields.Path) -> fields.Errors:
    if requirement.operator not in ("In", "NotIn"):
        yield _bad_operator(requirement.operator, path)
    elif len(requirement.values) != 1:
        yield fields.required(
            path.child("values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )
    if requirement.key == "metadata.name":
        yield from lists.each_item(
            requirement.values, identifiers.object_name, path.child("values")
        )
    else:
        yield fields.invalid(path.child("key"), requirement.key, "not a valid field selector key")


def _bad_operator(operator: str, path: fields.Path) -> fields.FieldError:
    return fields.invalid(path.child("operator"), operator, "not a valid selector operator")


def true_if_set(value: bool | None, path: fields.Path) -> fields.Errors:
    if value is False:
        yield fields.invalid(path, value, "must be either unset or set to true")


def chosen(**ways: object) -> list[str]:
    """Return the fields that are set, each as `name`."""
    return [f"`{name}`" for name, value in ways.items() if value]

"""Suggests corrections for invalid fields."""

from __future__ import annotations

import re
from typing import Any

from dray.api.conversion.decoding import FieldProblem
from dray.api.features import Features
from dray.api.schema import field_types
from dray.api.schema.field_types import Form
from dray.cli.insight import selector_report
from dray.cli.lint.source_documents import Document
from dray.explain.selectors import spelling
from dray.validation.fields import FieldError

_QUANTITY = re.compile(r"([0-9.]+)\s*([KMGTPE])i?[bB]", re.IGNORECASE)
_ATTRIBUTE_FIELDS = ("matchAttribute", "distinctAttribute")


def on_error(error: FieldError, document: Document, features: Features) -> str:
    """Return a suggestion for a validation error, or ""."""
    if error.field.endswith("cel.expression") and isinstance(error.bad_value, str):
        rewrites = selector_report.make(error.bad_value, features).rewrites
        return f"Did you mean: {rewrites[0]}" if rewrites else ""
    if error.field.endswith(_ATTRIBUTE_FIELDS):
        return _attribute(document.value_at(error.field))
    if error.field == "spec.selector" and document.value_at("spec.template") is not None:
        return "Add spec.selector.matchLabels, and the same labels to spec.template.metadata."
    if error.field == "spec.template.metadata.labels":
        return "Give the template the labels that spec.selector.matchLabels asks for."
    return ""


def _attribute(name: Any) -> str:
    """Return a suggestion for an attribute name: a domain and a C identifier."""
    domain, slash, identifier = str(name).rpartition("/")
    if "-" not in identifier:
        return "" if slash else f"Name the domain as well: DRIVER/{identifier}"
    first, *others = identifier.split("-")
    meant = first + "".join(word.capitalize() for word in others)
    return f"Names of attributes have no hyphens. Did you mean {domain}{slash}{meant}?"


def on_problem(schema_type: str, problem: FieldProblem, document: Document) -> str:
    """Return a suggestion for a field that is unknown or has the wrong type, or ""."""
    if problem.kind == "unknown":
        return _unknown_field(schema_type, problem.path)
    match = _QUANTITY.fullmatch(str(document.value_at(problem.path)))
    if match:
        amount = f"{match[1]}{match[2].upper()}"
        return f"Did you mean {amount}i (powers of 1024) or {amount} (powers of 1000)?"
    return ""


def _unknown_field(schema_type: str, path: str) -> str:
    """Return where an unknown field belongs, or a similar name, or ""."""
    steps = re.sub(r"\[[^\]]*\]", "", path).split(".")
    owners = [schema_type]
    for step in steps[:-1]:
        field = field_types.fields(owners[-1]).get(step)
        if field is None or field.type.content.form is not Form.STRUCT:
            return ""
        owners.append(field.type.content.name)
    return _place(path, steps, owners)


def _place(path: str, steps: list[str], owners: list[str]) -> str:
    name = steps[-1]
    parent = path.removesuffix(name)
    beside = field_types.fields(owners[-1])
    if len(owners) > 1 and name in field_types.fields(owners[-2]):
        return f"It belongs one level up, beside {steps[-2]}."
    for child, field in beside.items():
        if field.type.form is Form.STRUCT and name in field_types.fields(field.type.name):
            return f"It belongs one level down: {parent}{child}.{name}"
    close = spelling.similar(name, beside)
    return f"Did you mean {close[0]}?" if close else f"There are: {', '.join(sorted(beside))}"

"""Validation of objects: errors become the causes of a 422."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dray.api import errors
from dray.api.conversion import canonical
from dray.api.features import Features
from dray.api.ids import GroupKind
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.validation import rules
from dray.validation.fields import FieldError


def on_create(
    kind: Kind, document: JsonObject, features: Features, version: str
) -> list[errors.Cause]:
    """Return the errors of a new object; their paths are those of the client's `version`."""
    value = _struct(kind, document)
    return causes(rules.validate_create(kind.kind, value, features, version))


def on_update(
    kind: Kind, new: JsonObject, old: JsonObject, features: Features, version: str
) -> list[errors.Cause]:
    values = _struct(kind, new), _struct(kind, old)
    return causes(rules.validate_update(kind.kind, *values, features, version))


def on_status_update(
    kind: Kind, new: JsonObject, old: JsonObject, features: Features, version: str
) -> list[errors.Cause]:
    values = _struct(kind, new), _struct(kind, old)
    return causes(rules.validate_status_update(kind.kind, *values, features, version))


def _struct(kind: Kind, document: JsonObject) -> Any:
    """Return the struct of an object; Go's nulls are absent fields."""
    struct = rules.struct_of(kind.kind)
    try:
        return msgspec.convert(document, struct)
    except msgspec.ValidationError:
        return msgspec.convert(canonical.prune_nulls(document), struct)


def refuse(group_kind: GroupKind, name: str, field_errors: Iterable[FieldError]) -> None:
    """Raise 422 if there are errors."""
    if listed := causes(field_errors):
        raise errors.invalid(group_kind, name, listed)


def causes(field_errors: Iterable[FieldError]) -> list[errors.Cause]:
    return [errors.Cause(error.field, str(error.type), error.body) for error in field_errors]

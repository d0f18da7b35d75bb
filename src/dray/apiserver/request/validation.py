"""Calls the validation rules of a kind and turns what they say into the causes of a 422."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dray.api import errors
from dray.api.conversion import canonical
from dray.api.features import Features
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.validation import rules
from dray.validation.fields import FieldError


def on_create(
    kind: Kind, document: JsonObject, features: Features, version: str
) -> list[errors.Cause]:
    """`version` is what the client speaks: paths are told in its fields."""
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
    """The object as validation reads it; Go's nulls are absences."""
    struct = rules.struct_of(kind.kind)
    try:
        return msgspec.convert(document, struct)
    except msgspec.ValidationError:
        return msgspec.convert(canonical.prune_nulls(document), struct)


def causes(found: Iterable[FieldError]) -> list[errors.Cause]:
    return [errors.Cause(error.field, str(error.type), error.body) for error in found]

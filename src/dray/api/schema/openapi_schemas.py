"""The types of the API as OpenAPI v3 schemas, named and shaped as Kubernetes publishes them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from dray.api.schema import field_types, merge_rules
from dray.api.schema.field_types import Field, Form, Omission, Type

Schema = dict[str, Any]

REFERENCE_PREFIX = "#/components/schemas/"
_GENERIC = "io.k8s.apimachinery.pkg."

# Types with a wire form of their own are components too.
_BUILTIN_NAMES = {
    Form.FIELD_SET: f"{_GENERIC}apis.meta.v1.FieldsV1",
    Form.INT_OR_STRING: f"{_GENERIC}util.intstr.IntOrString",
    Form.MICRO_TIME: f"{_GENERIC}apis.meta.v1.MicroTime",
    Form.QUANTITY: f"{_GENERIC}api.resource.Quantity",
    Form.RAW: f"{_GENERIC}runtime.RawExtension",
    Form.TIME: f"{_GENERIC}apis.meta.v1.Time",
}
BUILTINS: dict[str, Schema] = {
    _BUILTIN_NAMES[Form.FIELD_SET]: {
        "description": "A set of fields, as a tree whose keys name fields, list items and values.",
        "type": "object",
    },
    _BUILTIN_NAMES[Form.INT_OR_STRING]: {
        "description": "A 32-bit integer or a string.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    _BUILTIN_NAMES[Form.MICRO_TIME]: {
        "description": "A time in RFC 3339 form with six decimals of a second.",
        "format": "date-time",
        "type": "string",
    },
    _BUILTIN_NAMES[Form.QUANTITY]: {
        "description": "A number, exact to a nano unit, with a decimal suffix (100m, 2k) or a"
        " binary one (1Gi).",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    _BUILTIN_NAMES[Form.RAW]: {
        "description": "Any JSON object, kept as it is.",
        "type": "object",
    },
    _BUILTIN_NAMES[Form.TIME]: {
        "description": "A time in RFC 3339 form, to the second.",
        "format": "date-time",
        "type": "string",
    },
}

_SCALARS: dict[Form, Schema] = {
    Form.BOOLEAN: {"type": "boolean"},
    Form.BYTES: {"type": "string", "format": "byte"},
    Form.FLOAT: {"type": "number", "format": "double"},
    Form.INT32: {"type": "integer", "format": "int32"},
    Form.INT64: {"type": "integer", "format": "int64"},
    Form.STRING: {"type": "string"},
}
_ZEROS: dict[Form, object] = {
    Form.BOOLEAN: False,
    Form.FLOAT: 0,
    Form.INT32: 0,
    Form.INT64: 0,
    Form.STRING: "",
}


def component(type_name: str) -> str:
    """Return `io.k8s.api.resource.v1.ResourceClaim` for `resource.v1.ResourceClaim`."""
    if type_name.startswith("meta."):
        return f"{_GENERIC}apis.{type_name}"
    return f"io.k8s.api.{type_name}"


def builtin(form: Form) -> Schema:
    """Return the schema of a type with its own wire form; empty for other types."""
    return BUILTINS.get(_BUILTIN_NAMES.get(form, ""), {})


def reference(type_name: str) -> Schema:
    return {"$ref": REFERENCE_PREFIX + component(type_name)}


def reachable(type_names: Iterable[str]) -> set[str]:
    """Return the structures that `type_names` consist of, including themselves."""
    reached: set[str] = set()
    pending = list(type_names)
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += _structs_in(name)
    return reached


@functools.cache
def _structs_in(type_name: str) -> tuple[str, ...]:
    contents = (field.type.content for field in field_types.fields(type_name).values())
    return tuple({content.name for content in contents if content.form is Form.STRUCT})


def definition(type_name: str) -> Schema:
    """Return the schema of one structure."""
    fields = field_types.fields(type_name)
    result: Schema = {"description": field_types.text(type_name), "type": "object"}
    if fields:
        result["properties"] = {name: _property(type_name, field) for name, field in fields.items()}
    if required := [name for name, field in fields.items() if field.is_required]:
        result["required"] = required
    if type_name in merge_rules.ATOMIC_STRUCTS:
        result["x-kubernetes-map-type"] = "atomic"
    return {key: value for key, value in result.items() if value}


def description(type_name: str, field: Field) -> str:
    """Return the description of a field with the values it may have."""
    text = field_types.text(type_name, field.name)
    values = merge_rules.enum_values(field.type.content)
    if not values:
        return text
    listed = "\n".join(f' - `"{value}"`' for value in values)
    return f"{text}\n\n\nPossible enum values:\n{listed}".lstrip()


def _property(type_name: str, field: Field) -> Schema:
    result = _schema_of(field.type)
    text = description(type_name, field)
    default = _default(type_name, field)
    if "$ref" in result and (text or default is not None):
        result = {"allOf": [result]}
    if text:
        result["description"] = text
    if default is not None:
        result["default"] = default
    return result | _merging(type_name, field)


def _default(type_name: str, field: Field) -> object | None:
    """Return the value of an absent field: a key's default, or what Go writes out."""
    if (type_name, field.name) in merge_rules.KEY_DEFAULTS:
        return merge_rules.KEY_DEFAULTS[type_name, field.name]
    if field.type.is_pointer:
        return None
    if field.type.form is Form.STRUCT:
        return {}
    return _ZEROS.get(field.type.form) if field.omission is Omission.NEVER else None


def _schema_of(type: Type) -> Schema:
    if type.form in _BUILTIN_NAMES:
        return {"$ref": REFERENCE_PREFIX + _BUILTIN_NAMES[type.form]}
    if type.form is Form.STRUCT:
        return reference(type.name)
    if type.element is None:
        return _scalar_schema(type)
    element = _schema_of(type.element)
    if type.form is Form.LIST:
        return {"type": "array", "items": element}
    return {"type": "object", "additionalProperties": element}


def _scalar_schema(type: Type) -> Schema:
    result = dict(_SCALARS[type.form])
    if values := merge_rules.enum_values(type):
        result["enum"] = list(values)
    return result


def _merging(type_name: str, field: Field) -> Schema:
    """Return how the field merges, in the extensions that clients and server-side apply read."""
    rule = merge_rules.rule(type_name, field.name)
    result: Schema = {}
    is_collection = field.name == "items" and type_name.endswith("List")
    if field.type.form is Form.LIST and not is_collection:
        result["x-kubernetes-list-type"] = rule.list_type
    if rule.keys:
        result["x-kubernetes-list-map-keys"] = list(rule.keys)
    if rule.merge_key:
        result["x-kubernetes-patch-merge-key"] = rule.merge_key
    if rule.strategies:
        result["x-kubernetes-patch-strategy"] = ",".join(rule.strategies)
    if rule.is_atomic is not None:
        result["x-kubernetes-map-type"] = "atomic" if rule.is_atomic else "granular"
    return result

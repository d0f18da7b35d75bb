"""The text that `kubectl explain` prints for a kind or one of its fields.

kubectl makes it from the server's OpenAPI documents (kubectl, pkg/explain/v2); here it comes from
the schema itself, for dray's own command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dray.api.kinds import GroupVersionKind
from dray.api.schema import field_types, merge_rules, openapi_schemas
from dray.api.schema.field_types import Field, Form, Type

_WIDTH = 76
_MAXIMUM_LISTED_VALUES = 4

_TYPE_NAMES = {
    Form.BOOLEAN: "boolean",
    Form.BYTES: "string",
    Form.FIELD_SET: "FieldsV1",
    Form.FLOAT: "number",
    Form.INT32: "integer",
    Form.INT64: "integer",
    Form.INT_OR_STRING: "IntOrString",
    Form.MICRO_TIME: "string",
    Form.QUANTITY: "Quantity",
    Form.RAW: "RawExtension",
    Form.STRING: "string",
    Form.TIME: "string",
}


class UnknownField(LookupError):
    """The kind does not have the requested field."""

    def __init__(self, name: str) -> None:
        super().__init__(f'field "{name}" does not exist')


def explain(kind: GroupVersionKind, path: Sequence[str] = (), *, recursive: bool = False) -> str:
    """Return the text of `kubectl explain`.

    `path` leads through lists and maps without their items.
    """
    group = f"GROUP:      {kind.group}\n" if kind.group else ""
    head = f"{group}KIND:       {kind.kind}\nVERSION:    {kind.version}\n\n"
    type_ = field_types.type_named(kind.schema_type)
    text = field_types.text(kind.schema_type)
    for name in path:
        owner = type_.content.name
        field = field_types.fields(owner).get(name) if type_.content.form is Form.STRUCT else None
        if field is None:
            raise UnknownField(name)
        type_ = field.type
        text = "\n".join(_descriptions(owner, field))
    if path:
        head += f"FIELD: {path[-1]} <{type_name(type_)}>\n{_all_values(type_)}\n\n"
    return f"{head}DESCRIPTION:\n{_block(text or '<empty>', 4)}{_fields(type_, recursive)}\n"


def type_name(type: Type) -> str:
    """Return a readable name of a type: `[]DeviceRequest`, `map[string]Quantity`, `integer`."""
    if type.element is None:
        return _TYPE_NAMES.get(type.form) or type.name.rpartition(".")[2]
    prefix = "[]" if type.form is Form.LIST else "map[string]"
    return prefix + type_name(type.element)


def _descriptions(owner: str, field: Field) -> Iterator[str]:
    """Yield the description of the field, then that of its type."""
    content = field.type.content
    builtin = openapi_schemas.builtin(content.form)
    texts = [
        openapi_schemas.description(owner, field),
        field_types.text(content.name)
        if content.form is Form.STRUCT
        else builtin.get("description"),
    ]
    yield from (text for text in texts if text)


def _all_values(type: Type) -> str:
    values = merge_rules.enum_values(type)
    return "ENUM:" + "".join(f"\n    {value or _EMPTY}" for value in values) if values else ""


_EMPTY = '""'


def _fields(type: Type, recursive: bool) -> str:
    if type.content.form is not Form.STRUCT or not field_types.fields(type.content.name):
        return ""
    lines = _field_list(type.content.name, 1, recursive, frozenset())
    return "FIELDS:\n" + "".join(lines)


def _field_list(struct: str, level: int, recursive: bool, above: frozenset[str]) -> Iterator[str]:
    for field in field_types.fields(struct).values():
        yield _summary(field, level)
        content = field.type.content
        if not recursive:
            text = openapi_schemas.description(struct, field) or "<no description>"
            yield f"{_indent(_wrap(text, 78 - 2 * level), 2 * level + 2)}\n\n"
        elif content.form is Form.STRUCT and content.name not in above:
            yield from _field_list(content.name, level + 1, True, above | {content.name})


def _summary(field: Field, level: int) -> str:
    indent = " " * (2 * level)
    required = " -required-" if field.is_required else ""
    values = [value or _EMPTY for value in merge_rules.enum_values(field.type)]
    more = ["...."] if len(values) > _MAXIMUM_LISTED_VALUES else []
    listed = ", ".join(values[:_MAXIMUM_LISTED_VALUES] + more)
    enum = f"\n{indent}enum: {listed}" if values else ""
    return f"{indent}{field.name}\t<{type_name(field.type)}>{required}{enum}\n"


def _block(text: str, indent: int) -> str:
    return f"{_indent(_wrap(text, _WIDTH), indent)}\n{' ' * indent}\n"


def _indent(text: str, amount: int) -> str:
    pad = " " * amount
    return pad + text.replace("\n", f"\n{pad}")


def _wrap(text: str, width: int) -> str:
    return "\n".join(_wrap_line(line, width) for line in text.split("\n"))


def _wrap_line(line: str, width: int) -> str:
    """Break a line between words; spaces within a line stay, those at a break go."""
    wrapped = ""
    column = 0
    for space, word in re.findall(r"(\s*)(\S+)", line):
        column += len(space)
        if column + len(word) > width and column > 1:
            wrapped += f"\n{word}"
            column = len(word)
        else:
            wrapped += space + word
            column += len(word)
    return wrapped

"""Checks objects against their types: unknown, repeated and mistyped fields, in Go's words.

Kubernetes decodes requests with a fork of Go's encoding/json (sigs.k8s.io/json). This module finds
what that decoder would complain about, everywhere and not only at the first place, with the path of
each field. `refusal` picks the sentence with which an API server answers.

null stands for "absent" wherever a field may be absent, as in Go. Repeated fields are found in what
`gojson.decode` made.
"""

from __future__ import annotations

import functools
import json
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dray.api.formats import gojson, gotext, gotime, quantity, remembered
from dray.api.schema import field_types
from dray.api.schema.field_types import Type, WireForm

_INT32_LIMIT = 2**31
_INT64_LIMIT = 2**63
_MAXIMUM_STRICT_PROBLEMS = 100

_BASE64_DIGITS = string.ascii_letters + string.digits + "+/"

ProblemKind = Literal["mistyped", "malformed", "unknown", "repeated"]


class FieldProblem(NamedTuple):
    """One thing that is wrong with one field.

    `kind` is `mistyped` (a value of another JSON type, or out of range), `malformed` (no time, no
    quantity ...), `unknown` or `repeated`. `path` is `spec.devices.requests[0].name`.
    """

    kind: ProblemKind
    path: str
    message: str


def check(type_name: str, value: object) -> list[FieldProblem]:
    """Return everything that keeps `value` from being a well-formed object of the type."""
    errors = _struct_checker(type_name)(value)
    return [finding.to_problem() for finding in errors] if errors else []


def refusal(problems: Sequence[FieldProblem]) -> str:
    """Return the API server's message in strict mode, or an empty string for a valid object.

    A malformed value stops Go's decoder at once, a mistyped one is remembered until the end, and
    only when there is neither do unknown and repeated fields count.
    """
    for fatal in ("malformed", "mistyped"):
        for problem in problems:
            if problem.kind == fatal:
                return problem.message
    strict = strict_messages(problems)
    return f"strict decoding error: {', '.join(strict)}" if strict else ""


def strict_messages(problems: Sequence[FieldProblem]) -> list[str]:
    """Return the messages that are errors in strict mode and warnings otherwise."""
    messages = (problem.message for problem in problems if problem.kind in ("unknown", "repeated"))
    return list(dict.fromkeys(messages))[:_MAXIMUM_STRICT_PROBLEMS]


def without_unknown(type_name: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return the object less the fields that its type does not have.

    It must be well formed otherwise.
    """
    kept: dict[str, Any] = _known_part(field_types.type_named(type_name), value)
    return kept


def _known_part(type_: Type, value: Any) -> Any:
    if type_.form is WireForm.STRUCT and isinstance(value, dict):
        types = field_types.fields(type_.name)
        return {
            key: _known_part(types[key].type, item) for key, item in value.items() if key in types
        }
    if type_.form is WireForm.LIST and isinstance(value, list):
        return [_known_part(_element(type_), item) for item in value]
    if type_.form is WireForm.MAP and isinstance(value, dict):
        return {key: _known_part(_element(type_), item) for key, item in value.items()}
    return value


class _Finding:
    """A problem on its way up: each container it is in adds itself to the path."""

    __slots__ = ("_go_names", "_kind", "_sentence", "_steps", "_struct")

    def __init__(self, kind: ProblemKind, sentence: Callable[[str], str]) -> None:
        self._kind = kind
        self._sentence = sentence
        self._steps: list[str] = []
        self._go_names: list[str] = []
        self._struct = ""

    def under_field(self, struct: str, field: field_types.SchemaField) -> None:
        self._steps.append(f".{field.name}")
        self._go_names.append(field.name)
        if field.embedded:
            self._go_names.append(field.embedded)
        self._struct = self._struct or struct

    def under_key(self, key: str) -> None:
        self._steps.append(f".{key}")

    def under_index(self, index: int) -> None:
        self._steps.append(f"[{index}]")

    def to_problem(self) -> FieldProblem:
        path = "".join(reversed(self._steps)).removeprefix(".")
        go_path = ".".join([self._struct, *reversed(self._go_names)]) if self._struct else ""
        is_about_path = self._kind in ("unknown", "repeated")
        return FieldProblem(self._kind, path, self._sentence(path if is_about_path else go_path))


def _unknown(key: str) -> _Finding:
    return _at_key("unknown", "unknown field", key)


def _repeated(key: str) -> _Finding:
    return _at_key("repeated", "duplicate field", key)


def _at_key(kind: ProblemKind, words: str, key: str) -> _Finding:
    finding = _Finding(kind, lambda path: f"{words} {gotext.quote(path)}")
    finding.under_key(key)
    return finding


def _mistyped(
    value: object, go_type: str, *, kind: ProblemKind = "mistyped", literal: bool = False
) -> list[_Finding]:
    """Return Go's error for a value of the wrong JSON type.

    Numbers are quoted where one is expected.
    """
    what = _json_type(value)
    if literal and what == "number":
        what = f"number {json.dumps(value)}"

    def sentence(go_path: str) -> str:
        target = f"struct field {go_path}" if go_path else "value"
        return f"json: cannot unmarshal {what} into Go {target} of type {go_type}"

    return [_Finding(kind, sentence)]


def _malformed(message: str, kind: ProblemKind = "malformed") -> list[_Finding]:
    return [_Finding(kind, lambda _: message)]


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


Checker = Callable[[Any], "list[_Finding] | None"]
"""Says what is wrong with a value; None when nothing is."""


@functools.cache
def _checker(type: Type) -> Checker:
    match type.form:
        case WireForm.STRUCT:
            return _struct_checker(type.name)
        case WireForm.MAP:
            return _map_checker(type)
        case WireForm.LIST:
            return _list_checker(type)
        case WireForm.INT32:
            return _integer_checker(type, _INT32_LIMIT)
        case WireForm.INT64:
            return _integer_checker(type, _INT64_LIMIT)
        case WireForm.TIME:
            return _time_checker(gotime.SECONDS)
        case WireForm.MICRO_TIME:
            return _time_checker(gotime.MICROSECONDS)
        case WireForm.QUANTITY:
            return _check_quantity
        case WireForm.INT_OR_STRING:
            return _check_int_or_string
        case WireForm.BYTES:
            return _check_bytes
        case WireForm.RAW | WireForm.FIELD_SET:
            return lambda _: None
        case _:
            return _scalar_checker(type)


_PYTHON_TYPES: dict[WireForm, tuple[type, ...]] = {
    WireForm.STRING: (str,),
    WireForm.BOOLEAN: (bool,),
    WireForm.FLOAT: (float, int),
}


def _scalar_checker(type_: Type) -> Checker:
    accepted = _PYTHON_TYPES[type_.form]

    def check_scalar(value: Any) -> list[_Finding] | None:
        if type(value) in accepted or value is None:
            return None
        return _mistyped(value, type_.go)

    return check_scalar


def _integer_checker(type_: Type, limit: int) -> Checker:
    def check_integer(value: Any) -> list[_Finding] | None:
        if value is None or (type(value) is int and -limit <= value < limit):
            return None
        return _mistyped(value, type_.go, literal=True)

    return check_integer


class _Fields(NamedTuple):
    """The checks of a structure's fields; `settled` ones are checked by their Python type alone."""

    settled: Mapping[str, type]
    checkers: Mapping[str, Checker]


_SETTLED: dict[WireForm, type] = {WireForm.STRING: str, WireForm.BOOLEAN: bool}


@functools.cache
def _fields(struct: str) -> _Fields:
    fields = field_types.fields(struct).values()
    return _Fields(
        {field.name: _SETTLED[field.type.form] for field in fields if field.type.form in _SETTLED},
        {field.name: _checker(field.type) for field in fields},
    )


@functools.cache
def _struct_checker(struct: str) -> Checker:
    go_name = struct.rpartition(".")[2]
    go_type = field_types.type_named(struct).go

    def check_struct(value: Any) -> list[_Finding] | None:
        if not isinstance(value, dict):
            return None if value is None else _mistyped(value, go_type)
        # Looked up here and not outside, because structures may contain themselves.
        settled, checkers = _fields(struct)
        findings: list[_Finding] = []
        for key, item in value.items():
            if type(item) is settled.get(key):
                continue
            checker = checkers.get(key)
            if checker is None:
                findings.append(_unknown(key))
            elif errors := checker(item):
                for finding in errors:
                    finding.under_field(go_name, field_types.fields(struct)[key])
                findings += errors
        if isinstance(value, gojson.ObjectWithDuplicateKeys):
            findings += [_repeated(key) for key in value if key in value.repeated & checkers.keys()]
        return findings

    return check_struct


def _element(type_: Type) -> Type:
    assert type_.element is not None, type_
    return type_.element


def _element_checker(type_: Type) -> Checker:
    return _checker(_element(type_))


def _map_checker(type_: Type) -> Checker:
    check_element = _element_checker(type_)

    def check_map(value: Any) -> list[_Finding] | None:
        if not isinstance(value, dict):
            return None if value is None else _mistyped(value, type_.go)
        findings: list[_Finding] = []
        for key, item in value.items():
            if errors := check_element(item):
                for finding in errors:
                    finding.under_key(key)
                findings += errors
        if isinstance(value, gojson.ObjectWithDuplicateKeys):
            findings += [_repeated(key) for key in value if key in value.repeated]
        return findings

    return check_map


def _list_checker(type_: Type) -> Checker:
    check_element = _element_checker(type_)

    def check_list(value: Any) -> list[_Finding] | None:
        if not isinstance(value, list):
            return None if value is None else _mistyped(value, type_.go)
        findings: list[_Finding] = []
        for index, item in enumerate(value):
            if errors := check_element(item):
                for finding in errors:
                    finding.under_index(index)
                findings += errors
        return findings

    return check_list


def _check_int_or_string(value: Any) -> list[_Finding] | None:
    if type(value) is str or value is None:
        return None
    if type(value) is int and -_INT32_LIMIT <= value < _INT32_LIMIT:
        return None
    return _mistyped(value, "int32", kind="malformed", literal=True)


def _check_quantity(value: Any) -> list[_Finding] | None:
    """Check a quantity as Go does: it strips the quotes and parses the rest, even of an object."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        quantity.parse(text.strip())
    except quantity.QuantityError as error:
        return _malformed(str(error))
    return None


def _time_checker(layout: str) -> Checker:
    def check_time(value: Any) -> list[_Finding] | None:
        if value is None:
            return None
        if not isinstance(value, str):
            return _mistyped(value, "string", kind="malformed")
        message = _time_complaint(value, layout)
        return _malformed(message) if message else None

    return check_time


@remembered.for_short_texts(4096)
def _time_complaint(text: str, layout: str) -> str:
    try:
        gotime.parse(text, layout)
    except gotime.TimeError as error:
        return str(error)
    return ""


def _check_bytes(value: Any) -> list[_Finding] | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return _mistyped(value, "[]uint8")
    offset = _first_bad_byte(value.replace("\r", "").replace("\n", ""))
    if offset is None:
        return None
    return _malformed(f"illegal base64 data at input byte {offset}", kind="mistyped")


def _first_bad_byte(text: str) -> int | None:
    """Return the offset of the first bad byte of base64, or None.

    As Go, encoding/base64, decodeQuantum.
    """
    padding = text.lstrip(_BASE64_DIGITS)
    digits = len(text) - len(padding)
    in_last_quantum = digits % 4
    if not padding:
        return digits - in_last_quantum if in_last_quantum else None
    if padding[0] != "=" or in_last_quantum < 2:
        return digits
    expected = "=" * (4 - in_last_quantum)
    if padding.startswith(expected):
        return digits + len(expected) if padding != expected else None
    return len(text) if padding == "=" else digits

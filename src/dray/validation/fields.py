"""Field paths and field errors, with their messages.

Types, order of words and quoting are those of Kubernetes (apimachinery, util/validation/field),
but a struct is shown as it is on the wire: Kubernetes prints its internal Go struct instead.
An error keeps the bad value itself; its text is made on demand.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Final, TypeVar

import msgspec

from dray.api.formats import gotext
from dray.validation import equality

Value = TypeVar("Value")

_KEPT_INDEXES = 8
_NOTHING: dict[str | int, Path] = {}


class Path:
    """The path from an object to one of its fields, as `spec.devices.requests[0].name`.

    A path that is `kept` caches those below it, since every object has the same fields. Paths below
    a map's key are not cached: keys are unlimited.
    """

    __slots__ = ("_below", "_parent", "_step")

    def __init__(self, step: str, parent: Path | None = None, *, kept: bool = False) -> None:
        self._step = step
        self._parent = parent
        self._below: dict[str | int, Path] = {} if kept else _NOTHING

    def child(self, name: str) -> Path:
        try:
            return self._below[name]
        except KeyError:
            return self._new(f".{name}" if self is not ROOT else name, name)

    def index(self, index: int) -> Path:
        try:
            return self._below[index]
        except KeyError:
            return self._new(f"[{index}]", index)

    def _new(self, step: str, name: str | int) -> Path:
        parent = self if self is not ROOT else None
        if self._below is _NOTHING or (isinstance(name, int) and name >= _KEPT_INDEXES):
            return Path(step, parent)
        kept = self._below[name] = Path(step, parent, kept=True)
        return kept

    def key(self, key: str) -> Path:
        return Path(f"[{key}]", self)

    def __str__(self) -> str:
        return self._step if self._parent is None else f"{self._parent}{self._step}"


ROOT: Final = Path("", kept=True)
METADATA: Final = Path("metadata", kept=True)
SPEC: Final = Path("spec", kept=True)
STATUS: Final = Path("status", kept=True)
WHOLE_OBJECT: Final = Path("[]")
"""How Kubernetes writes a path without any step."""


class ErrorType(enum.StrEnum):
    """The machine-readable reason: `reason` of a cause in a Status."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    INTERNAL = "InternalError"


_WORDS = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.INTERNAL: "Internal error",
}
_WITHOUT_VALUE = frozenset(
    (ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL)
)

VALUE_OMITTED: Final = "<value omitted>"
"""Stands for a value that is too large to be shown."""

NO_VALUE: Final = object()
"""For an error about what is missing: the message shows no value at all."""


class FieldError(msgspec.Struct, frozen=True, eq=False):
    """One thing that is wrong.

    `origin` names the rule. An error that is `covered` is also found by a declarative rule, whose
    error takes its place.
    """

    type: ErrorType
    path: Path
    detail: str = ""
    bad_value: Any = None
    origin: str = ""
    covered: bool = False

    @property
    def field(self) -> str:
        return str(self.path)

    @property
    def body(self) -> str:
        """The message without the field: `message` of a cause in a Status."""
        words = _WORDS[self.type]
        if self.type not in _WITHOUT_VALUE and self.bad_value is not NO_VALUE:
            words = f"{words}: {_printed(self.bad_value)}"
        return f"{words}: {self.detail}" if self.detail else words

    @property
    def message(self) -> str:
        return f"{self.path}: {self.body}"

    def __str__(self) -> str:
        return self.message


Errors = Iterator[FieldError]
"""What a rule returns: it yields every error it finds."""


def required(
    path: Path, detail: str = "", *, origin: str = "", covered: bool = False
) -> FieldError:
    return FieldError(ErrorType.REQUIRED, path, detail, "", origin, covered)


def invalid(
    path: Path, value: Any, detail: str, *, origin: str = "", covered: bool = False
) -> FieldError:
    return FieldError(ErrorType.INVALID, path, detail, value, origin, covered)


def not_supported(
    path: Path, value: str, supported: Sequence[str], *, covered: bool = False
) -> FieldError:
    detail = f"supported values: {gotext.quoted_list(supported)}" if supported else ""
    return FieldError(ErrorType.NOT_SUPPORTED, path, detail, value, covered=covered)


def forbidden(path: Path, detail: str) -> FieldError:
    return FieldError(ErrorType.FORBIDDEN, path, detail, "")


def duplicate(path: Path, value: Any, *, detail: str = "", covered: bool = False) -> FieldError:
    return FieldError(ErrorType.DUPLICATE, path, detail, value, covered=covered)


def not_found(path: Path, value: Any, detail: str = "") -> FieldError:
    return FieldError(ErrorType.NOT_FOUND, path, detail, value)


def too_long(
    path: Path, maximum: int, unit: str = "byte", *, origin: str = "", covered: bool = False
) -> FieldError:
    detail = f"may not be more than {_counted(maximum, unit)}"
    return FieldError(ErrorType.TOO_LONG, path, detail, VALUE_OMITTED, origin, covered)


def too_many(
    path: Path, actual: int, maximum: int, *, origin: str = "", covered: bool = False
) -> FieldError:
    detail = f"must have at most {_counted(maximum, 'item')}"
    return FieldError(ErrorType.TOO_MANY, path, detail, actual, origin, covered)


def internal_error(path: Path, detail: str) -> FieldError:
    return FieldError(ErrorType.INTERNAL, path, detail)


def invalid_details(path: Path, value: Any, details: Iterable[str], *, origin: str = "") -> Errors:
    """Yield one error for each detail."""
    for detail in details:
        yield invalid(path, value, detail, origin=origin)


def one_of(
    path: Path, value: str | None, supported: Sequence[str], *, covered: bool = False
) -> Errors:
    """Reject a value that is not supported; it may be absent."""
    if value is not None and value not in supported:
        yield not_supported(path, value, supported, covered=covered)


def required_one_of(
    path: Path, value: str, supported: Sequence[str], detail: str = "", *, covered: bool = False
) -> Errors:
    """Require a supported value; `detail` is for a value that is missing."""
    if value:
        yield from one_of(path, value, supported, covered=covered)
    else:
        yield required(path, detail, covered=covered)


def required_text(
    path: Path, text: str, rule: Callable[[str, Path], Errors] | None = None
) -> Errors:
    """Require a text, and apply the rule to it."""
    if not text:
        yield required(path)
    elif rule:
        yield from rule(text, path)


def unrepeated(path: Path, value: Value, seen: set[Value]) -> Errors:
    """Reject a value that was seen before; add it to those that were seen."""
    if value in seen:
        yield duplicate(path, value)
    seen.add(value)


def limited_bytes(
    path: Path, text: str, maximum: int, *, origin: str = "", covered: bool = False
) -> Errors:
    if len(text.encode()) > maximum:
        yield too_long(path, maximum, origin=origin, covered=covered)


def limited_items(path: Path, items: Sized, maximum: int, *, origin: str = "") -> Errors:
    if len(items) > maximum:
        yield too_many(path, len(items), maximum, origin=origin)


def immutable(path: Path, new: Any, old: Any) -> Errors:
    if not equality.are_equal(new, old):
        yield invalid(path, new, "field is immutable")


def covered(errors: Iterable[FieldError], origin: str | None = None) -> Errors:
    """Yield the same errors, marked as reported by a declarative rule too."""
    for error in errors:
        yield msgspec.structs.replace(
            error, covered=True, origin=error.origin if origin is None else origin
        )


def with_origin(errors: Iterable[FieldError], origin: str) -> Errors:
    for error in errors:
        yield msgspec.structs.replace(error, origin=origin)


def _printed(value: Any) -> str:
    """Return a string quoted as Go does, and any other value as JSON."""
    if isinstance(value, str):
        return gotext.quote(value)
    if value is msgspec.UNSET or value in ((), {}):
        return "null"
    return msgspec.json.encode(value, order="deterministic").decode().translate(_HTML_ESCAPES)


# Go's json.Marshal escapes the characters that HTML would read as markup.
_HTML_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"

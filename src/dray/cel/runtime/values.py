"""Values while an expression runs, their equality and their order.

| CEL                  | Python                                                       |
|----------------------|--------------------------------------------------------------|
| null, bool, int      | None, bool, int (64 bit: arithmetic checks the range)        |
| uint                 | UInt, a subclass of int                                      |
| double, string, bytes| float, str, bytes                                            |
| list                 | list, tuple, range or Concatenation                          |
| map                  | dict; keys that Python would confuse are wrapped, see MapKey |
| duration, timestamp  | Duration, Timestamp (whole nanoseconds)                      |
| optional             | Optional                                                     |
| type                 | types.Type                                                   |
| Quantity, Semver     | api.quantity.Quantity, api.semver.Version                    |
| anything else        | a class with the attribute `cel_type`                        |

bool is an int to Python and not to CEL: every dispatch on a type asks for the exact class.
Work on nested values is counted, so that lists which share their parts cannot make it endless.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dray.api.formats.quantity import Quantity
from dray.api.formats.semver import Version
from dray.cel import types

MAXIMUM_INT = 2**63 - 1
MINIMUM_INT = -(2**63)
MAXIMUM_UINT = 2**64 - 1

COST_LIMIT = 1_000_000
"""What one evaluation may cost; a single call that would do more work stops by itself."""


class UInt(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


class EvaluationError(Exception):
    """An error value of cel-go: `&&`, `||`, `all` and `exists` may absorb it."""


class CostExceeded(Exception):
    """The run-time cost limit was passed: nothing absorbs it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """An instant; `offset_seconds` is the zone it was written in and only shows in its text."""

    nanoseconds: int
    """Since 1970 in UTC."""
    offset_seconds: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """A value or none; `NONE` is the only optional without a value."""

    value: Any

    @property
    def has_value(self) -> bool:
        return self is not NONE


NONE = Optional(None)


@dataclass(frozen=True, slots=True)
class MapKey:
    """A map key other than a string or int: to Python, True and 1u would equal the key 1."""

    type: type
    value: Any


class _Unique:
    """A list or the like as a key of a map: no other value finds its entry."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Concatenation(Sequence[Any]):
    """The list that `+` makes of two lists, without copying either."""

    __slots__ = ("_left", "_length", "_right")

    def __init__(self, left: Sequence[Any], right: Sequence[Any]) -> None:
        self._left = left
        self._right = right
        self._length = len(left) + len(right)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(itertools.islice(self, *index.indices(self._length)))
        part: Sequence[Any] = self
        while isinstance(part, Concatenation):
            left_length = len(part._left)
            if index < left_length:
                part = part._left
            else:
                part, index = part._right, index - left_length
        return part[index]

    def __iter__(self) -> Iterator[Any]:
        pending: list[Sequence[Any]] = [self]
        while pending:
            part = pending.pop()
            if isinstance(part, Concatenation):
                pending += (part._right, part._left)
            else:
                yield from part


class DefaultingMap(dict[Hashable, Any]):
    """A map that answers every lookup: a key it lacks has an empty map as its value.

    Size, iteration, `in` and equality know nothing of such keys.
    """

    __slots__ = ()
    default: Mapping[Hashable, Any] = {}

    def __missing__(self, key: Hashable) -> Mapping[Hashable, Any]:
        return self.default


class Object(dict[str, Any]):
    """The fields of a variable that is an object; they may be computed on first use.

    Selections from it see this; as a value of its own the object is the map of its fields.
    """

    def as_map(self) -> dict[str, Any]:
        return dict(self)


LIST_CLASSES: frozenset[Any] = frozenset({list, tuple, range, Concatenation})
MAP_CLASSES: frozenset[Any] = frozenset({dict, DefaultingMap})

CelList: TypeAlias = Sequence[Any]
CelMap: TypeAlias = dict[Hashable, Any]

_NUMBERS: frozenset[Any] = frozenset({int, UInt, float})
_SELF_EQUAL: frozenset[Any] = frozenset(
    {str, int, bool, float, bytes, UInt, Duration, Timestamp, type(None)}
)
_EQUAL_WITHIN_CLASS = _SELF_EQUAL | {Quantity, Version}
SELF_ORDERED: frozenset[Any] = frozenset({str, int, bool, bytes, UInt, Duration, Timestamp})
COMPARABLE = SELF_ORDERED | {float}

_TYPES: dict[type, types.Type] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    dict: types.map_of(types.DYN, types.DYN),
    DefaultingMap: types.map_of(types.DYN, types.DYN),
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Optional: types.optional_of(types.DYN),
    types.Type: types.TYPE,
    Quantity: types.QUANTITY,
    Version: types.SEMVER,
} | dict.fromkeys(LIST_CLASSES, types.list_of(types.DYN))


def type_of(value: Any) -> types.Type:
    """Return the value of `type(value)`."""
    cel_type = _TYPES.get(value.__class__)
    if cel_type is None:
        cel_type = value.cel_type
        assert isinstance(cel_type, types.Type)
    return cel_type


def type_name(value: Any) -> str:
    """Return the name of the type of `value` in messages."""
    return type_of(value).name


class ComputedQuantity(Quantity):
    """The result of `add` and `sub`.

    Upstream returns a pointer there, and its equality knows none: `a == b.add(c)` is an error.
    """

    __slots__ = ()


_TYPES[ComputedQuantity] = types.QUANTITY


class StepBudget:
    """A counter of steps, for work whose size cannot be computed in advance."""

    __slots__ = ("_steps_left",)

    def __init__(self, steps: int = COST_LIMIT) -> None:
        self._steps_left = steps

    def spend(self, steps: int = 1) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise CostExceeded


def bounded(elements: CelList) -> CelList:
    """Return `elements`. Raises CostExceeded if there are more than may be visited."""
    if len(elements) > COST_LIMIT:
        raise CostExceeded
    return elements


def no_such_overload() -> EvaluationError:
    return EvaluationError("no such overload")


def conversion_error(target: types.Type) -> EvaluationError:
    """Return the error for a text that stands for no value of a type."""
    return EvaluationError(f"type conversion error from 'string' to '{target}'")


def equal(left: Any, right: Any) -> bool:
    """Evaluate `left == right`. Raises EvaluationError if upstream cannot compare with `right`."""
    kind = left.__class__
    if kind is right.__class__ and kind in _EQUAL_WITHIN_CLASS:
        is_same: bool = left == right
        return is_same
    return _Comparison().is_equal(left, right)


def not_equal(left: Any, right: Any) -> bool:
    """Evaluate `left != right`, which never fails: values that cannot be compared differ."""
    return not is_equal(left, right)


def is_equal(left: Any, right: Any) -> bool:
    """Evaluate `equal`; values that cannot be compared are not equal."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


class _Comparison:
    """One question of equality. Pairs of containers that come up again are answered from memory."""

    __slots__ = ("_answers", "_effort")

    def __init__(self) -> None:
        self._effort = StepBudget()
        self._answers: dict[tuple[int, int], bool] = {}

    def is_equal(self, left: Any, right: Any) -> bool:
        if left is None or right is None:
            return left is right
        kind, other = left.__class__, right.__class__
        if kind in _NUMBERS:
            return other in _NUMBERS and _equal_numbers(left, right)
        if kind in _SELF_EQUAL:
            return kind is other and bool(left == right)
        if kind in LIST_CLASSES:
            return other in LIST_CLASSES and self._are_containers_equal(left, right)
        if kind in MAP_CLASSES:
            return other in MAP_CLASSES and self._are_containers_equal(left, right)
        if kind is types.Type:
            return other is types.Type and bool(left.name == right.name)
        if kind is Optional:
            return other is Optional and self._are_optionals_equal(left, right)
        if kind is ComputedQuantity:
            kind = Quantity
        if kind is not other:
            raise no_such_overload()
        return bool(left == right)

    def _are_containers_equal(self, left: Any, right: Any) -> bool:
        if len(left) != len(right):
            return False
        pair = (id(left), id(right))
        if pair not in self._answers:
            self._effort.spend(len(left))
            if left.__class__ in MAP_CLASSES:
                self._answers[pair] = self._are_maps_equal(left, right)
            else:
                self._answers[pair] = self._are_lists_equal(left, right)
        return self._answers[pair]

    def _are_lists_equal(self, left: CelList, right: CelList) -> bool:
        refusal: EvaluationError | None = None
        for one, other in zip(left, right, strict=True):
            try:
                if not self.is_equal(one, other):
                    return False
            except EvaluationError as error:
                refusal = refusal or error
        # Upstream loses a refusal among the elements, except in lists made with `+`.
        if refusal and left.__class__ is Concatenation:
            raise refusal
        return True

    def _are_maps_equal(self, left: CelMap, right: CelMap) -> bool:
        for key, value in left.items():
            other = find(right, key_value(key), MISSING)
            if other is MISSING:
                return False
            try:
                if not self.is_equal(value, other):
                    return False
            except EvaluationError:
                continue
        return True

    def _are_optionals_equal(self, left: Optional, right: Optional) -> bool:
        if not (left.has_value and right.has_value):
            return left.has_value == right.has_value
        return self.is_equal(left.value, right.value)


def _equal_numbers(left: float, right: float) -> bool:
    # cel-go rounds an integer to a double before it compares the two.
    if left.__class__ is float or right.__class__ is float:
        return float(left) == float(right)
    return left == right


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; `left` is of a class in COMPARABLE."""
    kind, other = left.__class__, right.__class__
    if kind is other and kind in SELF_ORDERED:
        return int(right < left) - int(left < right)
    if not (kind in _NUMBERS and other in _NUMBERS):
        raise no_such_overload()
    if kind is float or other is float:
        left, right = float(left), float(right)
        if math.isnan(left) or math.isnan(right):
            raise EvaluationError("NaN values cannot be ordered")
    return int(right < left) - int(left < right)


def contains(elements: CelList, value: Any) -> bool:
    """Return whether an element of the list is equal to `value`."""
    if value.__class__ is str and elements.__class__ is not Concatenation:
        return value in elements
    return any(is_equal(value, element) for element in elements)


MISSING = object()
"""The answer of `find` where there is none."""


def map_key(value: Any) -> Hashable:
    """Return `value` as a key of a dict."""
    key: Hashable = value
    if value.__class__ is str or value.__class__ is int:
        return key
    return MapKey(value.__class__, value if value.__class__ in _SELF_EQUAL else _Unique(value))


def key_value(key: Hashable) -> Any:
    """Return the value that a key of a dict stands for."""
    if not isinstance(key, MapKey):
        return key
    return key.value.value if key.value.__class__ is _Unique else key.value


def keys(entries: CelMap) -> Iterable[Any]:
    """Return the values of an iteration over a map."""
    return map(key_value, entries)


def find(entries: CelMap, value: Any, default: Any = None) -> Any:
    """Return the entry for a key equal to `value`, including numbers of other types."""
    kind = value.__class__
    if kind is str:
        return entries.get(value, default)
    if kind in _NUMBERS:
        for key in _numeric_keys(value):
            if key in entries:
                return entries[key]
        return default
    if kind in _SELF_EQUAL:
        return entries.get(MapKey(kind, value), default)
    return default


def _numeric_keys(value: Any) -> Iterator[Hashable]:
    """Yield the keys that stand for a number, in the order cel-go tries them (map.go, Find)."""
    if value.__class__ is float:
        yield MapKey(float, value)
        if value.is_integer():
            yield int(value)
            yield MapKey(UInt, UInt(value))
    elif value.__class__ is UInt:
        yield MapKey(UInt, value)
        yield int(value)
    else:
        yield value
        yield MapKey(UInt, UInt(value))

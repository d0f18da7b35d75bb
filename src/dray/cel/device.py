"""The `device` variable: selectors and derived attributes on devices of a ResourceSlice.

Behaviour and texts are those of dynamic-resource-allocation/cel/compile.go. This is what the rest
of dray uses of CEL, and the only module of it that knows what a device is.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from dray.api.formats import quantity, semver
from dray.api.types import dra
from dray.cel import program, types
from dray.cel.checking import environment
from dray.cel.checking.constant_folding import InstantiationFailed
from dray.cel.code.read_paths import Path
from dray.cel.issues import CompilationFailed
from dray.cel.program import Program
from dray.cel.runtime import operations, values
from dray.cel.runtime.values import CostExceeded, DefaultingMap, EvaluationError
from dray.cel.types import Type

UNKNOWN_COST = 2**64 - 1

# Compiled expressions are remembered, but a flood of long ones must not fill the memory.
_SHORT = 1024
_REMEMBERED_SHORT = 512
_REMEMBERED_LONG = 16

Result = TypeVar("Result")

_NAMED = ("attributes", "capacity")
_FIELDS = ("driver", "allowMultipleAllocations", *_NAMED)


_ALWAYS_READ = frozenset({("driver",), ("allowMultipleAllocations",)})
_NAMED_LENGTH = 3
_DELIMITERS = frozenset({"/", operations.SEPARATOR})


class _Name(NamedTuple):
    """An attribute or a capacity that an expression reads."""

    field: str
    domain: str
    id: str
    qualified: str
    path: str
    """Its shortcut in the fields."""


class CompileError(NamedTuple):
    """The reason why an expression cannot be used, in the words of apiserver's cel.Error."""

    kind: Literal["Invalid", "InternalError"]
    detail: str


class _Fields(values.Object):
    """The fields of `device`. Values of attributes and capacities are at their shortcuts.

    The maps of them are made when an expression wants one as a whole.
    """

    def as_map(self) -> dict[str, Any]:
        return {field: self[field] for field in _FIELDS}

    def __missing__(self, field: str) -> DefaultingMap:
        if field not in _NAMED:
            raise KeyError(field)
        domains = DefaultingMap()
        for key, value in list(self.items()):
            if key.startswith(operations.shortcut(field, "")):
                _, domain, id = key.split(operations.SEPARATOR, 2)
                domains.setdefault(domain, {})[id] = value
        self[field] = domains
        return domains


class _Tokens(dict[str, Hashable]):
    """Values that distinguish devices: a hashable value for every path into `device`.

    A path is its keys joined to one string, because Python remembers the hash of a string.
    """

    def __missing__(self, path: str) -> Hashable:
        inside = operations.shortcut(path, "") if path else ""
        below = [
            (key, token)
            for key, token in self.items()
            if token is not None and key.startswith(inside)
        ]
        if below:
            return frozenset(below)
        self[path] = None
        return None


class _BrokenTokens(dict[str, Hashable]):
    """Tokens of a device that no expression can be evaluated on: it equals no other."""

    def __init__(self, problem: str) -> None:
        super().__init__()
        self._problem = problem

    def __missing__(self, path: str) -> Hashable:
        return (_BrokenTokens, self._problem)


class DeviceView:
    """A device as expressions see it. Cheap to create; converted on first use."""

    __slots__ = ("_device", "_driver", "_fields", "_tokens")

    def __init__(
        self, driver: str, device: dra.Device, fields: dict[str, Any] | None = None
    ) -> None:
        self._driver = driver
        self._device = device
        self._fields = fields
        self._tokens: dict[str, Hashable] | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The value of the variable. Raises EvaluationError for an attribute without a value."""
        if self._fields is None:
            self._fields = self._find_fields()
        return self._fields

    @property
    def tokens(self) -> dict[str, Hashable]:
        """The values that distinguish the device from others, by path."""
        if self._tokens is None:
            try:
                self._tokens = self._find_tokens()
            except EvaluationError as problem:
                self._tokens = _BrokenTokens(str(problem))
        return self._tokens

    def _find_fields(self) -> dict[str, Any]:
        fields = _Fields(
            driver=self._driver,
            allowMultipleAllocations=bool(self._device.allow_multiple_allocations),
        )
        driver = self._driver
        for name, attribute in self._device.attributes.items():
            try:
                fields[_path(driver, "attributes", name)] = _attribute_value(attribute)
            except ValueError as problem:
                raise EvaluationError(f"attribute {name}: {problem}") from None
        for name, capacity in self._device.capacity.items():
            fields[_path(driver, "capacity", name)] = quantity.parse(capacity.value)
        return fields

    def _find_tokens(self) -> dict[str, Hashable]:
        """Return the values by path; Python distinguishes them as CEL does."""
        fields = self.fields
        tokens = _Tokens({key: fields[key] for key in fields.keys() - set(_NAMED)})
        for name, attribute in self._device.attributes.items():
            if attribute.string_value is None and attribute.int_value is None:
                tokens[_path(self._driver, "attributes", name)] = attribute, attribute.bool_value
        for name, capacity in self._device.capacity.items():
            tokens[_path(self._driver, "capacity", name)] = capacity.value
        return tokens


@functools.lru_cache(maxsize=1 << 12)
def _path(driver: str, field: str, name: str) -> str:
    # A cluster has few names, and every evaluation needs those of the whole device.
    domain, slash, id = name.partition("/")
    return operations.shortcut(field, *((domain, id) if slash else (driver, name)))


def view(driver: str, device: dra.Device) -> DeviceView:
    return DeviceView(driver, device)


def _attribute_value(attribute: dra.DeviceAttribute) -> Any:
    """Return the one value of an attribute. Raises ValueError with upstream's text."""
    if found := attribute.int_values or attribute.bool_values or attribute.string_values:
        return found
    if attribute.version_values:
        return tuple(map(_version, attribute.version_values))
    if attribute.int_value is not None:
        return attribute.int_value
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string_value is not None:
        return attribute.string_value
    if attribute.version_value is not None:
        return _version(attribute.version_value)
    raise ValueError("unsupported attribute value")


def _version(text: str) -> semver.Version:
    try:
        return semver.parse(text)
    except semver.VersionError as problem:
        raise ValueError(f"parse semantic version: {problem}") from None


class _Compiled:
    """The common part of selectors and derived attributes: a program, or an `error`."""

    def __init__(
        self, expression: str, compiled: Program | None, error: CompileError | None = None
    ) -> None:
        self.expression = expression
        self.error = error
        self._program = compiled
        self._code: Callable[[dict[str, Any]], Any] | None = None

    @property
    def program(self) -> Program:
        assert self._program is not None, self.error
        return self._program

    @property
    def estimated_cost(self) -> int:
        return self._program.estimated_cost if self._program else UNKNOWN_COST

    @property
    def reads(self) -> frozenset[Path]:
        """The paths the expression reads, as (attributes, DOMAIN, ID).

        A short one means all below it.
        """
        return frozenset(map(_significant, self.program.reads))

    def narrow_view(self, driver: str, device: dra.Device) -> DeviceView | None:
        """Return a view of only what the expression reads; None if it may read anything.

        Only for devices whose attributes all have values: of others, the whole view is an error.
        """
        fields = self._narrow_fields(driver, device)
        return None if fields is None else DeviceView(driver, device, fields)

    def _narrow_fields(self, driver: str, device: dra.Device) -> dict[str, Any] | None:
        if self._names is None:
            return None
        fields = _Fields(
            driver=driver, allowMultipleAllocations=bool(device.allow_multiple_allocations)
        )
        for name in self._names:
            published: Mapping[str, Any] = getattr(device, name.field)
            value = published.get(name.qualified)
            if name.domain == driver and name.id in published:
                if value is not None:
                    return None
                value = published[name.id]
            if value is None:
                continue
            if name.field == "capacity":
                fields[name.path] = quantity.parse(value.value)
            else:
                try:
                    fields[name.path] = _attribute_value(value)
                except ValueError:
                    return None
        return fields

    @functools.cached_property
    def _names(self) -> Sequence[_Name] | None:
        """The attributes and capacities that the expression reads; None if it may read any."""
        names = []
        for path in self.reads - _ALWAYS_READ:
            if len(path) != _NAMED_LENGTH or any(set(key) & _DELIMITERS for key in path):
                return None
            field, domain, id = path
            names.append(_Name(field, domain, id, f"{domain}/{id}", operations.shortcut(*path)))
        return names

    def _evaluate(self, device: DeviceView) -> Any:
        if self._code is None:
            self._code = self.program.evaluate
        fields = device._fields
        try:
            return self._code(device.fields if fields is None else fields)
        except RecursionError:
            raise EvaluationError("values nest too deep") from None


Compiled = TypeVar("Compiled", bound=_Compiled)


class Selector(_Compiled):
    """A compiled selector."""

    @property
    def code_form(self) -> str:
        return self.program.code_form

    @functools.cached_property
    def shape(self) -> Callable[[DeviceView], Hashable]:
        """The values that the selector reads: devices of equal shape have equal answers."""
        paths = [operations.shortcut(*path) for path in sorted(self.reads)]
        get = operator.itemgetter(*(paths or [operations.SEPARATOR]))
        return lambda device: get(device.tokens)

    def matches(self, device: DeviceView) -> bool:
        """Return whether the device is selected. Raises EvaluationError or CostExceeded."""
        result = self._evaluate(device)
        return result if result is True or result is False else _as_bool(result)

    def matches_or_false(self, device: DeviceView) -> bool:
        """As `matches`; an expression that fails on the device does not match it."""
        try:
            return self.matches(device)
        except (EvaluationError, CostExceeded):
            return False


def _significant(path: Path) -> Path:
    """Return a path without the variable and without what is inside an attribute."""
    _, *keys = path
    return tuple(keys[:3] if keys and keys[0] in _NAMED else keys[:1])


# The texts of cel-go's ConvertToNative(bool), which differ from type to type.
_CONVERSION_PROBLEMS = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "string": "unsupported native conversion from string to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "double": "type conversion error from Double to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "unsupported type conversion: bool to map",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "type": "type conversion not supported for 'type'",
    "optional_type": "optional.none() dereference",
}


def _as_bool(result: Any) -> bool:
    unwrapped = result
    while isinstance(unwrapped, values.Optional) and unwrapped.has_value:
        unwrapped = unwrapped.value
    if isinstance(unwrapped, bool):
        return unwrapped
    name = values.type_name(unwrapped)
    short_name = name.rpartition(".")[2]
    default = f"type conversion error from '{short_name}' to 'bool'"
    problem = _CONVERSION_PROBLEMS.get(name, default)
    raise EvaluationError(
        f"CEL result of type {values.type_name(result)} could not be converted to bool: {problem}"
    )


class DerivedAttribute(_Compiled):
    """A compiled expression for the value of an attribute."""

    def evaluate(self, device: DeviceView) -> dra.DeviceAttribute:
        """Return the attribute's value on a device. Raises EvaluationError or CostExceeded."""
        return _as_attribute(self._evaluate(device))


_SCALAR_FIELDS: dict[type, tuple[str, str]] = {
    bool: ("bool_value", "bool"),
    int: ("int_value", "int"),
    str: ("string_value", "string"),
    semver.Version: ("version_value", "semver"),
}


def _as_attribute(result: Any) -> dra.DeviceAttribute:
    """Convert a result to an attribute. See compile.go, valToDeviceAttribute."""
    if field := _SCALAR_FIELDS.get(result.__class__):
        return dra.DeviceAttribute(**{field[0]: _on_the_wire(result)})
    if result.__class__ not in values.LIST_CLASSES:
        raise EvaluationError(f"unsupported CEL return type: {_go_native_name(result)}")
    if not result:
        return dra.DeviceAttribute()
    return _as_list_attribute(result)


def _as_list_attribute(result: Iterable[Any]) -> dra.DeviceAttribute:
    elements = list(result)
    kind = elements[0].__class__
    if kind not in _SCALAR_FIELDS:
        name = _go_native_name(elements[0])
        raise EvaluationError(f"unsupported list element type: {name}")
    field, type_name = _SCALAR_FIELDS[kind]
    for index, element in enumerate(elements):
        if element.__class__ is not kind:
            element_name = _go_native_name(element)
            message = (
                f"expected list element at index {index} to be {type_name}, got {element_name}"
            )
            raise EvaluationError(message)
    attribute: dict[str, Any] = {f"{field}s": tuple(map(_on_the_wire, elements))}
    return dra.DeviceAttribute(**attribute)


def _on_the_wire(value: Any) -> Any:
    return str(value) if isinstance(value, semver.Version) else value


_GO_NATIVE_NAMES: dict[type, str] = {
    type(None): "structpb.NullValue",
    bool: "bool",
    int: "int64",
    values.UInt: "uint64",
    float: "float64",
    str: "string",
    bytes: "[]uint8",
    dict: "map[ref.Val]ref.Val",
    semver.Version: "semver.Version",
    quantity.Quantity: "*resource.Quantity",
    values.Duration: "time.Duration",
    values.Timestamp: "time.Time",
}


def _go_native_name(value: Any) -> str:
    """Return the Go type of a value outside CEL, as upstream's messages show it."""
    return _GO_NATIVE_NAMES.get(value.__class__, values.type_name(value))


def _remembered(compile: Callable[..., Result]) -> Callable[..., Result]:
    short = functools.lru_cache(maxsize=_REMEMBERED_SHORT)(compile)
    long = functools.lru_cache(maxsize=_REMEMBERED_LONG)(compile)

    def compile_once(expression: str, *features: bool) -> Result:
        remember = short if len(expression) <= _SHORT else long
        return remember(expression, *features)

    return compile_once


def compile_selector(
    expression: str,
    *,
    stored: bool,
    consumable_capacity: bool = True,
    list_type_attributes: bool = False,
) -> Selector:
    """Compile a selector: a new expression as validated, or a stored one."""
    return _compile_selector(expression, stored, consumable_capacity, list_type_attributes)


def compile_derived_attribute(
    expression: str,
    *,
    stored: bool,
    consumable_capacity: bool = True,
    list_type_attributes: bool = False,
) -> DerivedAttribute:
    """Compile a derived attribute: a new expression as validated, or a stored one."""
    return _compile_derived(expression, stored, consumable_capacity, list_type_attributes)


def _compile(
    kind: type[Compiled],
    type_problem: Callable[[Type, Type], str | None],
    expression: str,
    *features: bool,
) -> Compiled:
    """Compile an expression; `type_problem` judges its type by the type of attributes."""
    stored, consumable_capacity, list_type_attributes = features
    in_environment = environment.device_environment(
        stored=stored,
        consumable_capacity=consumable_capacity,
        list_type_attributes=list_type_attributes,
    )
    _, by_name = in_environment.objects[environment.DEVICE.name]["attributes"].parameters
    try:
        checked = program.check(expression, in_environment)
        if problem := type_problem(checked.result_type, by_name.parameters[1]):
            return kind(expression, None, CompileError("Invalid", problem))
        return kind(expression, Program(checked, in_environment))
    except (CompilationFailed, InstantiationFailed) as failure:
        return kind(expression, None, _compile_error(failure))


def _compile_error(failure: CompilationFailed | InstantiationFailed) -> CompileError:
    if isinstance(failure, CompilationFailed):
        return CompileError("Invalid", f"compilation failed: {failure}")
    return CompileError("InternalError", f"program instantiation failed: {failure}")


def _selector_type_problem(result: Type, attribute: Type) -> str | None:
    if result in (types.BOOL, attribute):
        return None
    return f"must evaluate to bool or the unknown type, not {result}"


_ATTRIBUTE_TYPES = (types.BOOL, types.INT, types.STRING, types.ANY, types.DYN, types.SEMVER)


def _derived_type_problem(result: Type, attribute: Type) -> str | None:
    if result in _ATTRIBUTE_TYPES:
        return None
    # Attributes are of type dyn only where they may be lists.
    allows_lists = attribute == types.DYN
    is_list = allows_lists and result.kind is types.Kind.LIST
    if is_list and result.parameters[0] in _ATTRIBUTE_TYPES:
        return None
    scalars = "must evaluate to a primitive scalar (string, integer, boolean, semver)"
    lists = " or a list of these scalars" if allows_lists else ""
    return f"{scalars}{lists}, not {result}"


_compile_selector = _remembered(functools.partial(_compile, Selector, _selector_type_problem))
_compile_derived = _remembered(functools.partial(_compile, DerivedAttribute, _derived_type_problem))

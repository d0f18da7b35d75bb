"""Environments of expressions: variables, functions, type names, and sizes of values.

Kubernetes knows two environments (apiserver cel/environment): new expressions are checked against
what the previous minor version understands too and against the feature gates; stored ones may use
everything there is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dray.cel import types
from dray.cel.functions import dispatching
from dray.cel.functions.extensions import comprehensions, lists, sets, string_format
from dray.cel.functions.kubernetes import (
    aggregates,
    authorizers,
    ip_cidr,
    named_formats,
    quantities,
    semvers,
    urls,
)
from dray.cel.functions.overloads import Function, Library, Overload, Range
from dray.cel.functions.standard import (
    arithmetic,
    comparisons,
    conversions,
    logic,
    optionals,
    regexes,
    strings,
    timestamps,
)
from dray.cel.types import Type


class TypeName(NamedTuple):
    """The meaning of a type name; `value` is None if it cannot be used as a value."""

    type: Type
    value: Type | None


@dataclass(frozen=True, slots=True)
class Extent:
    """The size limit of a value: characters of a string, entries of a map, and of nested values.

    `named_elements`: selecting any name gives an element (apiserver's estimator for attributes).
    """

    maximum: int
    key: Extent | None = None
    element: Extent | None = None
    fields: Mapping[str, Extent] = field(default_factory=dict)
    named_elements: bool = False

    def step(self, step: str) -> Extent | None:
        if step in ("@items", "@values"):
            return self.element
        if step == "@keys":
            return self.key
        return self.fields.get(step) or (self.element if self.named_elements else None)


@dataclass(frozen=True, slots=True)
class Environment:
    """`objects` are the fields of object types, `extents` the sizes of variables."""

    variables: Mapping[str, Type]
    functions: Mapping[str, Function]
    objects: Mapping[str, Mapping[str, Type]]
    type_names: Mapping[str, TypeName]
    extents: Mapping[str, Extent]

    def overload(self, function: str, id: str) -> Overload:
        return next(
            overload for overload in self.functions[function].overloads if overload.id == id
        )

    def size_at(self, path: Sequence[str]) -> Range | None:
        """Return the declared size of a value, or None."""
        extent = self.extents.get(path[0]) if path else None
        for step in path[1:]:
            if extent is None:
                return None
            extent = extent.step(step)
        return None if extent is None else Range(0, extent.maximum)


DEVICE = types.object_type("kubernetes.DRADevice")

_DOMAIN = Extent(63)
_IDENTIFIER = Extent(32)
_DRIVER = Extent(63)
_ATTRIBUTE = Extent(64)
_PER_DEVICE = 32

_DEVICE_EXTENT = Extent(
    0,
    fields={
        "driver": _DRIVER,
        "allowMultipleAllocations": Extent(1),
        "attributes": Extent(
            _PER_DEVICE,
            key=_DOMAIN,
            element=Extent(_PER_DEVICE, key=_IDENTIFIER, element=_ATTRIBUTE, named_elements=True),
        ),
        "capacity": Extent(
            _PER_DEVICE,
            key=_DOMAIN,
            element=Extent(_PER_DEVICE, key=_IDENTIFIER, element=Extent(0)),
        ),
    },
)

_STANDARD = (
    logic.LIBRARY,
    comparisons.LIBRARY,
    arithmetic.LIBRARY,
    conversions.LIBRARY,
    timestamps.LIBRARY,
    urls.LIBRARY,
    regexes.LIBRARY,
)
_EXTENSIONS = (
    authorizers.LIBRARY,
    optionals.LIBRARY,
    quantities.LIBRARY,
    strings.LIBRARY,
    string_format.LIBRARY,
    sets.LIBRARY,
    ip_cidr.IP_LIBRARY,
    ip_cidr.CIDR_LIBRARY,
    named_formats.LIBRARY,
    comprehensions.LIBRARY,
    semvers.LIBRARY,
    lists.LIBRARY,
)

_VALUE_TYPES = (
    types.BOOL,
    types.BYTES,
    types.DOUBLE,
    types.DURATION,
    types.INT,
    types.list_of(types.DYN),
    types.map_of(types.DYN, types.DYN),
    types.NULL,
    types.STRING,
    types.TIMESTAMP,
    types.TYPE,
    types.UINT,
    types.optional_of(types.DYN),
    types.IP,
    types.CIDR,
)


@functools.cache
def device_environment(
    *, stored: bool, consumable_capacity: bool, list_type_attributes: bool
) -> Environment:
    """Return the environment of device selectors (dynamic-resource-allocation cel/compile.go).

    The feature gates count for new expressions only.
    """
    has_lists = stored or list_type_attributes
    fields = _device_fields(
        attribute=types.DYN if has_lists else types.ANY,
        has_multiple_allocations=stored or consumable_capacity,
    )
    return Environment(
        variables={"device": DEVICE},
        functions=_functions(_libraries(stored=stored, has_includes=has_lists)),
        objects={DEVICE.name: fields},
        type_names=_type_names(fields),
        extents={"device": _DEVICE_EXTENT},
    )


def _libraries(*, stored: bool, has_includes: bool) -> list[Library]:
    """Return the libraries in Kubernetes' order, in which overloads are tried.

    The list library changed in 1.37, so stored expressions have its new version last.
    """
    included = [aggregates.INCLUDES] if has_includes else []
    if stored:
        return [*_STANDARD, *_EXTENSIONS, aggregates.LIBRARY, *included]
    return [*_STANDARD, aggregates.LIBRARY, *_EXTENSIONS, *included]


def _device_fields(*, attribute: Type, has_multiple_allocations: bool) -> dict[str, Type]:
    fields = {
        "driver": types.STRING,
        "attributes": _by_domain_and_name(attribute),
        "capacity": _by_domain_and_name(types.QUANTITY),
    }
    if has_multiple_allocations:
        fields["allowMultipleAllocations"] = types.BOOL
    return fields


def _by_domain_and_name(value: Type) -> Type:
    return types.map_of(types.STRING, types.map_of(types.STRING, value))


def _type_names(device_fields: Mapping[str, Type]) -> dict[str, TypeName]:
    names = {type.name: TypeName(type, type) for type in _VALUE_TYPES}
    declared = {"duration": types.DURATION, "timestamp": types.TIMESTAMP, DEVICE.name: DEVICE}
    for field_name in ("attributes", "capacity"):
        declared[f"{DEVICE.name}.{field_name}"] = device_fields[field_name]
    names.update({name: TypeName(type, None) for name, type in declared.items()})
    return names


def _functions(libraries: Iterable[Library]) -> dict[str, Function]:
    functions: dict[str, Function] = {}
    for library in libraries:
        for function in library:
            existing = functions.get(function.name)
            functions[function.name] = _merged(existing, function) if existing else function
    return functions


def _merged(first: Function, second: Function) -> Function:
    return dispatching.function(
        first.name,
        *first.overloads,
        *second.overloads,
        dispatch_cost=first.dispatch_cost or second.dispatch_cost,
    )

"""Environments of expressions: variables, functions, type names, and sizes of values.

Kubernetes knows two environments (apiserver cel/environment): new expressions are checked against
what the previous minor version understands too and against the feature gates; stored ones may use
everything there is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
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
    has_bind: bool
    """Whether `cel.bind` is a macro."""

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
        has_bind=True,
    )


REQUEST = types.object_type("kubernetes.AdmissionRequest")
NAMESPACE = types.object_type("kubernetes.Namespace")
VARIABLES = types.object_type("kubernetes.variables")
_GROUP_VERSION_KIND = types.object_type("kubernetes.GroupVersionKind")
_GROUP_VERSION_RESOURCE = types.object_type("kubernetes.GroupVersionResource")
_USER_INFO = types.object_type("kubernetes.UserInfo")
_NAMESPACE_METADATA = types.object_type("kubernetes.NamespaceMetadata")
_NAMESPACE_SPEC = types.object_type("kubernetes.NamespaceSpec")
_NAMESPACE_STATUS = types.object_type("kubernetes.NamespaceStatus")
_NAMESPACE_CONDITION = types.object_type("kubernetes.NamespaceCondition")
_STRINGS = types.list_of(types.STRING)
_STRINGS_BY_NAME = types.map_of(types.STRING, types.STRING)

_POLICY_OBJECTS: Mapping[str, Mapping[str, Type]] = {
    _GROUP_VERSION_KIND.name: dict.fromkeys(("group", "version", "kind"), types.STRING),
    _GROUP_VERSION_RESOURCE.name: dict.fromkeys(("group", "version", "resource"), types.STRING),
    _USER_INFO.name: {
        "username": types.STRING,
        "uid": types.STRING,
        "groups": _STRINGS,
        "extra": types.map_of(types.STRING, _STRINGS),
    },
    REQUEST.name: {
        "kind": _GROUP_VERSION_KIND,
        "resource": _GROUP_VERSION_RESOURCE,
        "subResource": types.STRING,
        "requestKind": _GROUP_VERSION_KIND,
        "requestResource": _GROUP_VERSION_RESOURCE,
        "requestSubResource": types.STRING,
        "name": types.STRING,
        "namespace": types.STRING,
        "operation": types.STRING,
        "userInfo": _USER_INFO,
        "dryRun": types.BOOL,
        "options": types.DYN,
    },
    _NAMESPACE_SPEC.name: {"finalizers": _STRINGS},
    _NAMESPACE_CONDITION.name: {
        **dict.fromkeys(("status", "type", "message", "reason"), types.STRING),
        "lastTransitionTime": types.TIMESTAMP,
    },
    _NAMESPACE_STATUS.name: {
        "conditions": types.list_of(_NAMESPACE_CONDITION),
        "phase": types.STRING,
    },
    _NAMESPACE_METADATA.name: {
        **dict.fromkeys(
            ("name", "generateName", "namespace", "UID", "resourceVersion"), types.STRING
        ),
        **dict.fromkeys(("labels", "annotations"), _STRINGS_BY_NAME),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), types.TIMESTAMP),
        **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), types.INT),
        "finalizers": _STRINGS,
    },
    NAMESPACE.name: {
        "metadata": _NAMESPACE_METADATA,
        "spec": _NAMESPACE_SPEC,
        "status": _NAMESPACE_STATUS,
    },
}


_NO_OBJECTS: Mapping[str, Type] = MappingProxyType({})
_NO_STRUCTURES: Mapping[str, Mapping[str, Type]] = MappingProxyType({})


def policy_environment(
    *,
    stored: bool,
    has_params: bool,
    has_authorizer: bool,
    variables: Mapping[str, Type] | None,
    objects: Mapping[str, Type] = _NO_OBJECTS,
    structures: Mapping[str, Mapping[str, Type]] = _NO_STRUCTURES,
) -> Environment:
    """Return the environment of an admission policy (apiserver, admission/plugin/cel/compile.go).

    `variables` are the types of the policy's own variables, None where it has none; `objects`
    replaces the type `dyn` of variables that are known better, and `structures` are the fields of
    these types, which only type checking has.
    """
    declared = {
        "object": types.DYN,
        "oldObject": types.DYN,
        "namespaceObject": NAMESPACE,
        "request": REQUEST,
        "params": types.DYN,
        "authorizer": authorizers.AUTHORIZER,
        "authorizer.requestResource": authorizers.RESOURCE_CHECK,
        "variables": VARIABLES,
        **objects,
    }
    if not has_params:
        del declared["params"]
    if not has_authorizer:
        del declared["authorizer"], declared["authorizer.requestResource"]
    fields = {**_POLICY_OBJECTS, **structures}
    if variables is None:
        del declared["variables"]
    else:
        fields[VARIABLES.name] = variables
    names = {type.name: TypeName(type, type) for type in _VALUE_TYPES}
    for name in ("duration", "timestamp"):
        names[name] = TypeName(types.DURATION if name == "duration" else types.TIMESTAMP, None)
    names.update({name: TypeName(types.object_type(name), None) for name in fields})
    return Environment(
        variables=declared,
        functions=_policy_functions(stored),
        objects=fields,
        type_names=names,
        extents={},
        has_bind=False,
    )


@functools.cache
def _policy_functions(stored: bool) -> Mapping[str, Function]:
    return _functions(_libraries(stored=stored, has_includes=False))


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

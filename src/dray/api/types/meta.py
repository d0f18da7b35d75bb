"""The parts that every kind shares: the base of all structs, ObjectMeta, selectors, conditions.

A struct's default means *absent on the wire*, never the API default (`api.defaults` writes those).
Go pointers are `X | None = None`; Go values without a pointer have their zero value here.
Quantities stay strings; `api.quantity.parse` remembers what it parsed. Times stay strings too.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from dray.api.ids import ObjectKey

JsonObject: TypeAlias = dict[str, Any]
"""An object as it is on the wire: decoded JSON that no struct describes."""


class Wire(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """A frozen piece of an API object. Fields that dray does not read are dropped on decoding."""


class WireWithJson(Wire, frozen=True, eq=False):
    """A part of an object with JSON that belongs to somebody else, such as a driver.

    In JSON 1, 1.0 and true are different values, which Python calls equal.
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _encode(self) == _encode(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


_encode: Final = msgspec.msgpack.Encoder(order="sorted").encode


class OwnerReference(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Wire, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


class Condition(Wire, frozen=True):
    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class LabelSelectorRequirement(Wire, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(Wire, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()

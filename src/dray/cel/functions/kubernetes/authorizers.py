"""Kubernetes' authorizer library: declarations only.

A selector has no authorizer to call, so that no call type-checks. The names are declared because
Kubernetes declares them: using one is "no matching overload", not "undeclared reference".
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.cel.functions import dispatching
from dray.cel.functions.overloads import Library, Overload, member
from dray.cel.types import BOOL, STRING, Type, object_type

_AUTHORIZER = object_type("kubernetes.authorization.Authorizer")
_PATH = object_type("kubernetes.authorization.PathCheck")
_GROUP = object_type("kubernetes.authorization.GroupCheck")
_RESOURCE = object_type("kubernetes.authorization.ResourceCheck")
_DECISION = object_type("kubernetes.authorization.Decision")

# Function, receiver, number of string arguments, result, and the id of the overload.
_SIGNATURES: tuple[tuple[str, Type, int, Type, str], ...] = (
    ("path", _AUTHORIZER, 1, _PATH, "authorizer_path"),
    ("group", _AUTHORIZER, 1, _GROUP, "authorizer_group"),
    ("serviceAccount", _AUTHORIZER, 2, _AUTHORIZER, "authorizer_serviceaccount"),
    ("resource", _GROUP, 1, _RESOURCE, "groupcheck_resource"),
    ("subresource", _RESOURCE, 1, _RESOURCE, "resourcecheck_subresource"),
    ("namespace", _RESOURCE, 1, _RESOURCE, "resourcecheck_namespace"),
    ("name", _RESOURCE, 1, _RESOURCE, "resourcecheck_name"),
    ("fieldSelector", _RESOURCE, 1, _RESOURCE, "authorizer_fieldselector"),
    ("labelSelector", _RESOURCE, 1, _RESOURCE, "authorizer_labelselector"),
    ("check", _PATH, 1, _DECISION, "pathcheck_check"),
    ("check", _RESOURCE, 1, _DECISION, "resourcecheck_check"),
    ("errored", _DECISION, 0, BOOL, "decision_errored"),
    ("error", _DECISION, 0, STRING, "decision_error"),
    ("allowed", _DECISION, 0, BOOL, "decision_allowed"),
    ("reason", _DECISION, 0, STRING, "decision_reason"),
)


def _overloads(name: str) -> Iterator[Overload]:
    for function, receiver, strings, result, id in _SIGNATURES:
        if function == name:
            yield member(id, (receiver, *[STRING] * strings), result, dispatching.refuse)


LIBRARY: Library = tuple(
    dispatching.function(name, *_overloads(name))
    for name in dict.fromkeys(signature[0] for signature in _SIGNATURES)
)

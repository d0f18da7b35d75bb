"""OpenAPI v3: the index, and one document for each group and version, as kubectl reads them.

kubectl asks for the index, then for the documents of the kinds it is about to write: it looks
whether PATCH takes `fieldValidation`, and `kubectl explain` prints the schemas. Paths, names and
shapes are those of a Kubernetes API server. Left out are the texts of query parameters, binary
media types and the old paths under /watch.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from dray.api import http_messages, kinds
from dray.api.kinds import GroupVersionKind, Kind, Subresource
from dray.api.schema import openapi_schemas
from dray.api.types.meta import JsonObject

_KUBERNETES_VERSION = "v1.37.0"
_GVK = "x-kubernetes-group-version-kind"

_DELETE_OPTIONS = "meta.v1.DeleteOptions"
_PATCH = "meta.v1.Patch"
_STATUS = "meta.v1.Status"
_WATCH_EVENT = "meta.v1.WatchEvent"

_PATCH_MEDIA_TYPES = (
    http_messages.APPLY_PATCH,
    http_messages.JSON_PATCH,
    http_messages.MERGE_PATCH,
    http_messages.STRATEGIC_MERGE_PATCH,
)
_OBJECT_MEDIA_TYPES = (http_messages.JSON, http_messages.YAML)

_WRITE_PARAMETERS = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}
_DELETE_PARAMETERS = {
    "dryRun": "string",
    "gracePeriodSeconds": "integer",
    "orphanDependents": "boolean",
    "propagationPolicy": "string",
}
_SELECTION_PARAMETERS = {
    "continue": "string",
    "fieldSelector": "string",
    "labelSelector": "string",
    "limit": "integer",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
}
_LIST_PARAMETERS = _SELECTION_PARAMETERS | {"allowWatchBookmarks": "boolean", "watch": "boolean"}
_LOG_PARAMETERS = {
    "container": "string",
    "follow": "boolean",
    "limitBytes": "integer",
    "previous": "boolean",
    "sinceSeconds": "integer",
    "stream": "string",
    "tailLines": "integer",
    "timestamps": "boolean",
}
_ATTACH_PARAMETERS = {
    "container": "string",
    "stderr": "boolean",
    "stdin": "boolean",
    "stdout": "boolean",
    "tty": "boolean",
}
_CONNECTION_PARAMETERS = {
    "attach": _ATTACH_PARAMETERS,
    "exec": {"command": "string", **_ATTACH_PARAMETERS},
    "portforward": {"ports": "integer"},
}


class Encoded(NamedTuple):
    """A document ready to be sent, and the hash that is part of its address and its ETag."""

    data: bytes
    hash: str


def index() -> JsonObject:
    """Return the body of `/openapi/v3`: the document paths of all groups and versions."""
    paths: JsonObject = {}
    for group, versions in kinds.VERSIONS_BY_GROUP.items():
        for version in versions:
            path = _root(group, version).lstrip("/")
            url = f"/openapi/v3/{path}?hash={encoded(group, version).hash}"
            paths[path] = {"serverRelativeURL": url}
    return {"paths": paths}


@functools.cache
def encoded(group: str, version: str) -> Encoded:
    data = msgspec.json.encode(document(group, version))
    return Encoded(data, hashlib.sha512(data).hexdigest().upper())


def document(group: str, version: str) -> JsonObject:
    """Return the paths of one group and version, with every type that they mention."""
    paths: JsonObject = {}
    for kind in kinds.in_group_version(group, version):
        paths |= dict(_paths(kind, version))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": _KUBERNETES_VERSION},
        "paths": paths,
        "components": {"schemas": _schemas(group, version)},
    }


def _root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


class _Verb(NamedTuple):
    """One row of what can be done: `words` and `article` frame the name of the kind."""

    method: str
    action: str
    identifier: str
    words: str
    article: str = ""
    parameters: Mapping[str, str] = {}
    body: str = ""
    codes: tuple[str, ...] = ("200",)
    response: str = "object"


_ON_COLLECTIONS = {
    "list": _Verb(
        "get",
        "list",
        "list",
        "list or watch objects of kind",
        "",
        _LIST_PARAMETERS,
        response="list",
    ),
    "create": _Verb(
        "post", "post", "create", "create", "a", _WRITE_PARAMETERS, "object", ("200", "201", "202")
    ),
    "deletecollection": _Verb(
        "delete",
        "deletecollection",
        "delete",
        "delete collection of",
        "",
        _DELETE_PARAMETERS | _SELECTION_PARAMETERS,
        "delete",
        response="status",
    ),
}
_ON_OBJECTS = {
    "get": _Verb("get", "get", "read", "read", "the specified"),
    "update": _Verb(
        "put",
        "put",
        "replace",
        "replace",
        "the specified",
        _WRITE_PARAMETERS,
        "object",
        ("200", "201"),
    ),
    "patch": _Verb(
        "patch",
        "patch",
        "patch",
        "partially update",
        "the specified",
        _WRITE_PARAMETERS | {"force": "boolean"},
        "patch",
        ("200", "201"),
    ),
    "delete": _Verb(
        "delete", "delete", "delete", "delete", "a", _DELETE_PARAMETERS, "delete", ("200", "202")
    ),
}
_CODES = {"200": "OK", "201": "Created", "202": "Accepted"}


def _paths(kind: Kind, version: str) -> Iterator[tuple[str, JsonObject]]:
    root = _root(kind.group, version)
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{root}{scope}/{kind.plural}"
    yield collection, _path_item(_operations(kind, version, _ON_COLLECTIONS), collection)
    if kind.is_stored:
        one = f"{collection}/{{name}}"
        yield one, _path_item(_operations(kind, version, _ON_OBJECTS), one)
        if kind.namespaced:
            everywhere = f"{root}/{kind.plural}"
            yield everywhere, _path_item(_list_everywhere(kind, version), everywhere)
    for subresource in kind.subresources:
        path = f"{collection}/{{name}}/{subresource.name}"
        yield path, _path_item(_subresource_operations(kind, version, subresource), path)


def _path_item(operations: JsonObject, path: str) -> JsonObject:
    parameters = [_parameter(name, "string", "path") for name in re.findall(r"{(\w+)}", path)]
    return {**operations, "parameters": [*parameters, _parameter("pretty", "string")]}


def _parameter(name: str, type: str, where: str = "query") -> JsonObject:
    required = {"required": True} if where == "path" else {}
    return {"name": name, "in": where, **required, "schema": {"type": type, "uniqueItems": True}}


def _parameters(types: Mapping[str, str]) -> JsonObject:
    """Return the parameters of an operation; clients read an empty list as none and lose it."""
    listed = [_parameter(*parameter) for parameter in types.items()]
    return {"parameters": listed} if listed else {}


def _operations(kind: Kind, version: str, rows: Mapping[str, _Verb]) -> JsonObject:
    spoken = kind.in_version(version)
    return {
        row.method: _operation(row, kind, version, spoken)
        for verb, row in rows.items()
        if verb in kind.verbs
    }


def _list_everywhere(kind: Kind, version: str) -> JsonObject:
    operation = _operation(_ON_COLLECTIONS["list"], kind, version, kind.in_version(version))
    identifier = operation["operationId"].replace("Namespaced", "", 1) + "ForAllNamespaces"
    return {"get": operation | {"operationId": identifier}}


def _subresource_operations(kind: Kind, version: str, subresource: Subresource) -> JsonObject:
    spoken = subresource.kind or kind.in_version(version)
    if subresource.name in _CONNECTION_PARAMETERS:
        methods = {"get": "get", "create": "post"}
        return {
            methods[verb]: _connection(kind, version, subresource, spoken, methods[verb])
            for verb in subresource.verbs
        }
    rows = _ON_OBJECTS | {"create": _ON_COLLECTIONS["create"]}
    operations = {
        rows[verb].method: _operation(rows[verb], kind, version, spoken, subresource.name)
        for verb in subresource.verbs
    }
    if subresource.name == "log":
        operations["get"] |= {
            **_parameters(_LOG_PARAMETERS),
            "responses": _responses(("200",), {"text/plain": {"schema": {"type": "string"}}}),
        }
    return operations


def _operation(
    row: _Verb, kind: Kind, version: str, spoken: GroupVersionKind, subresource: str = ""
) -> JsonObject:
    collection = "Collection" if row.action == "deletecollection" else ""
    part = f"{subresource} of" if subresource else ""
    operation = {
        "description": " ".join(filter(None, [row.words, part, row.article, kind.kind])),
        "operationId": row.identifier + _identifier(kind, version, subresource, collection),
        "tags": [_tag(kind, version)],
        **_parameters(row.parameters),
        "responses": _responses(row.codes, _content(_answer_type(row, kind, spoken))),
        "x-kubernetes-action": row.action,
        _GVK: _gvk(spoken),
    }
    if row.body:
        operation["requestBody"] = _request_body(row.body, spoken)
    return operation


def _connection(
    kind: Kind, version: str, subresource: Subresource, spoken: GroupVersionKind, method: str
) -> JsonObject:
    """Describe a stream over an upgraded connection, such as exec."""
    identifier = _identifier(kind, version, subresource.name, method.capitalize())
    return {
        "description": f"connect {method.upper()} requests to {subresource.name} of {kind.kind}",
        "operationId": f"connect{identifier}",
        "tags": [_tag(kind, version)],
        **_parameters(_CONNECTION_PARAMETERS[subresource.name]),
        "responses": _responses(("200",), {"*/*": {"schema": {"type": "string"}}}),
        "x-kubernetes-action": "connect",
        _GVK: _gvk(spoken),
    }


def _group_name(group: str) -> str:
    words = (group.removesuffix(".k8s.io") or "core").split(".")
    return words[0] + "".join(word.capitalize() for word in words[1:])


def _tag(kind: Kind, version: str) -> str:
    return f"{_group_name(kind.group)}_{version}"


def _identifier(kind: Kind, version: str, subresource: str, middle: str = "") -> str:
    group = _group_name(kind.group)
    scope = "Namespaced" if kind.namespaced else ""
    prefix = f"{group[0].upper()}{group[1:]}{version.capitalize()}{middle}"
    return f"{prefix}{scope}{kind.kind}{subresource.capitalize()}"


def _answer_type(row: _Verb, kind: Kind, spoken: GroupVersionKind) -> str:
    if row.response == "list":
        return f"{spoken.schema_type}List"
    deletes_silently = row.method == "delete" and not kind.returns_deleted
    return _STATUS if row.response == "status" or deletes_silently else spoken.schema_type


def _content(type_name: str, media_types: tuple[str, ...] = _OBJECT_MEDIA_TYPES) -> JsonObject:
    return {type_: {"schema": openapi_schemas.reference(type_name)} for type_ in media_types}


def _responses(codes: tuple[str, ...], content: JsonObject) -> JsonObject:
    answers = {code: {"description": _CODES[code], "content": content} for code in codes}
    return {**answers, "401": {"description": "Unauthorized"}}


def _request_body(body: str, spoken: GroupVersionKind) -> JsonObject:
    if body == "delete":
        return {"content": _content(_DELETE_OPTIONS, ("*/*",))}
    if body == "patch":
        return {"content": _content(_PATCH, _PATCH_MEDIA_TYPES), "required": True}
    return {"content": _content(spoken.schema_type, ("*/*",)), "required": True}


def _gvk(kind: GroupVersionKind) -> dict[str, str]:
    return {"group": kind.group, "kind": kind.kind, "version": kind.version}


def _schemas(group: str, version: str) -> JsonObject:
    """Return the schemas of the document's kinds and of all types inside them."""
    kinds_by_type = dict(_published_kinds(group, version))
    schemas: JsonObject = dict(openapi_schemas.BUILTINS)
    for type_name in sorted(openapi_schemas.reachable(kinds_by_type)):
        definition = openapi_schemas.definition(type_name)
        if kinds_by_type.get(type_name):
            definition[_GVK] = [_gvk(kind) for kind in kinds_by_type[type_name]]
        schemas[openapi_schemas.component(type_name)] = definition
    return schemas


def _published_kinds(group: str, version: str) -> Iterator[tuple[str, list[GroupVersionKind]]]:
    """Yield the types of requests and responses, each with the kinds that have it."""
    yield _PATCH, []
    yield _STATUS, [GroupVersionKind("", "v1", "Status")]
    for type_name in (_DELETE_OPTIONS, _WATCH_EVENT):
        name = type_name.rpartition(".")[2]
        groups = dict.fromkeys([("", "v1"), (group, version)])
        yield type_name, [GroupVersionKind(*group_version, name) for group_version in groups]
    for kind in kinds.in_group_version(group, version):
        own = kind.in_version(version)
        yield own.schema_type, [own]
        if kind.is_stored:
            of_lists = GroupVersionKind(group, version, kind.list_kind)
            yield of_lists.schema_type, [of_lists]
        for subresource in kind.subresources:
            if subresource.kind and subresource.name not in _CONNECTION_PARAMETERS:
                yield subresource.kind.schema_type, [subresource.kind]

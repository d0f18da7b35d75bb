"""RequestInfo: the verb and the object of a request, from method, path and query.

As apiserver/pkg/endpoints/request, RequestInfoFactory.NewRequestInfo.
"""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

from dray.api.http_messages import Request

VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch"}
METHODS = frozenset({*VERBS, "DELETE"})
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestInfo(msgspec.Struct, frozen=True):
    """A parsed path. `resource` is empty for paths without objects: discovery, health."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def is_resource(self) -> bool:
        return bool(self.resource)


def parse(request: Request) -> RequestInfo:
    segments = [part for part in request.path.split("/") if part]
    if "%" in request.path:
        segments = list(map(unquote, segments))
    if len(segments) >= 3 and segments[0] == "api":
        return _resource(request, "", segments[1], segments[2:])
    if len(segments) >= 4 and segments[0] == "apis":
        return _resource(request, segments[1], segments[2], segments[3:])
    return RequestInfo(request.method.lower(), request.path)


def _resource(request: Request, group: str, version: str, rest: list[str]) -> RequestInfo:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        # `namespaces/x` and its subresources mean the namespace itself.
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest[:3], "", "", "")[:3]
    return RequestInfo(
        _verb(request, name), request.path, group, version, namespace, resource, name, subresource
    )


def _verb(request: Request, name: str) -> str:
    if request.method == "DELETE":
        return "delete" if name else "deletecollection"
    verb = VERBS.get(request.method, request.method.lower())
    if verb == "get" and not name:
        return "watch" if request.flag("watch") else "list"
    return verb

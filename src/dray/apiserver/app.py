"""The path of a request, step by step.

`handle` is everything after authentication; the in-process client calls it with the user of its
component, `https_server` with the user of a certificate or a token.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec

import dray
from dray import telemetry
from dray.api import errors, http_messages, kinds
from dray.api.conversion import versions
from dray.api.formats import durations, gotext
from dray.api.http_messages import Request, Response, User
from dray.api.ids import GroupResource
from dray.api.kinds import Kind
from dray.api.schema import openapi
from dray.apiserver import discovery
from dray.apiserver.access import authorization
from dray.apiserver.access.rbac import Authorize
from dray.apiserver.audit import AuditLog
from dray.apiserver.discovery import Discovery
from dray.apiserver.request import (
    offloading,
    protobuf_responses,
    request_info,
    warning_headers,
)
from dray.apiserver.request.call import Call
from dray.apiserver.request.negotiation import Shape
from dray.apiserver.request.request_info import RequestInfo
from dray.apiserver.request.request_notes import RequestNotes
from dray.apiserver.storage import codec
from dray.apiserver.verbs import reads, watches
from dray.apiserver.verbs.deletion import Deleter
from dray.apiserver.verbs.writes import Writer
from dray.store.store import Store

log = logging.getLogger(__name__)

KUBERNETES_VERSION = {
    "major": "1",
    "minor": "37",
    "emulationMajor": "1",
    "emulationMinor": "37",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "36",
    "gitVersion": "v1.37.0",
    "gitCommit": f"dray-{dray.__version__}",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "python",
    "compiler": "python",
    "platform": "linux/amd64",
}
HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
MEASURED_VERBS = frozenset(
    {
        *request_info.VERBS.values(),
        *("list", "watch", "delete", "deletecollection"),
        *("head", "post", "put", "options"),
    }
)

_LONG_RUNNING = frozenset({"attach", "exec", "log", "portforward", "proxy"})

Subresource = Callable[[Call], Awaitable[Response]]
Page = Callable[[Request, User], Awaitable[Response]]


class Metrics:
    def __init__(self, registry: telemetry.Registry) -> None:
        self.registry = registry
        self.requests = telemetry.Counter(
            "apiserver_request_total",
            "Requests by verb, group, resource and HTTP code.",
            ("verb", "group", "resource", "code"),
        )
        self.seconds = telemetry.Histogram(
            "apiserver_request_duration_seconds",
            "Response time, without watches.",
            ("verb", "resource"),
        )
        self.watches = telemetry.Gauge(
            "apiserver_longrunning_requests", "Open watches by resource.", ("resource",)
        )
        registry.register(self.requests, self.seconds, self.watches)


@dataclass(frozen=True, slots=True)
class App:
    """One API server, composed of its parts."""

    store: Store
    discovery: Discovery
    authorize: Authorize
    writer: Writer
    deleter: Deleter
    metrics: Metrics
    subresources: Mapping[tuple[str, str, str], Subresource] = field(default_factory=dict)
    """By method, plural and subresource; ("POST", "selfsubjectreviews", "") for questions."""
    pages: dict[str, Page] = field(default_factory=dict)
    """What others answer to GET, by path, for those who have the right to the path."""
    encodings: watches.EventLineCache = field(default_factory=watches.EventLineCache)
    audit_log: AuditLog | None = None

    async def handle(self, request: Request, user: User) -> Response:
        """Parse, authorize, route and answer a request; every error becomes a Status."""
        started = time.perf_counter()
        info = request_info.parse(request)
        notes = RequestNotes()
        try:
            _check_timeout(request, info)
            response = await self._authorized(request, info, user, notes)
        except errors.StatusError as error:
            response = status_response(error)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            response = status_response(errors.internal_error("an unexpected error; see the log"))
        seconds = time.perf_counter() - started
        self._measure(info, response, seconds)
        if self.audit_log is not None:
            is_stream = response.stream is not None or response.upgrade is not None
            self.audit_log.record(
                request,
                info,
                user,
                code=response.status,
                seconds=seconds,
                is_stream=is_stream,
                annotations=notes.annotations,
            )
        if notes.warnings:
            response = _with_warnings(response, notes.warnings)
        if info.version not in ("", "v1"):
            response = self._warned(info, response)
        if not protobuf_responses.is_wanted(request.headers):
            return response
        is_large = len(response.body) > offloading.LARGE_BYTES
        return await offloading.call(
            is_large, protobuf_responses.converted, response, request.headers
        )

    def note_refusal(self, request: Request, user: User, error: errors.StatusError) -> None:
        """Record a request that was rejected before authorization, or not begun after it."""
        if self.audit_log is not None:
            info = request_info.parse(request)
            self.audit_log.record(request, info, user, code=error.code, seconds=0.0)

    async def _authorized(
        self, request: Request, info: RequestInfo, user: User, notes: RequestNotes
    ) -> Response:
        refusal = self.authorize(user, authorization.attributes_of(request, info))
        if refusal is not None:
            resource = GroupResource(info.group, info.resource) if info.is_resource else None
            raise errors.forbidden(resource, info.name, refusal)
        if not info.is_resource:
            return await self._about_server(request, user)
        kind = self._kind(info)
        gvk = kind.in_version(info.version)
        return await self._about_objects(Call(request, info, kind, gvk, user, _now(), notes))

    def _kind(self, info: RequestInfo) -> Kind:
        kind = kinds.by_resource(info.group, info.version, info.resource)
        if kind is None or not self.discovery.serves(info.group, info.version):
            raise discovery.not_served(info.group, info.resource)
        is_absent = info.subresource and kind.subresource(info.subresource) is None
        if is_absent or not _is_in_scope(info, kind):
            raise errors.path_not_found()
        return kind

    async def _about_objects(self, call: Call) -> Response:
        _check_acceptable(call)
        info, method = call.info, call.request.method
        other = self.subresources.get((method, call.kind.plural, info.subresource))
        if other is not None:
            return await other(call)
        if info.subresource not in ("", "status"):
            raise _not_allowed()
        _check_verb(call)
        if info.verb == "watch" and method == "GET":
            return self._counted(call, await watches.watch(call, self.store, self.encodings))
        return await self._verb(call)

    async def _verb(self, call: Call) -> Response:
        match call.info.verb:
            case "get":
                return await reads.get(call, self.store)
            case "list":
                return await reads.list_(call, self.store)
            case "create":
                return await self.writer.create(call)
            case "update":
                return await self.writer.update(call)
            case "patch":
                return await self.writer.patch(call)
            case "delete":
                return await self.deleter.delete(call)
            case "deletecollection":
                return await self.deleter.delete_collection(call)
        raise _not_allowed()

    async def _about_server(self, request: Request, user: User) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise _not_allowed()
        path = request.path.rstrip("/")
        if request.method == "GET" and path in self.pages:
            return await self.pages[path](request, user)
        if path in HEALTH_PATHS:
            return self._health(request, path)
        if path == "/version":
            return reads.json_response(codec.encode(KUBERNETES_VERSION))
        if path == "/metrics":
            return _text(await self.metrics.registry.collected(), "text/plain; version=0.0.4")
        if path.startswith("/openapi/v3"):
            return self._openapi(request, path.removeprefix("/openapi/v3").strip("/"))
        return self._discover(request, path)

    def _health(self, request: Request, path: str) -> Response:
        trouble = self.store.health().reason if path != "/livez" else ""
        if trouble:
            return _text(f"[-]store: {trouble}\n{path.strip('/')} check failed\n", status=500)
        verbose = any(key == "verbose" for key, _ in request.query)
        return _text(f"[+]ping ok\n{path.strip('/')} check passed\n" if verbose else "ok")

    def _openapi(self, request: Request, name: str) -> Response:
        """Return the index, or the document of `api/v1` or `apis/GROUP/VERSION`."""
        if not name:
            links = openapi.index()["paths"]
            served = {path: links[path] for path in links if self._serves(path)}
            return _text(codec.encode({"paths": served}).decode())
        if not self._serves(name):
            raise errors.path_not_found()
        document = openapi.encoded(*_group_version(name))
        return _tagged(request, document.data, f'"{document.hash}"', http_messages.JSON)

    def _serves(self, name: str) -> bool:
        return self.discovery.serves(*_group_version(name))

    def _discover(self, request: Request, path: str) -> Response:
        wants_all = "as=APIGroupDiscoveryList" in request.headers.get("accept", "")
        if path in ("/api", "/apis") and wants_all:
            return _tagged(request, *self.discovery.aggregated(core=path == "/api"))
        document = self._discovery_document(path.strip("/").split("/"))
        if document is None:
            raise errors.path_not_found()
        return reads.json_response(codec.encode(document))

    def _discovery_document(self, parts: list[str]) -> object | None:
        match parts:
            case [""]:
                return {"paths": ["/api", "/apis", *sorted(HEALTH_PATHS), "/metrics", "/version"]}
            case ["api"]:
                return self.discovery.core_versions()
            case ["api", version]:
                return self.discovery.resources("", version)
            case ["apis"]:
                return self.discovery.groups()
            case ["apis", group]:
                return self.discovery.group(group)
            case ["apis", group, version]:
                return self.discovery.resources(group, version)
        return None

    def _counted(self, call: Call, response: Response) -> Response:
        """Count a watch as open until its stream ends."""
        if response.stream is None:
            return response
        gauge, plural, stream = self.metrics.watches, call.kind.plural, response.stream

        async def counted() -> AsyncIterator[bytes]:
            gauge.set(plural, to=gauge.value(plural) + 1)
            try:
                async for chunk in stream:
                    yield chunk
            finally:
                gauge.set(plural, to=gauge.value(plural) - 1)

        return Response(response.status, response.headers, stream=counted())

    def _warned(self, info: RequestInfo, response: Response) -> Response:
        """Return the response, with a warning if its version is deprecated."""
        kind = kinds.by_resource(info.group, info.version, info.resource)
        if kind is None or not self.discovery.serves(info.group, info.version):
            return response
        text = versions.deprecation(kinds.api_version(info.group, info.version), kind.kind)
        if not text:
            return response
        return _with_warnings(response, [text], first=True)

    def _measure(self, info: RequestInfo, response: Response, seconds: float) -> None:
        # Not the client's text: every new label value would stay in memory.
        is_known = kinds.by_resource(info.group, info.version, info.resource) is not None
        group, resource = (info.group, info.resource) if is_known else ("", "")
        verb = info.verb if info.verb in MEASURED_VERBS else "other"
        self.metrics.requests.add(verb, group, resource, str(response.status))
        if response.stream is None:
            self.metrics.seconds.observe(seconds, verb, resource)


def _with_warnings(response: Response, texts: list[str], *, first: bool = False) -> Response:
    """Return the response with more warnings, before or after those that it has."""
    added = warning_headers.headers(texts).get("warning", "")
    values = [response.headers.get("warning", ""), added]
    warning = warning_headers.joined(reversed(values) if first else values)
    if not warning:
        return response
    return msgspec.structs.replace(response, headers={**response.headers, "warning": warning})


def _check_timeout(request: Request, info: RequestInfo) -> None:
    """Refuse a timeout that is no duration; what stays open has no timeout of this name."""
    text = request.parameter("timeout")
    is_open = info.verb == "watch" or info.subresource in _LONG_RUNNING
    if text and not is_open and not durations.is_go_duration(text):
        raise errors.bad_request(
            "invalid timeout specified in the request URL - "
            f"time: invalid duration {gotext.quote(text)}"
        )


def _check_acceptable(call: Call) -> None:
    """Raise 406 before the request has any effect; `includeObject` is part of the form."""
    if call.form.shape is Shape.TABLE:
        reads.included(call.request)


def _check_verb(call: Call) -> None:
    info = call.info
    subresource = call.kind.subresource(info.subresource) if info.subresource else None
    allowed = subresource.verbs if subresource else call.kind.verbs
    is_nowhere = call.kind.namespaced and not info.namespace
    if (
        # `LIST /…/secrets/a`: the right to list one object would be the right to list all.
        call.request.method not in request_info.METHODS
        or info.verb not in allowed
        or (info.verb == "create" and info.name)
        or (info.verb in ("update", "patch") and not info.name)
        or (info.verb in ("create", "deletecollection") and is_nowhere)
    ):
        raise _not_allowed()


def _is_in_scope(info: RequestInfo, kind: Kind) -> bool:
    """Return whether the path has a namespace if and only if the kind has one."""
    if not kind.is_stored and (info.name or bool(info.namespace) != kind.namespaced):
        return False
    if kind.namespaced:
        return bool(info.namespace) or not info.name
    return not info.namespace or kind.plural == "namespaces"


def _not_allowed() -> errors.MethodNotAllowed:
    return errors.MethodNotAllowed(
        "the server does not allow this method on the requested resource", errors.Details()
    )


def status_response(error: errors.StatusError) -> Response:
    headers = {"content-type": http_messages.JSON}
    if error.retry_after_seconds:
        headers["retry-after"] = str(error.retry_after_seconds)
    return Response(error.code, headers, codec.encode(errors.to_status(error)))


def _group_version(name: str) -> tuple[str, str]:
    parts = name.split("/")
    if parts[0] == "api" and len(parts) == 2:
        return "", parts[1]
    return (parts[1], parts[2]) if parts[0] == "apis" and len(parts) == 3 else ("", "")


def _tagged(
    request: Request, body: bytes, etag: str, content_type: str = discovery.AGGREGATED
) -> Response:
    headers = {"content-type": content_type, "etag": etag, "vary": "Accept"}
    if request.headers.get("if-none-match") == etag:
        return Response(304, headers)
    return Response(200, {**headers, "cache-control": "public"}, body)


def _text(
    body: str, content_type: str = "text/plain; charset=utf-8", status: int = 200
) -> Response:
    return Response(status, {"content-type": content_type}, body.encode())


def _now() -> datetime.datetime:
    """Return the time in whole seconds, as objects have it: `gotime.write` caches its text."""
    return datetime.datetime.fromtimestamp(int(time.time()), datetime.UTC)

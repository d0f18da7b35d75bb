"""What must not happen whatever an API server is asked: wrong answers, rights and states."""

from __future__ import annotations

import json
import logging
import traceback
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from dray.allocator import verifier
from dray.api import features, http_messages, kinds
from dray.api.conversion import canonical
from dray.api.http_messages import User
from dray.api.kinds import Kind
from dray.api.types.dra import ResourceClaim, ResourceSlice
from tests.security.fuzz_requests import Planned
from tests.wire.serving import ADMIN, Answer, Api

SIGNED_IN: Final = "system:authenticated"
USERS: Final = {
    "admin": ADMIN,
    "view": User("fuzz-view", frozenset({SIGNED_IN})),
    "edit": User("fuzz-edit", frozenset({SIGNED_IN})),
    "nobody": User("fuzz-nobody", frozenset({SIGNED_IN})),
    "anonymous": User("system:anonymous", frozenset({"system:unauthenticated"})),
    "node": User("system:node:node-1", frozenset({SIGNED_IN, "system:nodes"})),
}
FORBIDDEN: Final = 403
ALLOWED_5XX: Final = {
    "resourceVersion should not be set on objects to be created": "a create with a resourceVersion",
    "failed to create typed patch object": "a server-side apply of a field that does not exist",
    "target.name: ": "a binding without a node",
    "target.kind: ": "a binding to something else than a node",
    "This pod has more than one PodDisruptionBudget": "an eviction with two budgets",
    "Too large resource version": "504: a read that is not older than a revision to come",
}
"""The 5xx that Kubernetes 1.37 gives for the same request: a part of the text, and when."""
OPEN_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version")
FOR_SIGNED_IN: Final = ("/api", "/apis", "/openapi")
OWN_QUESTIONS: Final = (
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "selfsubjectrulesreviews",
)


class Broken(NamedTuple):
    """What must not have happened, and the requests before it."""

    what: str
    requests: tuple[Planned, ...]


class Errors(logging.Handler):
    """The last exception that was logged, as one line; nothing else of the log is of interest."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last = ""

    def install(self) -> None:
        """Take the place of what else would print the log."""
        logging.getLogger().handlers[:] = [self]

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        place = traceback.extract_tb(error.__traceback__)[-1]
        self.last = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"


ERRORS: Final = Errors()


async def give_rights(api: Api) -> None:
    """Bind the users that have a role to it."""
    for role in ("view", "edit"):
        binding = {
            "metadata": {"name": f"fuzz-{role}"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "User",
                    "name": f"fuzz-{role}",
                }
            ],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        answer = await api("POST", path, binding)
        assert answer.status == 201, answer.body


def wrong_answer(request: Planned, answer: Answer) -> str:
    """Return what is wrong with an answer; empty if nothing is."""
    body = answer.body
    if b"Traceback" in body or b'File "/' in body:
        return "a traceback in the answer"
    is_known = answer.status == 503 or any(text.encode() in body for text in ALLOWED_5XX)
    if answer.status >= 500 and not is_known:
        return f"{answer.status}, {ERRORS.last}: {body[:300]!r}"
    return _wrong_form(answer) or wrong_right(request, answer)


def _wrong_form(answer: Answer) -> str:
    media = answer.headers.get("content-type", "").split(";")[0]
    if media != http_messages.JSON or not answer.body:
        return ""
    is_stream = answer.body.startswith(b'{"type"')
    try:
        documents = [json.loads(line) for line in answer.body.splitlines()] if is_stream else []
        documents = documents or [json.loads(answer.body)]
    except ValueError as error:
        return f"no JSON: {error}"
    if answer.status >= 400 and not _is_status(documents[0], answer.status):
        return "no Status in the answer"
    return ""


def _is_status(document: Any, code: int) -> bool:
    return (
        isinstance(document, dict)
        and document.get("kind") == "Status"
        and document.get("status") == "Failure"
        and document.get("code") == code
        and isinstance(document.get("message"), str)
    )


def wrong_right(request: Planned, answer: Answer) -> str:
    """Return which right a user had that nobody gave; errors about the request come first."""
    if answer.status >= 400 or request.user in ("admin", "edit", "node"):
        return ""
    path = request.url.split("?")[0]
    last = path.rstrip("/").rpartition("/")[2]
    if any(path == each or path.startswith(f"{each}/") for each in OPEN_PATHS):
        return ""
    if request.user == "anonymous":
        return f"anonymous may: {request.method} {path}"
    if last in OWN_QUESTIONS or _is_discovery(path):
        return ""
    if request.user == "nobody":
        return f"a user without rights may: {request.method} {path}"
    if request.method not in ("GET", "HEAD") or "/secrets" in path:
        return f"a user with view may: {request.method} {path}"
    return ""


def _is_discovery(path: str) -> bool:
    """Return whether a path tells what is served: /apis, /apis/GROUP, /apis/GROUP/VERSION."""
    parts = path.strip("/").split("/")
    is_short = len(parts) <= (2 if parts[0] == "api" else 3)
    return f"/{parts[0]}" in FOR_SIGNED_IN and (is_short or parts[0] == "openapi")


async def wrong_state(api: Api) -> str:
    """Return what is wrong with the objects that are stored; empty if nothing is."""
    for kind in kinds.KINDS:
        if kind.is_stored and (wrong := await _wrong_objects(api, kind)):
            return wrong
    claims = [
        msgspec.convert(canonical.prune_nulls(each), ResourceClaim)
        for each in await _listed(api, kinds.RESOURCE_CLAIM)
    ]
    slices = [
        msgspec.convert(canonical.prune_nulls(each), ResourceSlice)
        for each in await _listed(api, kinds.RESOURCE_SLICE)
    ]
    held = verifier.find_violations(slices, claims, features.DEFAULT)
    twice = [str(each) for each in held if isinstance(each, verifier.HeldTwice)]
    return f"a device is held twice: {twice[0]}" if twice else ""


async def wrong_write(api: Api, request: Planned, answer: Answer) -> str:
    """Return what is wrong with the object that a request has written; empty if nothing is."""
    if answer.status not in (200, 201) or request.method not in ("POST", "PUT", "PATCH"):
        return ""
    if "dryRun" in request.url or "json" not in answer.headers.get("content-type", ""):
        return ""
    document = answer.json
    if not isinstance(document, dict):
        return ""
    group, _ = kinds.parse_api_version(document.get("apiVersion", ""))
    for kind in kinds.KINDS:
        if (kind.group, kind.kind) == (group, document.get("kind")) and kind.is_stored:
            metadata = document.get("metadata", {})
            return await _wrong_object(api, kind, metadata.get("namespace", ""), metadata["name"])
    return ""


async def _wrong_objects(api: Api, kind: Kind) -> str:
    for item in await _listed(api, kind):
        metadata = item["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if wrong := await _wrong_object(api, kind, namespace, name):
            return wrong
    return ""


async def _wrong_object(api: Api, kind: Kind, namespace: str, name: str) -> str:
    """Return whether an object cannot be read, or not be written as it was read."""
    path = path_of(kind, namespace, quote(name, safe=""))
    answer = await api("GET", path)
    if answer.status == 404:
        return ""
    if answer.status != 200:
        return f"{kind.kind} is stored and not readable: {path} gives {answer.status}"
    if "update" not in kind.verbs:
        return ""
    again = await api("PUT", path, answer.body)
    if again.status not in (200, 409) and not _is_refused_later(kind, again):
        return f"{kind.kind} is stored and not valid: {path}: {again.body[:500]!r}"
    if again.status == 200 and again.json != answer.json:
        changed = [key for key in again.json if again.json[key] != answer.json.get(key)]
        return f"{kind.kind} is changed by a write of the same: {changed} of {path}"
    return ""


def _is_refused_later(kind: Kind, answer: Answer) -> bool:
    """Return whether Kubernetes, too, stores such an object and refuses to update it.

    Duplicate addresses of a Node are only looked for in updates.
    https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/apis/core/validation/validation.go
    (ValidateNodeUpdate)
    """
    fields = [cause["field"] for cause in answer.json.get("details", {}).get("causes", ())]
    in_addresses = all(field.startswith("status.addresses[") for field in fields)
    return kind.kind == "Node" and answer.status == 422 and bool(fields) and in_addresses


async def _listed(api: Api, kind: Kind) -> list[Any]:
    answer = await api("GET", path_of(kind, "", ""))
    assert answer.status == 200, answer.body
    version = kinds.api_version(kind.group, kind.versions[0])
    return [{"apiVersion": version, "kind": kind.kind, **each} for each in answer.json["items"]]


def path_of(kind: Kind, namespace: str, name: str) -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    scope = f"/namespaces/{namespace}" if namespace else ""
    ending = f"/{name}" if name else ""
    return f"{root}/{kind.versions[0]}{scope}/{kind.plural}{ending}"

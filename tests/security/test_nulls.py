"""A null anywhere in an object means that there is nothing: the server never fails at it."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from dray.api import http_messages, kinds
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from tests.security import fuzz_api, fuzz_judge, fuzz_requests
from tests.security.fuzz_requests import Planned
from tests.wire.serving import Api

RESOURCE = {
    "namespace": "default",
    "verb": "get",
    "resource": "pods",
    "name": "a",
    "fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
    "labelSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
}
SUBJECT = {"user": "u", "groups": ["g"], "uid": "u", "extra": {"a": ["b"]}}
POD_PATH = "/api/v1/namespaces/default/pods/a"
REVIEWS = "/apis/authorization.k8s.io/v1"
OPTIONS = {
    "gracePeriodSeconds": 0,
    "preconditions": {"uid": "u", "resourceVersion": "1"},
    "propagationPolicy": "Background",
    "dryRun": ["All"],
}
BINDING = {
    "metadata": {"name": "a", "uid": "u", "annotations": {"a": "b"}, "labels": {"a": "b"}},
    "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
}
TOKEN = {
    "audiences": ["a"],
    "expirationSeconds": 600,
    "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"},
}
METADATA = {
    "name": "a",
    "generateName": "a-",
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "finalizers": ["example.com/a"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:a": {}}}],
}
FORMS: list[tuple[str, str, JsonObject]] = [
    ("POST", "/api/v1/namespaces/default/bindings", BINDING),
    ("POST", f"{POD_PATH}/binding", BINDING),
    ("POST", f"{POD_PATH}/eviction", {"metadata": {"name": "a"}, "deleteOptions": OPTIONS}),
    ("DELETE", POD_PATH, OPTIONS),
    ("DELETE", "/api/v1/namespaces/default/pods", OPTIONS),
    ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": TOKEN}),
    ("PUT", "/api/v1/namespaces/default/finalize", {"spec": {"finalizers": ["kubernetes"]}}),
    (
        *("PUT", "/apis/apps/v1/namespaces/default/deployments/a/scale"),
        {"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"replicas": 2}},
    ),
    (
        *("POST", f"{REVIEWS}/subjectaccessreviews"),
        {"metadata": {"name": "a"}, "spec": {**SUBJECT, "resourceAttributes": RESOURCE}},
    ),
    (
        *("POST", f"{REVIEWS}/namespaces/default/localsubjectaccessreviews"),
        {
            "metadata": {"namespace": "default"},
            "spec": {**SUBJECT, "resourceAttributes": RESOURCE},
        },
    ),
    (
        *("POST", f"{REVIEWS}/selfsubjectaccessreviews"),
        {"spec": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}},
    ),
    ("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}),
    (
        *("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        {"spec": {"token": "x", "audiences": ["a"]}},
    ),
    ("POST", "/api/v1/namespaces/default/configmaps", {"metadata": METADATA}),
    ("PUT", "/api/v1/namespaces/default/configmaps/a", {"metadata": METADATA}),
]
"""Bodies that are not stored, and metadata, with where they are sent."""

KINDS = [kind for kind in kinds.KINDS if kind.kind in fuzz_requests.SEEDS and kind.is_stored]
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.group}/{kind.kind}")
def test_a_null_in_any_place_is_answered(kind: Kind) -> None:
    asyncio.run(_ask_all(kind))


@pytest.mark.parametrize(("method", "path", "form"), FORMS)
def test_a_null_in_any_place_of_a_form_is_answered(
    method: str, path: str, form: JsonObject
) -> None:
    async def ask_all() -> None:
        async with fuzz_api.opened() as api:
            for kind in (kinds.POD, kinds.served("apps", "Deployment")):
                await _answered(api, kind, "POST", "", _object(kind))
            for document in _with_a_null(form, list(fuzz_requests.every_place(form))):
                await _ask(api, Planned(method, path, JSON, json.dumps(document).encode()))

    asyncio.run(ask_all())


async def _ask_all(kind: Kind) -> None:
    async with fuzz_api.opened() as api:
        whole = _object(kind)
        places = list(_values(whole))
        for number, document in enumerate(_with_a_null(whole, places)):
            named = {**document, "metadata": {"name": f"new-{number}"}}
            await _answered(api, kind, "POST", "", named)
        namespace = "default" if kind.namespaced else ""
        path = fuzz_judge.path_of(kind, namespace, "")
        await _ask(api, Planned("GET", path, {"accept": http_messages.PROTOBUF}, b""))
        existing = _object(kind)
        await _answered(api, kind, "POST", "", existing)
        for document in (existing, *_with_a_null(whole, places)):
            await _answered(api, kind, "PUT", "a", document)
            await _answered(api, kind, "PUT", "a/status", document)
            await _answered(api, kind, "PUT", "a/status", existing)


def _object(kind: Kind) -> JsonObject:
    version = kinds.api_version(kind.group, kind.versions[0])
    seed = copy.deepcopy(fuzz_requests.SEEDS[kind.kind])
    return {"apiVersion": version, "kind": kind.kind, "metadata": {"name": "a"}, **seed}


def _with_a_null(whole: JsonObject, places: Sequence[tuple[Any, Any]]) -> Iterator[JsonObject]:
    """Yield an object with a null in each of its places, one at a time."""
    for owner, key in places:
        value = owner[key]
        owner[key] = None
        yield copy.deepcopy(whole)
        owner[key] = value


def _values(document: JsonObject) -> Iterator[tuple[Any, Any]]:
    for key in sorted(document.keys() - {"apiVersion", "kind", "metadata"}):
        yield document, key
        yield from fuzz_requests.every_place(document[key])


async def _answered(api: Api, kind: Kind, method: str, name: str, document: JsonObject) -> None:
    namespace = "default" if kind.namespaced else ""
    request = Planned(
        method, fuzz_judge.path_of(kind, namespace, name), JSON, json.dumps(document).encode()
    )
    await _ask(api, request)


async def _ask(api: Api, request: Planned) -> None:
    wrong = fuzz_judge.wrong_answer(request, await fuzz_api.ask(api, request))
    assert not wrong, f"{request.method} {request.url} {request.body.decode()}"

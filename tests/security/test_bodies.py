"""Hostile bodies of every media type: each is refused, and the server goes on for others."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from dray.api import http_messages
from dray.api.http_messages import Request, Response
from dray.client.rest import RestTransport
from tests.robustness.server_process import ServerProcess
from tests.security import hostile_bodies
from tests.security.hostile_bodies import NAME, Bodies

# The client of the test has nothing else to do while it sends.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECONDS = 30.0
"""For one answer on a busy machine; what these bodies once did took minutes or never ended."""
IDEAS = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A process of its own: some of these bodies once ended the whole process."""
    process = ServerProcess(tmp_path_factory.mktemp("server"))
    process.start()
    body = json.dumps(hostile_bodies.config_map(data={"a": "b"})).encode()
    assert _asked(process, _request("POST", CONFIG_MAPS, http_messages.JSON, body)).status == 201
    yield process
    assert process.stop() == 0


def _request(method: str, path: str, content_type: str, body: bytes = b"") -> Request:
    query = (("fieldManager", "hostile"),) if method == "PATCH" else ()
    return Request(method, path, query, {"content-type": content_type}, body)


def _asked(server: ServerProcess, request: Request) -> Response:
    async def ask() -> Response:
        async with RestTransport(server.connection()) as transport, asyncio.timeout(SECONDS):
            return await transport.send(request)

    return asyncio.run(ask())


POSTED = {
    http_messages.JSON: hostile_bodies.json_bodies,
    http_messages.YAML: hostile_bodies.yaml_bodies,
    http_messages.PROTOBUF: hostile_bodies.protobuf_bodies,
}
PATCHED = {
    f"{http_messages.JSON_PATCH}": hostile_bodies.json_patch_bodies,
    f"{http_messages.MERGE_PATCH}": hostile_bodies.merge_patch_bodies,
    f"{http_messages.STRATEGIC_MERGE_PATCH}": hostile_bodies.strategic_merge_patch_bodies,
    f"{http_messages.APPLY_PATCH}; YAML": hostile_bodies.apply_yaml_bodies,
    f"{http_messages.APPLY_PATCH}; JSON": hostile_bodies.apply_json_bodies,
}
CODES = frozenset({400, 409, 413, 422})
"""What Kubernetes answers: unreadable, in conflict, too large, or against a rule."""


def _refusals(
    server: ServerProcess, method: str, path: str, content_type: str, bodies: Bodies
) -> dict[str, int]:
    """Send every body, and look for the server after each; the codes of the answers."""

    async def send() -> dict[str, int]:
        codes = {}
        async with RestTransport(server.connection()) as transport:
            before = await transport.send(_request("GET", f"{CONFIG_MAPS}/{NAME}", ""))
            for name, body in bodies.items():
                async with asyncio.timeout(SECONDS):
                    answer = await transport.send(_request(method, path, content_type, body))
                    after = await transport.send(_request("GET", f"{CONFIG_MAPS}/{NAME}", ""))
                codes[name] = answer.status
                assert after.body == before.body, f"{name} has changed the object"
        return codes

    return asyncio.run(send())


@pytest.mark.parametrize("content_type", POSTED)
def test_hostile_objects_are_refused(server: ServerProcess, content_type: str) -> None:
    bodies = POSTED[content_type]()
    assert len(set(bodies.values())) >= IDEAS
    codes = _refusals(server, "POST", CONFIG_MAPS, content_type, bodies)
    assert {name: code for name, code in codes.items() if code not in CODES - {409}} == {}


@pytest.mark.parametrize("content_type", PATCHED)
def test_hostile_patches_are_refused(server: ServerProcess, content_type: str) -> None:
    bodies = PATCHED[content_type]()
    assert len(set(bodies.values())) >= IDEAS
    media_type = content_type.partition(";")[0]
    codes = _refusals(server, "PATCH", f"{CONFIG_MAPS}/{NAME}", media_type, bodies)
    assert {name: code for name, code in codes.items() if code not in CODES} == {}


LARGE = "x" * 1_600_000
PODS = "/api/v1/namespaces/default/pods"


def test_objects_that_no_store_takes_are_refused(server: ServerProcess) -> None:
    """By a create and by each way in which an object grows."""
    container = {"name": "c", "image": "i"}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    large = {"metadata": {"name": "q"}, "spec": {"containers": [{**container, "args": [LARGE]}]}}
    status = {"status": {"message": LARGE}}
    applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **status}
    replaced = [{"op": "add", "path": "/status/message", "value": LARGE}]
    assert _code(server, "POST", PODS, http_messages.JSON, pod) == 201
    assert _code(server, "POST", PODS, http_messages.JSON, large) == 413
    path = f"{PODS}/p/status"
    assert _code(server, "PATCH", path, http_messages.MERGE_PATCH, status) == 413
    assert _code(server, "PATCH", path, http_messages.STRATEGIC_MERGE_PATCH, status) == 413
    assert _code(server, "PATCH", path, http_messages.JSON_PATCH, replaced) == 413
    assert _code(server, "PATCH", path, http_messages.APPLY_PATCH, applied) == 413
    assert _code(server, "PUT", path, http_messages.JSON, {**pod, **status}) == 413


def _code(server: ServerProcess, method: str, path: str, content_type: str, body: Any) -> int:
    return _asked(server, _request(method, path, content_type, json.dumps(body).encode())).status


def test_managed_fields_of_a_client_may_be_anything(server: ServerProcess) -> None:
    """What is no set of fields counts for nothing, in this and in every later write."""
    entry = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    odd: list[Any] = [
        [],
        1,
        {"f:data": 1},
        {"f:data": {"f:a": []}},
        {"k:{": {"v:": {}}},
        {"": None},
    ]
    for number, fields in enumerate(odd):
        body = hostile_bodies.config_map(data={"a": "b"})
        body["metadata"] = {"name": f"m{number}", "managedFields": [{**entry, "fieldsV1": fields}]}
        path = f"{CONFIG_MAPS}/m{number}"
        assert _code(server, "POST", CONFIG_MAPS, http_messages.JSON, body) == 201, fields
        change = {
            "data": {"a": "c"},
            "metadata": {"managedFields": body["metadata"]["managedFields"]},
        }
        assert _code(server, "PATCH", path, http_messages.MERGE_PATCH, change) == 200, fields
        del body["metadata"]["managedFields"]
        code = _code(server, "PATCH", path, http_messages.APPLY_PATCH, body)
        assert code in (200, 409), fields


def _token(**changes: Any) -> str:
    """Return a token of a list's next page that the server never made."""
    token = {"v": "meta.k8s.io/v1", "rv": 1, "start": "a", **changes}
    return base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")


QUERIES = {
    "resourceVersion": [hostile_bodies.DIGITS, "-1", "1e3", "x", "\u0661", " 1", "1_0"],
    "limit": [hostile_bodies.DIGITS, "x", "1.5", "\u0661", "1_0"],
    "timeoutSeconds": [hostile_bodies.DIGITS, "x", "-" + hostile_bodies.DIGITS],
    "labelSelector": ["(" * 10_000, "a in (" + "x," * 10_000, "!" * 10_000, "a==b==c", "\0"],
    "fieldSelector": ["(" * 10_000, "x" * 10_000, "spec.x=1", "metadata.name=" + "a," * 5_000],
    "continue": ["x", "W10", "bnVsbA", "e30", "A" * 10_000, _token(rv=10**30), _token(rv="x")],
}


@pytest.mark.parametrize("parameter", QUERIES)
def test_hostile_queries_are_refused(server: ServerProcess, parameter: str) -> None:
    for value in QUERIES[parameter]:
        request = Request("GET", CONFIG_MAPS, ((parameter, value),), {}, b"")
        assert _asked(server, request).status == 400, value[:80]

"""A client that speaks protobuf alone, as client-go can: every verb, in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.api import http_messages
from dray.apiserver.request import protobuf, protobuf_encoding
from tests.wire import serving
from tests.wire.serving import Api

PROTOBUF = http_messages.PROTOBUF
PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/replicasets"


class ProtobufClient:
    """Sends and accepts protobuf only."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def __call__(
        self, method: str, url: str, document: Any = None, *, accept: str = PROTOBUF
    ) -> tuple[int, Any]:
        body = None if document is None else protobuf_encoding.encode(document)
        answer = await self._api(method, url, body, content_type=PROTOBUF, accept=accept)
        assert answer.headers["content-type"] == PROTOBUF, answer.body
        return answer.status, protobuf.decode(answer.body)


def pod(name: str) -> dict[str, Any]:
    """A pod with fields that Go embeds: a volume's source and a probe's handler."""
    probe = {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 3}
    container = {"name": "c", "image": "example.com/i:1", "livenessProbe": probe}
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": [container], "volumes": volumes},
    }


def options(api_version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "DeleteOptions", **fields}


def test_objects_are_those_that_json_clients_see(tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        client = ProtobufClient(api)
        status, made = await client("POST", PODS, pod("a"))
        assert status == 201
        as_json = (await api("GET", f"{PODS}/a")).json
        assert as_json["spec"]["volumes"][0]["emptyDir"] == {"sizeLimit": "1Gi"}
        assert as_json["spec"]["containers"][0]["livenessProbe"]["httpGet"]["port"] == "web"
        assert made["metadata"]["uid"] == as_json["metadata"]["uid"]
        assert await client("GET", f"{PODS}/a") == (200, as_json)
        as_json["metadata"]["labels"]["app"] = "y"
        status, updated = await client("PUT", f"{PODS}/a", as_json)
        assert (status, updated["metadata"]["labels"]) == (200, {"app": "y"})
        status, listed = await client("GET", PODS)
        expected = (await api("GET", PODS)).json
        assert (status, listed) == (200, expected)

    serving.with_api(conversation, tmp_path)


def test_deletions_take_options_in_the_group_of_their_objects(tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        client = ProtobufClient(api)
        template = {key: pod("")[key] for key in ("metadata", "spec")}
        replica_set = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template},
        }
        assert (await client("POST", SETS, replica_set))[0] == 201
        dry = options("apps/v1", dryRun=["All"], propagationPolicy="Background")
        assert (await client("DELETE", f"{SETS}/a", dry))[0] == 200
        assert (await client("GET", f"{SETS}/a"))[0] == 200
        status, refusal = await client(
            "DELETE", f"{SETS}/a", options("apps/v1", preconditions={"uid": "other"})
        )
        assert (status, refusal["reason"]) == (409, "Conflict")
        status, answer = await client("DELETE", f"{SETS}/a", options("apps/v1"))
        assert (status, answer["kind"], answer["status"]) == (200, "Status", "Success")
        for name in ("a", "b"):
            await client("POST", PODS, pod(name))
        status, gone = await client("DELETE", PODS, options("v1", gracePeriodSeconds=0))
        assert (status, gone["kind"], len(gone["items"])) == (200, "PodList", 2)
        assert (await client("GET", PODS))[1].get("items", []) == []

    serving.with_api(conversation, tmp_path)


def test_subresources_and_reviews(tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        client = ProtobufClient(api)
        token = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        assert (await client("POST", accounts, account))[0] == 201
        status, given = await client("POST", f"{accounts}/a/token", token)
        assert status == 201
        assert given["status"]["token"]
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": given["status"]["token"]},
        }
        status, reviewed = await client(
            "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review
        )
        assert (status, reviewed["status"]["authenticated"]) == (201, True)
        await client("POST", PODS, pod("a"))
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "a"},
            "deleteOptions": {"gracePeriodSeconds": 0},
        }
        status, answer = await client("POST", f"{PODS}/a/eviction", eviction)
        assert (status, answer["status"]) == (201, "Success")

    serving.with_api(conversation, tmp_path)


def test_errors_are_statuses(tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        client = ProtobufClient(api)
        status, refusal = await client("GET", f"{PODS}/none")
        assert (status, refusal["reason"], refusal["code"]) == (404, "NotFound", 404)
        bad = pod("A b")
        status, refusal = await client("POST", PODS, bad)
        assert status == 422
        assert refusal["details"]["causes"][0]["field"] == "metadata.name"

    serving.with_api(conversation, tmp_path)


def test_events_of_a_watch_are_frames(tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        await api("POST", PODS, pod("a"))
        await api("POST", PODS, pod("b"))
        listed = (await api("GET", PODS)).json
        watched = await api("GET", f"{PODS}?watch=1&timeoutSeconds=1", accept=PROTOBUF)
        assert watched.headers["content-type"] == f"{PROTOBUF};stream=watch"
        events = list(frames(watched.body))
        assert [type_ for type_, _ in events] == ["ADDED", "ADDED"]
        found = [event["metadata"] for _, event in events]
        assert found == [item["metadata"] for item in listed["items"]]
        assert all(event["kind"] == "Pod" for _, event in events)

    serving.with_api(conversation, tmp_path)


def frames(data: bytes) -> Any:
    """The events: a length in four bytes, then the type and the object's own body."""
    while data:
        length = int.from_bytes(data[:4], "big")
        message: dict[int, Any] = dict(protobuf._fields(data[4 : 4 + length]))
        raw: Any = dict(protobuf._fields(message[2]))[1]
        yield message[1].decode(), protobuf.decode(raw)
        data = data[4 + length :]


METADATA = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
TABLE = "as=Table;g=meta.k8s.io;v=v1"


def test_metadata_alone(tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        await api("POST", PODS, pod("a"))
        accept = f"{PROTOBUF};{METADATA}"
        answer = await api("GET", f"{PODS}/a", accept=accept)
        assert answer.headers["content-type"] == PROTOBUF
        expected = (await api("GET", f"{PODS}/a")).json["metadata"]
        assert protobuf.decode(answer.body) == {
            "apiVersion": "meta.k8s.io/v1",
            "kind": "PartialObjectMetadata",
            "metadata": expected,
        }

    serving.with_api(conversation, tmp_path)


@pytest.mark.parametrize(
    ("accept", "status", "content_type"),
    [
        (PROTOBUF, 200, PROTOBUF),
        (f"{PROTOBUF},application/json", 200, "application/json"),
        (f"{PROTOBUF}, */*", 200, "application/json"),
        (f"application/json;q=0.5,{PROTOBUF}", 200, "application/json"),
        (f"{PROTOBUF};{METADATA},application/json", 200, PROTOBUF),
        (f"{PROTOBUF};{METADATA},application/json;{METADATA}", 200, "application/json"),
        (f"{PROTOBUF};{TABLE}", 406, "application/json"),
        (f"{PROTOBUF};{TABLE},{PROTOBUF}", 200, PROTOBUF),
        (f"application/json;{TABLE},{PROTOBUF}", 200, "application/json"),
        ("application/yaml;q=0.1,application/json;q=0.9", 200, "application/json"),
        ("application/json;q=0.1,application/yaml;q=0.9", 200, "application/yaml"),
    ],
)
def test_the_form_of_the_answer(
    accept: str, status: int, content_type: str, tmp_path: Path
) -> None:
    async def conversation(api: Api) -> None:
        await api("POST", PODS, pod("a"))
        answer = await api("GET", f"{PODS}/a", accept=accept)
        assert (answer.status, answer.headers["content-type"]) == (status, content_type)

    serving.with_api(conversation, tmp_path)


def test_a_review_has_no_table(tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}},
        }
        url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await api("POST", url, review, accept=f"application/json;{TABLE}")
        assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")
        both = f"application/json;{TABLE},application/json"
        answer = await api("POST", url, review, accept=both)
        assert (answer.status, answer.json["kind"]) == (201, "SelfSubjectAccessReview")

    serving.with_api(conversation, tmp_path)


def test_discovery(tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        client = ProtobufClient(api)
        for path in ("/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1"):
            expected = (await api("GET", path)).json
            status, found = await client("GET", path)
            assert (status, found) == (200, {"apiVersion": "v1", **expected}), path
        # What is no object of the API is JSON for everybody.
        version = await api("GET", "/version", accept=PROTOBUF)
        assert version.json["minor"] == "37"

    serving.with_api(conversation, tmp_path)

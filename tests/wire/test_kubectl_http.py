"""Every HTTP call of 114 kubectl commands to a real Kubernetes 1.37, made again: same status, same
content type.

What a call is about is there or not there before it, as its recorded status says. The recording
cuts long bodies; those are replaced by ones of the same kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from dray.api import kinds
from dray.api.http_messages import PROTOBUF, Request
from dray.api.types.meta import JsonObject
from dray.apiserver.request import request_info
from dray.apiserver.request.request_info import RequestInfo
from tests.recorded import GOLDEN
from tests.wire import protobuf
from tests.wire.serving import ADMIN, Api, with_api

CUT_AT = 280
"""Bodies longer than this may be cut."""

EXCEPTIONS = {
    "horizontalpodautoscalers": "not served",
    "/portforward": "not served",
    "/exec": "no node runs the pod here, so there is nothing to switch to",
    "/attach": "no node runs the pod here, so there is nothing to switch to",
    "/log": "no node runs the pod here, so its log is empty: 204",
    "80-drain POST /api/v1/namespaces/default/pods/solo2/eviction": "recorded with the answer of "
    "another call that was made at the same time",
    "80-drain GET /api/v1/namespaces/default/pods/solo 201": "recorded with the answer of another "
    "call that was made at the same time",
}
"""Calls that dray answers otherwise, and why; docs/compatibility.md tells them too."""


class Recorded(NamedTuple):
    command: str
    method: str
    url: str
    headers: dict[str, str]
    status: int
    content_type: str
    body: str

    @property
    def label(self) -> str:
        return f"{self.command} {self.method} {self.url} {self.status}"

    @property
    def info(self) -> RequestInfo:
        parts = urlsplit(self.url)
        query = tuple(parse_qsl(parts.query))
        return request_info.parse(Request(self.method, parts.path, query))


_ANSWER = re.compile(r" {4}Accept: (.*?)(?: \| (.*?))? -> (\d*)[^(]*\((.*)\)$")


def read_recording() -> Iterator[Recorded]:
    command, request = "", ""
    lines = GOLDEN.read("kubectl-http.txt").split("\n")
    for number, line in enumerate(lines):
        answer = _ANSWER.match(line)
        if line.startswith("## "):
            command = line[3:].split(" ")[0]
        elif answer and request:
            following = lines[number + 1] if number + 1 < len(lines) else ""
            body = following.removeprefix("    body: ") if "    body: " in following else ""
            yield _parse(command, request, answer, body.strip("\t"))
        elif re.match(r"[A-Z]+ /", line):
            request = line


def _parse(command: str, request: str, answer: re.Match[str], body: str) -> Recorded:
    method, url = request.split(" ", 1)
    accept, sent, status, content_type = answer.groups()
    headers = {} if accept == "None" else {"accept": accept}
    if sent and sent.startswith("Content-Type: "):
        headers["content_type"] = sent.removeprefix("Content-Type: ")
    return Recorded(command, method, url, headers, int(status or 0), content_type, body)


RECORDED = list(read_recording())


def reason_of_exception(recorded: Recorded) -> str | None:
    path = urlsplit(recorded.url).path
    for pattern, reason in EXCEPTIONS.items():
        if pattern in recorded.label if " " in pattern else pattern in path:
            return reason
    return None


class Answered(NamedTuple):
    status: int
    content_type: str
    body: bytes


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Answered]:
    async def replay(api: Api) -> list[Answered]:
        world = World(api)
        return [await world.answer(recorded) for recorded in RECORDED]

    return with_api(replay, tmp_path_factory.mktemp("keys"))


class World:
    """The objects that the recorded calls are about, made and removed as each call needs it."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def answer(self, recorded: Recorded) -> Answered:
        await self._arrange(recorded)
        url = await self._current_url(recorded)
        body = await self._body(recorded)
        parts = urlsplit(url)
        request = Request(
            recorded.method,
            parts.path,
            tuple(parse_qsl(parts.query)),
            {name.replace("_", "-"): value for name, value in recorded.headers.items()},
            body,
        )
        response = await self._api.opened.app.handle(request, ADMIN)
        if response.stream is not None:
            await response.stream.aclose()  # type: ignore[attr-defined]
        return Answered(response.status, response.headers.get("content-type", ""), response.body)

    async def _arrange(self, recorded: Recorded) -> None:
        info = recorded.info
        if not info.is_resource or "reviews" in info.resource:
            return
        if info.name:
            await self._set(info, info.name, exists=recorded.status != 404)
        elif recorded.method == "POST" and recorded.status == 201:
            await self._set(info, name_in(recorded), exists=False)

    async def _set(self, info: RequestInfo, name: str, *, exists: bool) -> None:
        kind = kinds.by_resource(info.group, info.version, info.resource)
        if kind is None:
            return
        root = f"/apis/{info.group}" if info.group else "/api"
        scope = f"/namespaces/{info.namespace}" if kind.namespaced else ""
        collection = f"{root}/{info.version}{scope}/{info.resource}"
        found = await self._api("GET", f"{collection}/{name}")
        if exists and found.status == 404:
            made = await self._api("POST", collection, make(info.resource, name))
            assert made.status == 201, made.body
        elif not exists and found.status == 200:
            await self._api("DELETE", f"{collection}/{name}?gracePeriodSeconds=0")

    async def _current_url(self, recorded: Recorded) -> str:
        """Revisions and tokens of the recorded server mean nothing here."""
        parts = urlsplit(recorded.url)
        query = dict(parse_qsl(parts.query))
        if "resourceVersion" in query:
            listed = await self._api("GET", parts.path)
            query["resourceVersion"] = listed.json["metadata"]["resourceVersion"]
        if "continue" in query:
            for number in range(2):
                await self._set(recorded.info, f"page-{number}", exists=True)
            listed = await self._api("GET", f"{parts.path}?limit=1")
            query["continue"] = listed.json["metadata"]["continue"]
        return parts._replace(query=urlencode(query)).geturl()

    async def _body(self, recorded: Recorded) -> bytes:
        if recorded.method in ("GET", "HEAD"):
            return b""
        document = read_body(recorded)
        if recorded.headers.get("content_type") == PROTOBUF:
            return protobuf.encode(document)
        if isinstance(document, dict) and document.get("metadata", {}).get("resourceVersion"):
            await self._make_current(recorded, document)
        return json.dumps(document).encode()

    async def _make_current(self, recorded: Recorded, document: JsonObject) -> None:
        path = urlsplit(recorded.url).path
        current = (await self._api("GET", path)).json["metadata"]
        wanted = document["metadata"]
        if recorded.status != 409:
            wanted["resourceVersion"] = current["resourceVersion"]
        if "uid" in wanted:
            wanted["uid"] = current["uid"]


def name_in(recorded: Recorded) -> str:
    """The name in a body, be it JSON that is cut off or protobuf."""
    named = re.search(r'"name\\*":\\*"([\w.-]+)', recorded.body)
    return named[1] if named else NAMES.get(recorded.info.resource, "made")


NAMES = {
    "jobs": "j1",
    "namespaces": "tmp-ns",
    "deployments": "d1",
    "configmaps": "cm1",
    "serviceaccounts": "sa1",
}


def read_body(recorded: Recorded) -> Any:
    """The body as it was, or one of the same kind where the recording does not have all of it."""
    text = recorded.body
    if text.startswith('"') and len(text) < CUT_AT:
        text = json.loads(text)
    try:
        return json.loads(text) if text else {}
    except ValueError:
        pass
    info, content_type = recorded.info, recorded.headers.get("content_type", "")
    if "json-patch" in content_type:
        return [{"op": "add", "path": "/metadata/annotations", "value": {"replayed": "yes"}}]
    if "merge-patch" in content_type:
        return {"metadata": {"annotations": {"replayed": "yes"}}}
    document = make(info.resource, info.name or name_in(recorded), info.subresource)
    if "apply-patch" in content_type:
        # Of those that are applied, only annotations are long enough to be cut.
        del document["spec"]
        document["metadata"]["annotations"] = {"replayed": "yes"}
    if "reviews" in info.resource:
        del document["metadata"]
    return document


def make(plural: str, name: str, subresource: str = "") -> JsonObject:
    """An object of a kind that the recorded commands use."""
    group, kind, rest = MADE[f"{plural}/{subresource}" if subresource else plural]
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name}, **rest}


_CONTAINERS = {"containers": [{"name": "c", "image": "pause"}]}
_TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": _CONTAINERS}
_DEVICES = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
}
_POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}
_JOB_TEMPLATE = {"spec": {**_CONTAINERS, "restartPolicy": "Never"}}
MADE: dict[str, tuple[str, str, JsonObject]] = {
    "pods": ("v1", "Pod", {"spec": _CONTAINERS}),
    "pods/eviction": ("policy/v1", "Eviction", {}),
    "nodes": ("v1", "Node", {}),
    "namespaces": ("v1", "Namespace", {}),
    "configmaps": ("v1", "ConfigMap", {"data": {"a": "b"}}),
    "serviceaccounts": ("v1", "ServiceAccount", {}),
    "serviceaccounts/token": ("authentication.k8s.io/v1", "TokenRequest", {"spec": {}}),
    "jobs": ("batch/v1", "Job", {"spec": {"template": _JOB_TEMPLATE}}),
    "deployments": (
        "apps/v1",
        "Deployment",
        {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": _TEMPLATE}},
    ),
    "deviceclasses": ("resource.k8s.io/v1", "DeviceClass", {"spec": {}}),
    "resourceclaims": ("resource.k8s.io/v1", "ResourceClaim", {"spec": _DEVICES}),
    "resourceclaimtemplates": (
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        {"spec": {"spec": _DEVICES}},
    ),
    "resourceslices": (
        "resource.k8s.io/v1",
        "ResourceSlice",
        {"spec": {"driver": "d", "nodeName": "n", "pool": _POOL, "devices": []}},
    ),
    "selfsubjectaccessreviews": (
        "authorization.k8s.io/v1",
        "SelfSubjectAccessReview",
        {"spec": {"resourceAttributes": {"verb": "create", "resource": "resourceclaims"}}},
    ),
    "selfsubjectrulesreviews": (
        "authorization.k8s.io/v1",
        "SelfSubjectRulesReview",
        {"spec": {"namespace": "default"}},
    ),
    "selfsubjectreviews": ("authentication.k8s.io/v1", "SelfSubjectReview", {}),
    "horizontalpodautoscalers": ("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": {}}),
}


@pytest.mark.parametrize("number", range(len(RECORDED)), ids=[each.label for each in RECORDED])
def test_same_status_and_content_type(number: int, answers: list[Answered]) -> None:
    recorded, found = RECORDED[number], answers[number]
    if reason_of_exception(recorded):
        return
    assert found.status == recorded.status, found.body
    # Whoever accepts protobuf here accepts JSON too, which is what dray answers.
    expected = recorded.content_type.replace(PROTOBUF, "application/json")
    assert found.content_type == expected


def test_exceptions_are_few_and_real(answers: list[Answered]) -> None:
    exceptional = [
        (recorded, found)
        for recorded, found in zip(RECORDED, answers, strict=True)
        if reason_of_exception(recorded)
    ]
    assert len(exceptional) <= 0.05 * len(RECORDED)
    assert all(found.status != recorded.status for recorded, found in exceptional)

"""A recorded conversation with a real Kubernetes 1.37, held again with dray: request by request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import yaml

from dray.api.http_messages import User
from dray.apiserver.server import Settings
from tests.recorded import GOLDEN
from tests.wire.serving import ADMIN, Answer, Api, all_alpha, with_api

# What is recorded of these is cut off, or is about what dray does not have.
NOT_COMPARED = {
    "/openapi/v2": "dray serves OpenAPI v3 only; kubectl asks for v2 where there is no v3",
    "/": "lists paths of parts that dray does not have",
    "/readyz": "names the checks of another program",
    "/version": "says which build it is",
    "/api/v1/namespaces/default/pods/rawp": "its kubelet had ended it by then",
}
VOLATILE = re.compile(
    r'"(uid|resourceVersion|creationTimestamp|deletionTimestamp|time|lastTransitionTime|'
    r'serverAddress|continue|remainingItemCount)": ?("[^"]*"|\d+)'
)

RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<=kube-api-access-)\w{5}"
)


class Recorded(NamedTuple):
    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    status: int
    answer: str

    @property
    def label(self) -> str:
        return f"{self.method} {self.url}"


def read_transcript() -> Iterator[Recorded]:
    for block in GOLDEN.read("100-raw-http/output.txt").split("\n### curl ")[1:]:
        command, _, rest = block.partition("\nHTTP/2 ")
        if not rest:
            continue
        head, _, answer = rest.partition("\n\n")
        yield _parse(command, int(head[:3]), answer)


def _parse(command: str, status: int, answer: str) -> Recorded:
    arguments, _, url = command.rpartition("https://127.0.0.1:16443")
    method = re.search(r"-X (\w+)", arguments)
    headers = {
        name.lower().replace("-", "_"): value.strip()
        for name, value in re.findall(r"-H ([\w-]+):(.*?)(?= -[a-zA-Z-]+ | *$)", arguments, re.S)
    }
    body = re.search(r"(?:-d|--data-binary) (.*?)(?= -H | *$)", arguments, re.S)
    return Recorded(
        method[1] if method else "GET",
        url.strip(),
        headers,
        (body[1] if body else "").encode(),
        status,
        answer.strip(),
    )


RECORDED = list(read_transcript())


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """dray's answers, in order; the world before them is that of the recording."""

    async def converse(api: Api) -> list[Answer]:
        await prepare(api)
        return [
            await api(
                each.method,
                each.url,
                each.body or None,
                user=User("admin", ADMIN.groups, uid="recorded"),
                **{"user_agent": "curl/7.88.1", "content_type": "", **each.headers},
            )
            for each in RECORDED
        ]

    settings = Settings(features=all_alpha(), mounts_tokens=True)
    return with_api(converse, tmp_path_factory.mktemp("keys"), settings)


async def prepare(api: Api) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await api("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    for number in range(5):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}"}}
        await api("POST", "/api/v1/nodes", node)
    manifest = GOLDEN.read("001-deviceclass/manifest.yaml")
    await api("POST", "/apis/resource.k8s.io/v1/deviceclasses", yaml.safe_load(manifest))
    for number in range(5):
        name = f"node-{number}"
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": []}
        metadata = {"name": f"{name}-gpu.example.com"}
        piece = {"metadata": metadata, "spec": spec, "kind": "ResourceSlice"}
        piece["apiVersion"] = "resource.k8s.io/v1"
        await api("POST", "/apis/resource.k8s.io/v1/resourceslices", piece)


@pytest.mark.parametrize("number", range(len(RECORDED)), ids=[each.label for each in RECORDED])
def test_same_answer(number: int, answers: list[Answer]) -> None:
    recorded, found = RECORDED[number], answers[number]
    path = recorded.url.split("?")[0]
    if path in NOT_COMPARED:
        return
    assert found.status == recorded.status, found.body
    if (
        "watch=1" in recorded.url
        or "openapi" in path
        or "yaml" in recorded.headers.get("accept", "")
    ):
        return
    expected, actual = shape(recorded.answer), shape(found.body.decode())
    if expected is not None and found.status >= 400:
        assert actual == expected
    elif expected is not None and isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in ("kind", "apiVersion", "spec", "status", "versions", "columnDefinitions"):
            assert actual.get(key) == expected.get(key), key


def shape(text: str) -> Any:
    """The JSON without what differs from run to run; None where the recording is cut off."""
    try:
        return json.loads(RANDOM.sub("*", VOLATILE.sub(r'"\1": "*"', text)))
    except ValueError:
        return None

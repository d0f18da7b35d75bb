"""What no sensible client sends is refused, and neither fails nor hangs the server."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from dray.api import http_messages
from tests.wire.serving import Answer, Api, with_api

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": []}},
}


def ask(
    tmp_path: Path, method: str, url: str, body: Any = None, content_type: str = http_messages.JSON
) -> Answer:
    async def converse(api: Api) -> Answer:
        created = await api("POST", CLAIMS, CLAIM)
        assert created.status == 201
        return await api(method, url, body, content_type=content_type)

    return with_api(converse, tmp_path)


def bomb() -> bytes:
    """A few lines of YAML that name each other nine times over, nine levels deep."""
    letters = "abcdefghi"
    lines = ["a: &a [x]"]
    for before, name in itertools.pairwise(letters):
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]")
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param(http_messages.JSON, b"[" * 100_000, id="open brackets"),
        pytest.param(http_messages.JSON, b'{"a":' * 300 + b"1" + b"}" * 300, id="deep"),
        pytest.param(http_messages.JSON, b"\xff\xfe", id="no text"),
        pytest.param(http_messages.JSON, b"7", id="a number"),
        pytest.param(http_messages.YAML, bomb(), id="aliases of aliases"),
        pytest.param(http_messages.YAML, b"a: [" * 300, id="open lists"),
        pytest.param(http_messages.YAML, b"!!python/object/apply:os.system [ls]", id="a command"),
        pytest.param(http_messages.PROTOBUF, b"k8s\0\x0a\xff", id="cut protobuf"),
    ],
)
def test_bodies_that_are_no_objects(tmp_path: Path, content_type: str, body: bytes) -> None:
    assert ask(tmp_path, "POST", CONFIG_MAPS, body, content_type=content_type).status == 400


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (http_messages.JSON_PATCH, b'[{"op": {}, "path": "/a"}]'),
        (http_messages.JSON_PATCH, b'[{"op": "remove", "path": ""}]'),
        (http_messages.JSON_PATCH, b'{"op": "remove"}'),
        (http_messages.MERGE_PATCH, b"7"),
        (http_messages.MERGE_PATCH, b'{"a":' * 300 + b"1" + b"}" * 300),
        (http_messages.STRATEGIC_MERGE_PATCH, b'["no object"]'),
        (http_messages.APPLY_PATCH, bomb()),
    ],
)
def test_patches_that_are_none(tmp_path: Path, content_type: str, body: bytes) -> None:
    url = f"{CLAIMS}/c?fieldManager=x"
    answer = ask(tmp_path, "PATCH", url, body, content_type=content_type)
    assert answer.status in (400, 422), answer.body


@pytest.mark.parametrize(
    "options",
    [
        {"propagationPolicy": 1},
        {"preconditions": "x"},
        {"gracePeriodSeconds": "soon"},
        {"dryRun": "All"},
    ],
)
def test_delete_options_of_the_wrong_type(tmp_path: Path, options: dict[str, Any]) -> None:
    answer = ask(tmp_path, "DELETE", f"{CLAIMS}/c", options)
    assert answer.status == 400
    assert "cannot unmarshal" in answer.json["message"]


def test_a_field_of_another_version_is_unknown_and_has_no_meaning(tmp_path: Path) -> None:
    """In v1beta1 a device has its attributes under `basic`; beside it they are dropped."""
    device = {"name": "gpu-0", "attributes": {"a": "no attribute"}, "basic": {}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "n", "pool": pool, "devices": [device]}
    body = {"metadata": {"name": "old"}, "spec": spec}
    answer = ask(tmp_path, "POST", "/apis/resource.k8s.io/v1beta1/resourceslices", body)
    assert answer.status == 201, answer.body
    assert answer.json["spec"]["devices"] == [{"name": "gpu-0", "basic": {}}]
    assert 'unknown field \\"spec.devices[0].attributes\\"' in answer.headers["warning"]


def test_long_warnings_are_cut(tmp_path: Path) -> None:
    unknown = {f"{'x' * 1000}{number}": 1 for number in range(50)}
    answer = ask(tmp_path, "POST", CONFIG_MAPS, {"metadata": {"name": "x"}, **unknown})
    assert answer.status == 201
    assert 4000 < len(answer.headers["warning"]) < 5500


def test_a_question_about_nothing(tmp_path: Path) -> None:
    url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert ask(tmp_path, "POST", url, {"spec": None}).status == 422


def test_who_cannot_be_answered_has_changed_nothing(tmp_path: Path) -> None:
    async def converse(api: Api) -> tuple[Answer, Answer]:
        refused = await api("POST", CLAIMS, CLAIM, accept="text/csv")
        return refused, await api("GET", f"{CLAIMS}/c")

    refused, found = with_api(converse, tmp_path)
    assert (refused.status, found.status) == (406, 404)


def test_numbers_beyond_all_bounds(tmp_path: Path) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"priority": 10**40, "containers": []}}
    url = "/api/v1/namespaces/default/pods"
    answer = ask(tmp_path, "POST", url, json.dumps(pod).encode())
    assert answer.status == 400
    assert ask(tmp_path, "GET", f"{url}?limit={'9' * 40}").status in (200, 400)
    assert ask(tmp_path, "GET", f"{url}?resourceVersion={'9' * 40}").status in (400, 504)

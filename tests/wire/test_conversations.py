"""HTTP conversations in YAML: requests in order, and what is expected of each answer.

A step has `ask` (method and path), and where it matters `send` (a JSON body) or `text` (a body as
it is), `type`, `accept`, `user`. It expects `status`, `body` (the parts that must be there; `"*"`
is any value), `lacks` (paths that must not be there), `says` (the text of a Status), `type` of the
answer as `answers`, and `warnings`. `before` are objects that are there at the start.

The conversations follow what a real Kubernetes 1.37 was recorded to say.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api import kinds
from dray.api.http_messages import User
from dray.api.types.meta import JsonObject
from dray.apiserver.server import Settings
from dray.client import api_client
from tests.wire.serving import ADMIN, Answer, Api, all_alpha, with_api

CONVERSATIONS = Path(__file__).parent / "conversations"


USERS = {
    "admin": ADMIN,
    "alice": User("alice", frozenset({"system:authenticated"})),
    "anonymous": User("system:anonymous", frozenset({"system:unauthenticated"})),
}
ANY = "*"


@pytest.mark.parametrize("path", sorted(CONVERSATIONS.glob("*.yaml")), ids=lambda path: path.stem)
def test_conversation(path: Path, tmp_path: Path) -> None:
    conversation = yaml.safe_load(path.read_text("utf-8"))

    async def converse(api: Api) -> None:
        for document in conversation.get("before", ()):
            await create(api, document)
        for number, step in enumerate(conversation["steps"], start=1):
            answer = await ask(api, step)
            complaints = list(differences(step, answer))
            assert not complaints, f"step {number}, {step['ask']}: {complaints}\n{answer.body!r}"

    with_api(converse, tmp_path, Settings(features=all_alpha()))


async def create(api: Api, document: JsonObject) -> None:
    group, _ = kinds.parse_api_version(document["apiVersion"])
    kind = kinds.served(group, document["kind"])
    path = api_client.collection_path(kind, "default" if kind.namespaced else "")
    answer = await api("POST", path, document)
    assert answer.status == 201, answer.body


async def ask(api: Api, step: JsonObject) -> Answer:
    method, url = step["ask"].split(" ", 1)
    headers = {"content_type": step.get("type", "application/json" if "send" in step else "")}
    headers |= {"accept": step["accept"]} if "accept" in step else {}
    body = step["text"].encode() if "text" in step else step.get("send")
    return await api(method, url, body, user=USERS[step.get("user", "admin")], **headers)


def differences(step: JsonObject, answer: Answer) -> Any:
    if answer.status != step.get("status", 200):
        yield f"status {answer.status}"
    if "says" in step and answer.json.get("message") != step["says"]:
        yield f"message {answer.json.get('message')!r}"
    if "answers" in step and answer.headers["content-type"] != step["answers"]:
        yield f"content type {answer.headers['content-type']!r}"
    if "body" in step:
        yield from missing(step["body"], answer.json, "")
    for path in step.get("lacks", ()):
        if found(answer.json, path) is not None:
            yield f"{path} is there"
    if "warnings" in step and warnings_of(answer) != step["warnings"]:
        yield f"warnings {warnings_of(answer)}"


def missing(expected: Any, actual: Any, path: str) -> Any:
    """Where what is expected is not found; lists must be as long as expected."""
    if expected == ANY:
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key, value in expected.items():
            if key in actual:
                yield from missing(value, actual[key], f"{path}.{key}")
            else:
                yield f"{path}.{key} is not there"
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield f"{path} has {len(actual)} items"
        for index, (value, item) in enumerate(zip(expected, actual, strict=False)):
            yield from missing(value, item, f"{path}[{index}]")
    elif expected != actual:
        yield f"{path} is {actual!r}"


def found(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document


def warnings_of(answer: Answer) -> list[str]:
    header = answer.headers.get("warning", "")
    return [text.replace('\\"', '"') for text in re.findall(r'299 - "((?:[^"\\]|\\.)*)"', header)]

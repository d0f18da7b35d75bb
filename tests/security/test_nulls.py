"""A null anywhere in an object means that there is nothing: the server never fails at it."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from dray.api import kinds
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from tests.security import fuzz_api, fuzz_judge, fuzz_requests
from tests.security.fuzz_requests import Planned
from tests.wire.serving import Api

KINDS = [kind for kind in kinds.KINDS if kind.kind in fuzz_requests.SEEDS and kind.is_stored]
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.group}/{kind.kind}")
def test_a_null_in_any_place_is_answered(kind: Kind) -> None:
    asyncio.run(_ask_all(kind))


async def _ask_all(kind: Kind) -> None:
    async with fuzz_api.opened() as api:
        for number, document in enumerate(_with_a_null(kind)):
            named = {**document, "metadata": {"name": f"new-{number}"}}
            await _answered(api, kind, "POST", "", named)
        existing = _object(kind)
        await _answered(api, kind, "POST", "", existing)
        for document in (existing, *_with_a_null(kind)):
            await _answered(api, kind, "PUT", "a", document)
            await _answered(api, kind, "PUT", "a/status", document)
            await _answered(api, kind, "PUT", "a/status", existing)


def _object(kind: Kind) -> JsonObject:
    version = kinds.api_version(kind.group, kind.versions[0])
    seed = copy.deepcopy(fuzz_requests.SEEDS[kind.kind])
    return {"apiVersion": version, "kind": kind.kind, "metadata": {"name": "a"}, **seed}


def _with_a_null(kind: Kind) -> Iterator[JsonObject]:
    """Yield the object with a null in the place of each of its values."""
    whole = _object(kind)
    for number, _ in enumerate(_values(whole)):
        document = copy.deepcopy(whole)
        owner, key = list(_values(document))[number]
        owner[key] = None
        yield document


def _values(document: JsonObject) -> Iterator[tuple[Any, Any]]:
    for key in sorted(document.keys() - {"apiVersion", "kind", "metadata"}):
        yield document, key
        yield from fuzz_requests.every_place(document[key])


async def _answered(api: Api, kind: Kind, method: str, name: str, document: JsonObject) -> None:
    namespace = "default" if kind.namespaced else ""
    request = Planned(
        method, fuzz_judge.path_of(kind, namespace, name), JSON, json.dumps(document).encode()
    )
    wrong = fuzz_judge.wrong_answer(request, await fuzz_api.ask(api, request))
    assert not wrong, f"{method} {name} {request.body.decode()}"

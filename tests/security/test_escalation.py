"""Whoever may write roles gives no right that they do not have, over the wire."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dray.api.http_messages import User
from dray.apiserver.server import Settings
from dray.client import rest
from tests import waiting
from tests.wire.serving import Api, listening

RBAC = "rbac.authorization.k8s.io"
ROLES = f"/apis/{RBAC}/v1/clusterroles"
EVE = User("eve")


def rule(resource: str, *names: str, group: str = "") -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": ["*"], "resourceNames": names}


OWN = [rule("clusterroles", group=RBAC), rule("secrets", "", "a")]


async def prepare(api: Api) -> None:
    own = [{**each, "verbs": ["get", "list", "create", "update", "patch"]} for each in OWN]
    binding = {
        "metadata": {"name": "eve"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": RBAC}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "eve"},
    }
    role = {"metadata": {"name": "eve"}, "rules": own}
    for path, body in ((ROLES, role), (f"/apis/{RBAC}/v1/clusterrolebindings", binding)):
        answer = await api("POST", path, body)
        assert answer.status == 201, answer.body


async def status_of_grant(directory: Path, *names: str) -> int:
    """Return the status of Eve's attempt to give the right to read secrets of these names."""
    granted = {**rule("secrets", *names), "verbs": ["get"]}
    async with listening(directory, Settings(static_tokens={"t": EVE})) as (connection, opened):
        await prepare(Api(opened))
        await waiting.until(lambda: opened.authorizer.policy.rules(EVE, ""), "Eve's rights")
        connector = aiohttp.TCPConnector(ssl=rest.tls_context(connection, b"", b""))
        async with aiohttp.ClientSession(connector=connector) as session:
            body = {"metadata": {"name": "more"}, "rules": [granted]}
            url, headers = connection.server + ROLES, {"Authorization": "Bearer t"}
            async with session.post(url, json=body, headers=headers) as answer:
                return answer.status


@pytest.mark.parametrize("names", [("a",), ("",), ("a", "")])
def test_names_that_one_has_can_be_given(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert asyncio.run(status_of_grant(tmp_path, *names)) == 201


@pytest.mark.parametrize("names", [(), ("b",), ("", "b"), ("=",), ("=a",)])
def test_an_empty_name_does_not_stand_for_every_name(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    assert asyncio.run(status_of_grant(tmp_path, *names)) == 403

"""Each part of an impersonated identity needs its own right, over the wire."""

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
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
EVE = User("eve")
RIGHTS: dict[str, Any] = {
    "user": {"apiGroups": [""], "resources": ["users"], "resourceNames": ["jane"]},
    "group": {"apiGroups": [""], "resources": ["groups"], "resourceNames": ["team"]},
    "uid": {"apiGroups": ["authentication.k8s.io"], "resources": ["uids"]},
    "extra": {"apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scope"]},
    "account": {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["robot"]},
}
JANE = [("Impersonate-User", "jane")]
IDENTITIES: dict[str, list[tuple[str, str]]] = {
    "user": JANE,
    "group": [*JANE, ("Impersonate-Group", "team")],
    "uid": [*JANE, ("Impersonate-Uid", "42")],
    "extra": [*JANE, ("Impersonate-Extra-Scope", "all")],
    "account": [("Impersonate-User", "system:serviceaccount:default:robot")],
}
NEVER = (
    [("Impersonate-User", "system:admin")],
    [*JANE, ("Impersonate-Group", "system:masters")],
    [*JANE, ("Impersonate-Group", "team"), ("Impersonate-Group", "system:masters")],
    [*JANE, ("Impersonate-Extra-Other", "x")],
    [("Impersonate-User", "system:serviceaccount:kube-system:robot2")],
    [("Impersonate-User", "system:serviceaccount:default:robot:jane")],
    [("Impersonate-Group", "team")],
    [("Impersonate-User", ""), ("Impersonate-Group", "team")],
    [("Impersonate-User", "system:admin"), *JANE],
)


async def prepare(api: Api, without: str) -> None:
    rules = [{**rule, "verbs": ["impersonate"]} for name, rule in RIGHTS.items() if name != without]
    binding = {
        "metadata": {"name": "eve"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": RBAC}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "eve"},
    }
    role = {"metadata": {"name": "eve"}, "rules": rules}
    for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        answer = await api("POST", f"/apis/{RBAC}/v1/{plural}", body)
        assert answer.status == 201, answer.body


async def statuses(
    directory: Path, without: str, identities: list[list[tuple[str, str]]]
) -> list[int]:
    """Return the status of a request as each identity, by Eve with all rights but one."""
    async with listening(directory, Settings(static_tokens={"t": EVE})) as (connection, opened):
        await prepare(Api(opened), without)
        await waiting.until(lambda: opened.authorizer.policy.rules(EVE, ""), "Eve's rights")
        connector = aiohttp.TCPConnector(ssl=rest.tls_context(connection, b"", b""))
        async with aiohttp.ClientSession(connector=connector) as session:
            found = []
            for identity in identities:
                headers = [("Authorization", "Bearer t"), *identity]
                url = connection.server + WHOAMI
                async with session.post(url, json={}, headers=headers) as answer:
                    found.append(answer.status)
            return found


def test_with_all_rights_every_identity_can_be_taken(tmp_path: Path) -> None:
    assert asyncio.run(statuses(tmp_path, "", list(IDENTITIES.values()))) == [201] * 5


@pytest.mark.parametrize("part", RIGHTS)
def test_without_the_right_to_a_part_the_identity_is_forbidden(tmp_path: Path, part: str) -> None:
    assert asyncio.run(statuses(tmp_path, part, [IDENTITIES[part]])) == [403]


def test_other_names_are_forbidden(tmp_path: Path) -> None:
    found = asyncio.run(statuses(tmp_path, "", list(NEVER)))
    assert [status for status in found if status not in (400, 403)] == []

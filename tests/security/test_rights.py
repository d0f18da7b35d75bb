"""Every request needs its own rights: with all but one of them it is forbidden, with them not.

The requests are generated from the served kinds, so that a new kind or subresource is covered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from dray.api import kinds
from dray.api.http_messages import APPLY_PATCH, JSON, MERGE_PATCH, User
from dray.api.kinds import Kind
from dray.api.strategies import kind_strategies
from dray.apiserver.server import RunningServer, Settings
from dray.client import rest
from tests import waiting
from tests.wire.serving import Api, listening

RBAC = "/apis/rbac.authorization.k8s.io/v1"
METHODS = {
    "create": "POST", "get": "GET", "list": "GET", "watch": "GET", "update": "PUT",
    "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE",
}  # fmt: skip
# What grants the rights of other users is not to be deleted.
QUERIES = {"watch": "?watch=true&timeoutSeconds=1", "deletecollection": "?labelSelector=no=no"}
OF_EVERYBODY = ("selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews")
"""Questions about oneself, which every user may ask."""
NAMELESS = ("create", "list", "watch", "deletecollection")


class Right(NamedTuple):
    verb: str
    group: str
    resource: str


class Attempt(NamedTuple):
    """A request, and the rights that it needs."""

    method: str
    url: str
    needs: tuple[Right, ...]
    body: Any = None
    content_type: str = JSON

    @property
    def name(self) -> str:
        return f"{self.method} {self.url} {self.content_type}"


def base(kind: Kind, version: str = "") -> str:
    group_version = kinds.api_version(kind.group, version or kind.versions[0])
    root = "/apis" if kind.group else "/api"
    where = "/namespaces/default" if kind.namespaced else ""
    return f"{root}/{group_version}{where}/{kind.plural}"


def document(kind: Kind, name: str) -> Any:
    return {**kind.type_meta, "metadata": {"name": name}}


def attempts_on(kind: Kind) -> Iterator[Attempt]:
    for version in kind.versions:
        for verb in kind.verbs:
            url = base(kind, version) + ("" if verb in NAMELESS else "/absent")
            url += QUERIES.get(verb, "")
            needs = (Right(verb, kind.group, kind.plural),)
            yield Attempt(METHODS[verb], url, needs, *content(verb, kind))


def content(verb: str, kind: Kind) -> tuple[Any, str]:
    if verb == "patch":
        return {}, MERGE_PATCH
    if verb in ("create", "update"):
        # Not the document of an object that can be created: that would be a second right.
        return {**kind.type_meta, "metadata": {"name": "Not Valid"}}, JSON
    return None, JSON


def attempts_on_subresources(kind: Kind) -> Iterator[Attempt]:
    for subresource in kind.subresources:
        resource = f"{kind.plural}/{subresource.name}"
        create = Right("create", kind.group, resource)
        for verb in subresource.verbs:
            needs = [Right(verb, kind.group, resource)]
            if subresource.name in ("exec", "attach", "portforward") and verb == "get":
                needs.append(create)
            url = f"{base(kind)}/absent/{subresource.name}"
            yield Attempt(METHODS[verb], url, tuple(needs), *content(verb, kind))


def attempts_that_create(kind: Kind) -> Iterator[Attempt]:
    """Yield updates and applies of absent objects; each also as a dry run."""
    if not kind.is_stored:
        return
    create = Right("create", kind.group, kind.plural)
    patch, update = create._replace(verb="patch"), create._replace(verb="update")
    for dry_run in ("", "&dryRun=All"):
        name = f"new{len(dry_run)}.{kind.group or 'core'}"
        url = f"{base(kind)}/{name}?fieldManager=test&force=true{dry_run}"
        yield Attempt("PATCH", url, (patch, create), document(kind, name), APPLY_PATCH)
        if kind_strategies.of(kind).creates_on_update:
            url = f"{base(kind)}/put-{name}?fieldManager=test{dry_run}"
            yield Attempt("PUT", url, (update, create), document(kind, f"put-{name}"))


ATTEMPTS = [
    attempt
    for kind in kinds.KINDS
    for make in (attempts_on, attempts_on_subresources, attempts_that_create)
    for attempt in make(kind)
]
RESOURCES = sorted({(right.group, right.resource) for item in ATTEMPTS for right in item.needs})
VERBS = sorted({right.verb for item in ATTEMPTS for right in item.needs})


def only(rights: tuple[Right, ...]) -> list[Any]:
    return [
        {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
        for right in rights
    ]


def all_but(missing: Right) -> list[Any]:
    others = [verb for verb in VERBS if verb != missing.verb]
    rules: list[Any] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": others}]
    by_group: dict[str, list[str]] = {}
    for group, resource in RESOURCES:
        if (group, resource) != (missing.group, missing.resource):
            by_group.setdefault(group, []).append(resource)
    for group, resources in by_group.items():
        rules.append({"apiGroups": [group], "resources": resources, "verbs": [missing.verb]})
    return rules


class Identity(NamedTuple):
    name: str
    rules: list[Any]


def identities() -> dict[str, Identity]:
    found: dict[str, Identity] = {}
    for attempt in ATTEMPTS:
        found.setdefault(named("only", *attempt.needs), Identity("", only(attempt.needs)))
        for right in attempt.needs:
            found.setdefault(named("without", right), Identity("", all_but(right)))
    return {key: Identity(key, identity.rules) for key, identity in found.items()}


def named(what: str, *rights: Right) -> str:
    words = [part.replace("/", ".") or "core" for right in rights for part in right]
    return ".".join([what, *words])


async def grant(api: Api, opened: RunningServer, users: dict[str, Identity]) -> None:
    """Give each user its rules, and wait until the server follows."""
    for name, identity in users.items():
        role = {"metadata": {"name": name}, "rules": identity.rules}
        binding = {
            "metadata": {"name": name},
            "subjects": [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name,
            },
        }  # fmt: skip
        for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
            answer = await api("POST", f"{RBAC}/{plural}", body)
            assert answer.status == 201, answer.body
    last = User(list(users)[-1])
    await waiting.until(lambda: opened.authorizer.policy.rules(last, "default"), "the last rules")


async def tried(session: aiohttp.ClientSession, url: str, attempt: Attempt, user: str) -> int:
    headers = {"Authorization": f"Bearer token-of-{user}", "Content-Type": attempt.content_type}
    body = None if attempt.body is None else json.dumps(attempt.body)
    async with session.request(
        attempt.method, url + attempt.url, data=body, headers=headers
    ) as answer:
        return answer.status


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], int]:
    """Return the status of every attempt, by its name and the user's."""
    return asyncio.run(all_outcomes(tmp_path_factory.mktemp("rights")))


async def all_outcomes(directory: Path) -> dict[tuple[str, str], int]:
    users = identities()
    tokens = {f"token-of-{name}": User(name) for name in users}
    async with listening(directory, Settings(static_tokens=tokens)) as (connection, opened):
        await grant(Api(opened), opened, users)
        trusted = rest.tls_context(connection, b"", b"")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted)) as session:
            return {
                (attempt.name, user): await tried(session, connection.server, attempt, user)
                for attempt in ATTEMPTS
                for user in (
                    *(named("without", right) for right in attempt.needs),
                    named("only", *attempt.needs),
                )
            }


def test_a_request_without_one_of_its_rights_is_forbidden(
    outcomes: dict[tuple[str, str], int],
) -> None:
    allowed = {
        (attempt.name, right): outcomes[attempt.name, named("without", right)]
        for attempt in ATTEMPTS
        for right in attempt.needs
        if outcomes[attempt.name, named("without", right)] != 403
        and right.resource not in OF_EVERYBODY
    }
    assert allowed == {}


def test_a_request_with_just_its_rights_is_not_forbidden(
    outcomes: dict[tuple[str, str], int],
) -> None:
    refused = {
        attempt.name: outcomes[attempt.name, named("only", *attempt.needs)]
        for attempt in ATTEMPTS
        if outcomes[attempt.name, named("only", *attempt.needs)] in (401, 403)
    }
    assert refused == {}


def test_every_kind_and_subresource_is_tried() -> None:
    assert len(ATTEMPTS) > 500
    tried_resources = {resource for _, resource in RESOURCES}
    for kind in kinds.KINDS:
        assert kind.plural in tried_resources
        assert {f"{kind.plural}/{sub.name}" for sub in kind.subresources} <= tried_resources

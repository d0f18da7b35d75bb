"""Tokens that must not be accepted: forged, expired, for others, and those of deleted objects."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import aiohttp
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dray.api.types.meta import JsonObject
from dray.apiserver import server
from dray.apiserver.access import service_account_tokens
from dray.apiserver.access.service_account_tokens import TokenSigner
from dray.client import rest
from tests import waiting
from tests.wire.serving import Api, listening

T = TypeVar("T")
CORE = "/api/v1/namespaces/default"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"
POD = {
    "metadata": {"name": "p"},
    "spec": {
        "serviceAccountName": "builder",
        "containers": [{"name": "c", "image": "example.com/x"}],
    },
}


class Site(NamedTuple):
    """A server on a socket, its keys, and a service account with its uid."""

    api: Api
    url: str
    session: aiohttp.ClientSession
    signer: TokenSigner
    account: JsonObject

    async def status(self, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        async with self.session.post(self.url + WHOAMI, json={}, headers=headers) as answer:
            return answer.status

    async def reviewed(self, token: str) -> bool:
        answer = await self.api("POST", REVIEW, {"spec": {"token": token}})
        return bool(answer.json["status"].get("authenticated"))

    async def issue(self, kind: str = "", bound: JsonObject | None = None) -> str:
        spec: JsonObject = {}
        if bound is not None:
            metadata = bound["metadata"]
            spec["boundObjectRef"] = {
                "apiVersion": "v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"],
            }  # fmt: skip
        answer = await self.api("POST", f"{CORE}/serviceaccounts/builder/token", {"spec": spec})
        assert answer.status == 201, answer.body
        return str(answer.json["status"]["token"])

    async def create(self, url: str, body: Any) -> JsonObject:
        answer = await self.api("POST", url, body)
        assert answer.status == 201, answer.body
        created: JsonObject = answer.json
        return created

    def claims(self, **changes: Any) -> dict[str, Any]:
        metadata = self.account["metadata"]
        issued = service_account_tokens.service_account_claims(
            "default",
            {"name": "builder", "uid": metadata["uid"]},
            now=time.time(),
            expiration_seconds=3600,
            token_id="t",
        )
        return {**issued, **changes}


@contextlib.asynccontextmanager
async def site(directory: Path) -> AsyncIterator[Site]:
    async with listening(directory) as (connection, opened):
        trusted = rest.tls_context(connection, b"", b"")
        connector = aiohttp.TCPConnector(ssl=trusted)
        async with aiohttp.ClientSession(connector=connector) as session:
            api = Api(opened)
            account = await api(
                "POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "builder"}}
            )
            signer = server.signer_in(directory)
            yield Site(api, connection.server, session, signer, account.json)


def on_site(tmp_path: Path, test: Callable[[Site], Awaitable[T]]) -> T:
    async def run() -> T:
        async with site(tmp_path) as made:
            return await test(made)

    return asyncio.run(run())


def encoded(document: Any) -> str:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def confused(made: Site) -> str:
    """Return a token whose HMAC has the public key, which everybody may know, as its key."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = made.signer._key.public_key().public_bytes(serialization.Encoding.PEM, form)
    text = f"{encoded({'alg': 'HS256', 'typ': 'JWT'})}.{encoded(made.claims())}"
    return f"{text}.{encoded(hmac.new(public, text.encode(), hashlib.sha256).digest())}"


def with_private(made: Site, **changes: Any) -> str:
    claims = made.claims()
    claims["kubernetes.io"] = {**claims["kubernetes.io"], **changes}
    return made.signer.sign(claims)


def with_own_key_in_header(made: Site) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    algorithm = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
    headers = {"jwk": algorithm.to_jwk(key.public_key(), as_dict=True), "kid": "../../dev/null"}
    return jwt.encode(made.claims(), key, algorithm="ES256", headers=headers)


HOUR = 3600
FORGED: dict[str, Callable[[Site], str]] = {
    "not signed": lambda made: jwt.encode(made.claims(), "", algorithm="none"),
    "algorithm None": lambda made: f"{encoded({'alg': 'None'})}.{encoded(made.claims())}.",
    "the public key as HMAC key": confused,
    "another key": lambda made: TokenSigner(ec.generate_private_key(ec.SECP256R1())).sign(
        made.claims()
    ),
    "its own key in the header": with_own_key_in_header,
    "no signature": lambda made: made.signer.sign(made.claims()).rpartition(".")[0] + ".",
    "a zero signature": lambda made: (
        made.signer.sign(made.claims()).rpartition(".")[0] + "." + encoded(bytes(64))
    ),
    "another audience": lambda made: made.signer.sign(made.claims(aud=["vault"])),
    "an audience that contains the right one": lambda made: made.signer.sign(
        made.claims(aud="https://kubernetes.default.svc.evil")
    ),
    "no audience": lambda made: made.signer.sign(made.claims(aud=[])),
    "another issuer": lambda made: made.signer.sign(made.claims(iss="https://elsewhere")),
    "expired": lambda made: made.signer.sign(made.claims(exp=int(time.time()) - 1)),
    "not yet valid": lambda made: made.signer.sign(made.claims(nbf=int(time.time()) + HOUR)),
    "no end": lambda made: made.signer.sign(
        {name: value for name, value in made.claims().items() if name != "exp"}
    ),
    "an account of another uid": lambda made: with_private(
        made, serviceaccount={"name": "builder", "uid": "other"}
    ),
    "an account without a uid": lambda made: with_private(made, serviceaccount={"name": "builder"}),
    "an absent account": lambda made: with_private(
        made, serviceaccount={"name": "nobody", "uid": "x"}
    ),
    "an account that is a list": lambda made: with_private(made, serviceaccount=["builder"]),
    "no private claims": lambda made: made.signer.sign(
        {name: value for name, value in made.claims().items() if name != "kubernetes.io"}
    ),
    "an absent pod": lambda made: with_private(made, pod={"name": "gone", "uid": "u"}),
    "an absent secret": lambda made: with_private(made, secret={"name": "gone", "uid": "u"}),
    "an absent node": lambda made: with_private(made, node={"name": "gone", "uid": "u"}),
    "a nested header": lambda made: encoded(b"[" * 30_000) + ".e30.AAAA",
    "a nested payload": lambda made: f"{encoded({'alg': 'ES256'})}.{encoded(b'[' * 30_000)}.AAAA",
    "two parts": lambda made: made.signer.sign(made.claims()).rpartition(".")[0],
    "an encrypted token": lambda made: "a.b.c.d.e",
    "one word": lambda made: "x",
    "only dots": lambda made: "..",
    "not ASCII": lambda made: "\u043a\u043b\u044e\u0447",
    "changed claims": lambda made: ".".join(
        (part if number != 1 else encoded(made.claims(exp=2**40)))
        for number, part in enumerate(made.signer.sign(made.claims()).split("."))
    ),
}


def test_a_right_token_is_accepted(tmp_path: Path) -> None:
    """Without this, the tests below would prove nothing."""

    async def check(made: Site) -> tuple[int, int, bool]:
        token = made.signer.sign(made.claims())
        return (
            await made.status(token),
            await made.status(await made.issue()),
            await made.reviewed(token),
        )

    assert on_site(tmp_path, check) == (201, 201, True)


def test_forged_and_invalid_tokens_are_unauthorized(tmp_path: Path) -> None:
    async def check(made: Site) -> dict[str, tuple[int, bool]]:
        tokens = {name: make(made) for name, make in FORGED.items()}
        return {
            name: (await made.status(token), await made.reviewed(token))
            for name, token in tokens.items()
        }

    found = on_site(tmp_path, check)
    assert {name: outcome for name, outcome in found.items() if outcome != (401, False)} == {}


def test_a_token_of_a_megabyte_is_refused(tmp_path: Path) -> None:
    async def check(made: Site) -> tuple[int, bool, int]:
        token = f"{made.signer.sign(made.claims())}{'A' * 2**20}"
        # The server refuses the header before it looks for a token.
        refused = await made.status(token)
        long = f"{encoded({'alg': 'ES256', 'x': 'y' * 30_000})}.e30.AAAA"
        return refused, await made.reviewed(token), await made.status(long)

    status, is_valid, of_long = on_site(tmp_path, check)
    assert status in (400, 401, 431)
    assert (is_valid, of_long) == (False, 401)


BOUND = {
    "Pod": (f"{CORE}/pods", POD, f"{CORE}/pods/p?gracePeriodSeconds=0"),
    "Secret": (f"{CORE}/secrets", {"metadata": {"name": "s"}}, f"{CORE}/secrets/s"),
    "Node": ("/api/v1/nodes", {"metadata": {"name": "n"}}, "/api/v1/nodes/n"),
    "ServiceAccount": ("", None, f"{CORE}/serviceaccounts/builder"),
}


@pytest.mark.parametrize("kind", BOUND)
def test_a_token_ends_with_the_object_that_it_is_bound_to(tmp_path: Path, kind: str) -> None:
    url, body, deleted = BOUND[kind]

    async def check(made: Site) -> None:
        bound = await made.create(url, body) if url else None
        token = await made.issue(kind, bound)
        assert (await made.status(token), await made.reviewed(token)) == (201, True)
        assert (await made.api("DELETE", deleted)).status == 200
        # At once: the request after the deletion is the first.
        assert (await made.status(token), await made.reviewed(token)) == (401, False)
        # One of the same name is another object.
        again = body or {"metadata": {"name": "builder"}}
        await made.create(url or f"{CORE}/serviceaccounts", again)
        assert (await made.status(token), await made.reviewed(token)) == (401, False)

    on_site(tmp_path, check)


def test_all_tokens_of_an_account_can_be_revoked(tmp_path: Path) -> None:
    async def check(made: Site) -> None:
        old = made.signer.sign(made.claims(iat=int(time.time()) - HOUR))
        assert await made.status(old) == 201
        before = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
        user = "system:serviceaccount:default:builder"
        data = {"builder": json.dumps({"user": user, "before": before})}
        config_map = {"metadata": {"name": "dray-revoked"}, "data": data}
        await made.create("/api/v1/namespaces/kube-system/configmaps", config_map)

        async def is_refused() -> bool:
            return await made.status(old) == 401

        await waiting.until_answered(is_refused, "the revocation")
        assert not await made.reviewed(old)
        # A token from after the revocation is as good as ever.
        assert await made.status(await made.issue()) == 201

    on_site(tmp_path, check)

"""Service account tokens: which are accepted, and until when."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from dray.api import errors
from dray.apiserver.access.authentication import Authenticator
from dray.apiserver.access.bound_objects import BoundObjects
from dray.apiserver.access.service_account_tokens import (
    PrivateClaims,
    TokenRefused,
    TokenSigner,
    service_account_claims,
)
from tests import loop

ISSUED = 1763200000
ACCOUNT = {"name": "builder", "uid": "0b7e8b1c-0d0f-4a3c-9d63-5f3a1f2f6a01"}
KEY = ec.derive_private_key(0x1337, ec.SECP256R1())
OTHER_KEY = ec.derive_private_key(0x7331, ec.SECP256R1())

# Signed with KEY by a dray that encoded tokens itself, before it used PyJWT.
EARLIER_TOKEN = (
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMiLCJz"
    "dWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6ZGVmYXVsdDpidWlsZGVyIiwiYXVkIjpbImh0dHBzOi8va3ViZXJuZXRl"
    "cy5kZWZhdWx0LnN2YyJdLCJpYXQiOjE3NjMyMDAwMDAsIm5iZiI6MTc2MzIwMDAwMCwiZXhwIjoxNzYzMjAzNjAwLCJq"
    "dGkiOiI2YTBmNmYwZS02ZDJmLTRhMGItOGE1NS0wZjNmNmE2ZjdjMDIiLCJrdWJlcm5ldGVzLmlvIjp7Im5hbWVzcGFj"
    "ZSI6ImRlZmF1bHQiLCJzZXJ2aWNlYWNjb3VudCI6eyJuYW1lIjoiYnVpbGRlciIsInVpZCI6IjBiN2U4YjFjLTBkMGYt"
    "NGEzYy05ZDYzLTVmM2ExZjJmNmEwMSJ9LCJwb2QiOnsibmFtZSI6IndvcmtlciIsInVpZCI6InUtMSJ9fX0.hhbvzRK_"
    "rIfUh65k-5KcOYHAxQqM52Gbrrr1GwhwmvTpNxrhUX4IooKuOuRVV0aQXuZJ0Mv6-YJE32Tw-t8elg"
)


def claims(**changes: Any) -> dict[str, Any]:
    issued = service_account_claims(
        "default", ACCOUNT, now=ISSUED, expiration_seconds=3600, token_id="t-1"
    )
    return {**issued, **changes}


def encoded(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


class AllExist(BoundObjects):
    """Objects of which each exists."""

    def __init__(self) -> None: ...

    async def exist(self, claims: PrivateClaims, now: float) -> bool:
        return True


def authenticator(now: float = ISSUED) -> Authenticator:
    return Authenticator(TokenSigner(KEY), AllExist(), lambda: now)


def test_a_token_is_read_as_it_was_signed() -> None:
    signer = TokenSigner(KEY)
    assert signer.read(signer.sign(claims()), ISSUED + 1) == claims()


def test_a_token_of_an_earlier_release_is_still_accepted() -> None:
    user = loop.run(authenticator().authenticate(f"Bearer {EARLIER_TOKEN}", None))
    assert user.name == "system:serviceaccount:default:builder"
    assert user.uid == ACCOUNT["uid"]
    assert dict(user.extra)["authentication.kubernetes.io/pod-name"] == ("worker",)


def test_the_user_of_a_token_carries_its_id() -> None:
    token = TokenSigner(KEY).sign({**claims(), "jti": "a-b"})
    user = loop.run(authenticator().authenticate(f"Bearer {token}", None))
    assert dict(user.extra)["authentication.kubernetes.io/credential-id"] == ("JTI=a-b",)


def test_the_key_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "service-accounts.key"
    token = TokenSigner.load_or_create(path).sign(claims())
    assert path.stat().st_mode & 0o777 == 0o600
    assert TokenSigner.load_or_create(path).read(token, ISSUED) == claims()


@pytest.mark.parametrize(
    ("now", "valid"),
    [(ISSUED - 61, False), (ISSUED - 60, True), (ISSUED + 3599, True), (ISSUED + 3600, False)],
)
def test_a_token_is_valid_from_a_minute_before_it_was_issued(now: float, valid: bool) -> None:
    signer = TokenSigner(KEY)
    token = signer.sign(claims())
    if valid:
        assert signer.read(token, now)
    else:
        with pytest.raises(TokenRefused, match="the token has expired"):
            signer.read(token, now)


def test_a_token_without_an_end_is_refused() -> None:
    signer = TokenSigner(KEY)
    endless = {name: value for name, value in claims().items() if name != "exp"}
    with pytest.raises(TokenRefused, match="the token has expired"):
        signer.read(signer.sign(endless), ISSUED)


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(TokenSigner(OTHER_KEY).sign(claims()), id="another key"),
        pytest.param(TokenSigner(KEY).sign(claims(iss="https://elsewhere")), id="another issuer"),
        pytest.param(jwt.encode(claims(), "", algorithm="none"), id="not signed"),
        pytest.param(jwt.encode(claims(), "k" * 32, algorithm="HS256"), id="another algorithm"),
        pytest.param(
            ".".join([EARLIER_TOKEN.split(".")[0], encoded(claims()), EARLIER_TOKEN.split(".")[2]]),
            id="changed claims",
        ),
        pytest.param(EARLIER_TOKEN.rpartition(".")[0] + ".AAAA", id="short signature"),
    ],
)
def test_a_token_that_this_server_did_not_sign(token: str) -> None:
    with pytest.raises(TokenRefused, match="the token is not signed by this server"):
        TokenSigner(KEY).read(token, ISSUED)


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("", id="empty"),
        pytest.param("abc", id="one word"),
        pytest.param("a.b.c", id="not base64"),
        pytest.param(f"{encoded([1])}.{encoded({})}.", id="a list as header"),
        pytest.param(f"{encoded('x')}.{encoded({})}.", id="a text as header"),
        pytest.param(
            base64.urlsafe_b64encode(b"[" * 100_000).decode() + ".e30.", id="nested header"
        ),
        pytest.param("ключ.для.двери", id="not ASCII"),
        pytest.param("\udcff\udcfe", id="bytes that are no text"),
        pytest.param(f"{EARLIER_TOKEN}é", id="not ASCII at the end"),
    ],
)
def test_what_is_no_token_is_unauthorized(token: str) -> None:
    with pytest.raises(TokenRefused, match="the token is not a JSON web token"):
        TokenSigner(KEY).read(token, ISSUED)
    with pytest.raises(errors.Unauthorized):
        loop.run(authenticator().user_of_token(token))

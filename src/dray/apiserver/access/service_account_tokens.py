"""Service account tokens: JSON web tokens signed with the server's own key (ES256)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from dray.apiserver.access.certificates import write_private

ISSUER = "https://kubernetes.default.svc"
DEFAULT_AUDIENCE = "https://kubernetes.default.svc"
_COORDINATE_BYTES = 32
_HEADER = {"alg": "ES256", "typ": "JWT"}


class TokenRefused(Exception):
    """A token that is not one of ours, was changed, or has expired."""


class TokenSigner:
    """Signs and reads tokens. The key survives restarts, and so do the tokens."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key

    @classmethod
    def load_or_create(cls, path: Path) -> TokenSigner:
        if not path.exists():
            fresh = ec.generate_private_key(ec.SECP256R1())
            pem = fresh.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            write_private(path, pem)
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(key)

    def sign(self, claims: Mapping[str, Any]) -> str:
        signed = f"{_encode(msgspec.json.encode(_HEADER))}.{_encode(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")
        return f"{signed}.{_encode(signature)}"

    def read(self, token: str, now: float) -> dict[str, Any]:
        """The claims of a token that is ours and valid at `now`."""
        try:
            signed, _, signature = token.rpartition(".")
            header, _, payload = signed.partition(".")
            if msgspec.json.decode(_decode(header)).get("alg") != "ES256":
                raise TokenRefused("the token is not signed by this server")
            self._verify(signed, _decode(signature))
            claims: dict[str, Any] = msgspec.json.decode(_decode(payload))
        except (msgspec.DecodeError, binascii.Error, AttributeError) as error:
            raise TokenRefused("the token is not a JSON web token") from error
        if not claims.get("nbf", 0) - 60 <= now < claims.get("exp", 0):
            raise TokenRefused("the token has expired")
        return claims

    def _verify(self, signed: str, signature: bytes) -> None:
        r = int.from_bytes(signature[:_COORDINATE_BYTES], "big")
        s = int.from_bytes(signature[_COORDINATE_BYTES:], "big")
        try:
            self._key.public_key().verify(
                encode_dss_signature(r, s), signed.encode(), ec.ECDSA(hashes.SHA256())
            )
        except InvalidSignature as error:
            raise TokenRefused("the token is not signed by this server") from error


def service_account_claims(
    namespace: str,
    account: Mapping[str, str],
    *,
    now: float,
    expiration_seconds: int,
    token_id: str,
    audiences: Sequence[str] = (DEFAULT_AUDIENCE,),
    bound_to: tuple[str, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """What a token says. `account` and the object it is bound to are {name, uid}."""
    private: dict[str, Any] = {"namespace": namespace, "serviceaccount": dict(account)}
    if bound_to is not None:
        kind, reference = bound_to
        private[kind.lower()] = dict(reference)
    return {
        "iss": ISSUER,
        "sub": f"system:serviceaccount:{namespace}:{account['name']}",
        "aud": list(audiences),
        "iat": int(now),
        "nbf": int(now),
        "exp": int(now) + expiration_seconds,
        "jti": token_id,
        "kubernetes.io": private,
    }


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

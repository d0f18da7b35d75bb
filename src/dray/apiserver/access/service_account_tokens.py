"""Service account tokens: JSON web tokens signed with the server's own key (ES256)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from dray import durable_files
from dray.apiserver.access import certificates

if TYPE_CHECKING:
    from jwt.types import Options

ISSUER = "https://kubernetes.default.svc"
DEFAULT_AUDIENCE = "https://kubernetes.default.svc"
_ALGORITHM = "ES256"
_CLOCK_SKEW_SECONDS = 60
# `read` compares the times itself, because PyJWT takes no clock. The authenticator compares the
# audience.
_OPTIONS: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
}


class TokenRefused(Exception):
    """A token was not signed by this server, was changed, or has expired."""


class TokenSigner:
    """Signs and reads tokens. The key survives restarts, and so do the tokens."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key

    @classmethod
    def load_or_create(cls, path: Path) -> TokenSigner:
        if not path.exists():
            fresh = ec.generate_private_key(ec.SECP256R1())
            durable_files.replace_file(path, certificates.key_to_pem(fresh))
        return cls(certificates.key_from_pem(path.read_bytes()))

    def sign(self, claims: Mapping[str, Any]) -> str:
        return jwt.encode(dict(claims), self._key, algorithm=_ALGORITHM)

    def read(self, token: str, now: float) -> dict[str, Any]:
        """Return the claims of a token. Raises TokenRefused unless this server signed it.

        Also raises TokenRefused if the token is not valid at `now`.
        """
        if not token.isascii():
            raise TokenRefused("the token is not a JSON web token")
        try:
            claims = jwt.decode(
                token,
                self._key.public_key(),
                algorithms=[_ALGORITHM],
                issuer=ISSUER,
                options=_OPTIONS,
            )
        except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError, jwt.InvalidIssuerError) as e:
            raise TokenRefused("the token is not signed by this server") from e
        # RecursionError: a header of nested lists, which is decoded before the signature is known.
        except (jwt.InvalidTokenError, RecursionError) as e:
            raise TokenRefused("the token is not a JSON web token") from e
        if not claims.get("nbf", 0) - _CLOCK_SKEW_SECONDS <= now < claims.get("exp", 0):
            raise TokenRefused("the token has expired")
        return claims


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
    """Return the claims of a token. `account` and the object it is bound to are {name, uid}."""
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

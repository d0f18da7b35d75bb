"""Service account tokens: JSON web tokens signed with the server's own key (ES256)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dray import durable_files
from dray.api.types.meta import Wire
from dray.apiserver.access import certificates

if TYPE_CHECKING:
    from jwt.types import Options

ISSUER = "https://kubernetes.default.svc"
DEFAULT_AUDIENCE = "https://kubernetes.default.svc"
_ALGORITHM = "ES256"
_CLOCK_SKEW_SECONDS = 60
MAX_TOKEN_CHARACTERS = 2**15
# `read` compares the times itself, because PyJWT takes no clock. The authenticator compares the
# audience.
_OPTIONS: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
}


class BoundObject(Wire, frozen=True):
    """An object that a token names; the token is valid as long as that object exists."""

    name: str
    uid: str = ""


class PrivateClaims(Wire, frozen=True):
    """The claims of a token about its account and the objects that it is bound to."""

    namespace: str
    serviceaccount: BoundObject
    pod: BoundObject | None = None
    secret: BoundObject | None = None
    node: BoundObject | None = None


class TokenRefused(Exception):
    """A token was not signed by this server, was changed, or has expired."""


class TokenSigner:
    """Signs and reads tokens. The key survives restarts, and so do the tokens."""

    def __init__(
        self, key: ec.EllipticCurvePrivateKey, trusted: Sequence[ec.EllipticCurvePublicKey] = ()
    ) -> None:
        self._key = key
        self._trusted = (key.public_key(), *trusted)
        """The keys whose tokens are valid: its own, and those of earlier or other servers."""

    @classmethod
    def from_files(cls, private: Path, public: Sequence[Path] = ()) -> TokenSigner:
        """Return a signer with the keys of PEM files, which several servers may share.

        Tokens that the keys of `public` have signed stay valid: so keys are replaced one by one.
        Raises KeyFileError for a file without an EC key on the curve P-256.
        """
        try:
            key = _p256(certificates.key_from_pem(certificates.read_key_file(private)))
        except certificates.KeyFileError:
            raise
        except ValueError as error:
            raise certificates.KeyFileError(f"{private}: {error}") from error
        return cls(key, [_public_key(path) for path in public])

    @classmethod
    def load_or_create(cls, path: Path) -> TokenSigner:
        if not path.exists():
            fresh = ec.generate_private_key(ec.SECP256R1())
            durable_files.replace_file(path, certificates.key_to_pem(fresh))
        return cls(_p256(certificates.key_from_pem(path.read_bytes())))

    def sign(self, claims: Mapping[str, Any]) -> str:
        return jwt.encode(dict(claims), self._key, algorithm=_ALGORITHM)

    def read(self, token: str, now: float) -> dict[str, Any]:
        """Return the claims of a token. Raises TokenRefused unless this server signed it.

        Also raises TokenRefused if the token is not valid at `now`.
        """
        # Before it is decoded: the work for a token that nobody signed stays small.
        if not token.isascii() or len(token) > MAX_TOKEN_CHARACTERS:
            raise TokenRefused("the token is not a JSON web token")
        for key in self._trusted:
            with contextlib.suppress(jwt.InvalidSignatureError):
                claims = _decoded(token, key)
                break
        else:
            raise TokenRefused("the token is not signed by this server")
        if not claims.get("nbf", 0) - _CLOCK_SKEW_SECONDS <= now < claims.get("exp", 0):
            raise TokenRefused("the token has expired")
        return claims


def _decoded(token: str, key: ec.EllipticCurvePublicKey) -> dict[str, Any]:
    """Return the claims that a key has signed. Raises InvalidSignatureError for another key's."""
    try:
        return jwt.decode(token, key, algorithms=[_ALGORITHM], issuer=ISSUER, options=_OPTIONS)
    except jwt.InvalidSignatureError:
        raise
    except (jwt.InvalidAlgorithmError, jwt.InvalidIssuerError) as error:
        raise TokenRefused("the token is not signed by this server") from error
    # RecursionError: a header of nested lists, which is decoded before the signature is known.
    except (jwt.InvalidTokenError, RecursionError) as error:
        raise TokenRefused("the token is not a JSON web token") from error


def _p256(key: object) -> ec.EllipticCurvePrivateKey:
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise ValueError("tokens are signed with an EC key on the curve P-256 (prime256v1)")


def _public_key(path: Path) -> ec.EllipticCurvePublicKey:
    """Return the public key of a file with a public or a private key."""
    content = certificates.read_file(path)
    try:
        if b"PRIVATE KEY" in content:
            return _p256(certificates.key_from_pem(content)).public_key()
        key = serialization.load_pem_public_key(content)
    except ValueError as error:
        raise certificates.KeyFileError(f"{path}: {error}") from error
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise certificates.KeyFileError(f"{path}: not an EC key on the curve P-256 (prime256v1)")


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

"""Authentication by client certificate, bearer token or service account token."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from dray.api import errors
from dray.api.http_messages import User
from dray.apiserver.access.bound_objects import BoundObjects
from dray.apiserver.access.revocation import Revocations
from dray.apiserver.access.service_account_tokens import (
    DEFAULT_AUDIENCE,
    PrivateClaims,
    TokenRefused,
    TokenSigner,
)

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = User("system:anonymous", frozenset({UNAUTHENTICATED}))


class Authenticator:
    """Finds the user of a request. Wrong credentials are rejected, without any it is anonymous."""

    def __init__(
        self,
        signer: TokenSigner,
        objects: BoundObjects,
        now: Callable[[], float],
        static_tokens: Mapping[str, User] | None = None,
        revoked: Revocations | None = None,
    ) -> None:
        self._signer = signer
        self._objects = objects
        self._now = now
        self._static_tokens = dict(static_tokens or {})
        self._revoked = revoked or Revocations()

    async def authenticate(self, authorization: str, certificate: Mapping[str, Any] | None) -> User:
        """Return the user of an `Authorization` header or a verified client certificate."""
        scheme, _, credentials = authorization.partition(" ")
        if scheme.lower() == "bearer" and credentials:
            return await self.user_of_token(credentials.strip())
        if authorization:
            raise errors.unauthorized("Unauthorized")
        if certificate:
            return self._user_of_certificate(certificate)
        return ANONYMOUS

    async def user_of_token(self, token: str) -> User:
        user = self._static_tokens.get(token)
        if user is not None:
            return User(user.name, user.groups | {AUTHENTICATED}, user.uid, user.extra)
        now = self._now()
        try:
            claims = self._signer.read(token, now)
            private = msgspec.convert(claims["kubernetes.io"], PrivateClaims)
            audiences = msgspec.convert(claims["aud"], list[str])
            issued = msgspec.convert(claims["iat"], float)
            token_id = msgspec.convert(claims.get("jti", ""), str)
        except (TokenRefused, KeyError, msgspec.ValidationError) as error:
            raise errors.unauthorized("Unauthorized") from error
        found = _service_account(private, token_id)
        if (
            DEFAULT_AUDIENCE not in audiences
            or self._revoked.covers_user(found.name, issued)
            or not await self._objects.exist(private, now)
        ):
            raise errors.unauthorized("Unauthorized")
        return found

    def _user_of_certificate(self, certificate: Mapping[str, Any]) -> User:
        user = user_of_certificate(certificate)
        # OpenSSL has checked it when the connection was made, which may be long ago.
        if _seconds(certificate["notAfter"]) < self._now():
            raise errors.unauthorized("Unauthorized")
        if not self._revoked.is_empty:
            issued = _seconds(certificate["notBefore"])
            is_revoked = self._revoked.covers_serial(certificate["serialNumber"])
            if is_revoked or self._revoked.covers_user(user.name, issued):
                raise errors.unauthorized("Unauthorized")
        return user


@functools.lru_cache(maxsize=1024)
def _seconds(time: str) -> int:
    return ssl.cert_time_to_seconds(time)


def _service_account(private: PrivateClaims, token_id: str) -> User:
    namespace, account = private.namespace, private.serviceaccount
    groups = {"system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED}
    return User(
        f"system:serviceaccount:{namespace}:{account.name}",
        frozenset(groups),
        account.uid,
        tuple(_extra(private, token_id)),
    )


def _extra(private: PrivateClaims, token_id: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return the id of a token and the objects it is bound to, with Kubernetes' keys."""
    if token_id:
        yield "authentication.kubernetes.io/credential-id", (f"JTI={token_id}",)
    for kind, bound in (("pod", private.pod), ("node", private.node)):
        if bound is not None:
            yield f"authentication.kubernetes.io/{kind}-name", (bound.name,)
            if bound.uid:
                yield f"authentication.kubernetes.io/{kind}-uid", (bound.uid,)


def user_of_certificate(certificate: Mapping[str, Any]) -> User:
    """Return the user: the common name, with the organizations as groups."""
    return _user_of_subject(certificate.get("subject", ()))


@functools.lru_cache(maxsize=1024)
def _user_of_subject(subject: tuple[tuple[tuple[str, str], ...], ...]) -> User:
    pairs = [pair for part in subject for pair in part]
    names = [value for key, value in pairs if key == "commonName"]
    if not names:
        raise errors.unauthorized("Unauthorized")
    groups = {value for key, value in pairs if key == "organizationName"}
    return User(names[0], frozenset(groups | {AUTHENTICATED}))

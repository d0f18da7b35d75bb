"""Authentication by client certificate, bearer token or service account token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dray.api import errors
from dray.api.http_messages import User
from dray.apiserver.access.service_account_tokens import DEFAULT_AUDIENCE, TokenRefused, TokenSigner

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = User("system:anonymous", frozenset({UNAUTHENTICATED}))

AccountLookup = Callable[[str, str, str], bool]
"""Takes namespace, name and uid; returns whether that service account exists."""


class Authenticator:
    """Finds the user of a request. Wrong credentials are rejected, without any it is anonymous."""

    def __init__(
        self,
        signer: TokenSigner,
        account_exists: AccountLookup,
        now: Callable[[], float],
        static_tokens: Mapping[str, User] | None = None,
    ) -> None:
        self._signer = signer
        self._account_exists = account_exists
        self._now = now
        self._static_tokens = dict(static_tokens or {})

    def authenticate(self, authorization: str, certificate: Mapping[str, Any] | None) -> User:
        """Return the user of an `Authorization` header or a verified client certificate."""
        scheme, _, credentials = authorization.partition(" ")
        if scheme.lower() == "bearer" and credentials:
            return self.user_of_token(credentials.strip())
        if authorization:
            raise errors.unauthorized("Unauthorized")
        if certificate:
            return user_of_certificate(certificate)
        return ANONYMOUS

    def user_of_token(self, token: str) -> User:
        user = self._static_tokens.get(token)
        if user is not None:
            return User(user.name, user.groups | {AUTHENTICATED}, user.uid, user.extra)
        try:
            claims = self._signer.read(token, self._now())
        except TokenRefused as error:
            raise errors.unauthorized("Unauthorized") from error
        return self._service_account(claims)

    def _service_account(self, claims: Mapping[str, Any]) -> User:
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        exists = self._account_exists(namespace, account["name"], account["uid"])
        if not exists or DEFAULT_AUDIENCE not in claims["aud"]:
            raise errors.unauthorized("Unauthorized")
        groups = {"system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED}
        return User(
            f"system:serviceaccount:{namespace}:{account['name']}",
            frozenset(groups),
            account["uid"],
            tuple(_bound_to(private)),
        )


def _bound_to(private: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the objects a token is bound to, as extra values with Kubernetes' keys."""
    return [
        (f"authentication.kubernetes.io/{kind}-{field}", (private[kind][field],))
        for kind in ("pod", "node")
        if kind in private
        for field in ("name", "uid")
        if field in private[kind]
    ]


def user_of_certificate(certificate: Mapping[str, Any]) -> User:
    """Return the user: the common name, with the organizations as groups."""
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in pairs if key == "commonName"]
    if not names:
        raise errors.unauthorized("Unauthorized")
    groups = {value for key, value in pairs if key == "organizationName"}
    return User(names[0], frozenset(groups | {AUTHENTICATED}))

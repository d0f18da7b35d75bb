"""People who look at a cluster, each with the identity with which it is read for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dray.api import errors
from dray.api.http_messages import Handler, User
from dray.client.api_client import Client, InProcessTransport, Transport

FIELD_MANAGER = "dray-ui"


async def always() -> bool:
    """Return that an identity is still good."""
    return True


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who has logged in."""

    key: Hashable
    """Equal for the same identity."""
    name: str
    transport: Transport
    """Sends requests with this identity."""
    namespaces: tuple[str, ...] = ()
    """Namespaces to try where not all may be read, such as that of a kubeconfig."""
    is_current: Callable[[], Awaitable[bool]] = always
    """Whether the token or certificate is still good."""

    @property
    def client(self) -> Client:
        return Client(self.transport, field_manager=FIELD_MANAGER)


class People(Protocol):
    """Finds the person of a log in."""

    def of_key(self) -> Person:
        """Return the person for whom links with a key are made."""

    async def of_token(self, token: str) -> Person | None:
        """Return the person of a bearer token; None if it is wrong or not accepted."""

    async def of_certificate(self, certificate: Mapping[str, Any]) -> Person | None:
        """Return the person of the verified certificate of a connection; None if refused."""


class KubeconfigPeople:
    """One person: the user of a kubeconfig."""

    def __init__(self, transport: Transport, name: str, namespace: str = "") -> None:
        self._person = Person(("kubeconfig", name), name, transport, (namespace, "default"))

    def of_key(self) -> Person:
        return self._person

    async def of_token(self, token: str) -> Person | None:
        return None

    async def of_certificate(self, certificate: Mapping[str, Any]) -> Person | None:
        return None


Authenticate = Callable[[str, Mapping[str, Any] | None], Awaitable[User]]
"""Return the user of an Authorization header or a certificate. Raises Unauthorized."""


class ServerPeople:
    """The users of an API server in the same process. `owner` gets the links with a key."""

    def __init__(self, handler: Handler, authenticate: Authenticate, owner: User) -> None:
        self._handler, self._authenticate, self._owner = handler, authenticate, owner

    def of_key(self) -> Person:
        return self._person(self._owner, always)

    async def of_token(self, token: str) -> Person | None:
        return await self._verified(f"Bearer {token}", None)

    async def of_certificate(self, certificate: Mapping[str, Any]) -> Person | None:
        return await self._verified("", certificate)

    async def _verified(
        self, authorization: str, certificate: Mapping[str, Any] | None
    ) -> Person | None:
        user = await self._user(authorization, certificate)
        if user is None:
            return None

        async def is_current() -> bool:
            return await self._user(authorization, certificate) == user

        return self._person(user, is_current)

    async def _user(self, authorization: str, certificate: Mapping[str, Any] | None) -> User | None:
        try:
            return await self._authenticate(authorization, certificate)
        except errors.Unauthorized:
            return None

    def _person(self, user: User, is_current: Callable[[], Awaitable[bool]]) -> Person:
        transport = InProcessTransport(self._handler, user)
        return Person(user, user.name, transport, (), is_current)

"""Impersonation: requests that act as another user.

As apiserver, endpoints/filters/impersonation. Every part of the other identity is authorized on its
own: the user or service account, each group, the uid, each extra value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote

from dray.api import errors
from dray.api.http_messages import User
from dray.api.ids import GroupResource
from dray.apiserver.access.authentication import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED
from dray.apiserver.access.rbac import Attributes, Authorize

PREFIX = "impersonate-"
_USER, _GROUP, _UID = "impersonate-user", "impersonate-group", "impersonate-uid"
_EXTRA = "impersonate-extra-"
_IDENTITIES = "authentication.k8s.io"
_SERVICE_ACCOUNT = "system:serviceaccount:"


class _Identity(NamedTuple):
    """The identity that the headers describe."""

    name: str
    groups: tuple[str, ...]
    uid: str
    extra: tuple[tuple[str, str], ...]


def impersonated_user(user: User, headers: Iterable[tuple[str, str]], authorize: Authorize) -> User:
    """Return the impersonated user, or `user` without impersonation headers.

    Header names are in lower case. Raises Forbidden (403).
    """
    identity = _read(list(headers))
    if identity is None:
        return user
    for attributes in _attributes(identity):
        refusal = authorize(user, attributes)
        if refusal is not None:
            resource = GroupResource(attributes.group, attributes.resource)
            raise errors.forbidden(resource, attributes.name, refusal)
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in identity.extra:
        extra[key] = (*extra.get(key, ()), value)
    return User(
        identity.name, frozenset(_groups(identity)), identity.uid, tuple(extra.items()), user
    )


def _read(headers: list[tuple[str, str]]) -> _Identity | None:
    first = dict(reversed(headers))
    identity = _Identity(
        first.get(_USER, ""),
        tuple(value for name, value in headers if name == _GROUP),
        first.get(_UID, ""),
        tuple(
            (unquote(name.removeprefix(_EXTRA)), value)
            for name, value in headers
            if name.startswith(_EXTRA)
        ),
    )
    if not identity.name and (identity.groups or identity.uid or identity.extra):
        raise errors.bad_request("requested an identity without impersonating a user")
    return identity if identity.name else None


def _attributes(identity: _Identity) -> Iterator[Attributes]:
    """Return what the user must be allowed to do, one by one."""
    account = _service_account(identity.name)
    if account is not None:
        namespace, name = account
        yield Attributes("impersonate", "", "serviceaccounts", namespace=namespace, name=name)
    else:
        yield Attributes("impersonate", "", "users", name=identity.name)
    for group in identity.groups:
        yield Attributes("impersonate", "", "groups", name=group)
    for key, value in identity.extra:
        yield Attributes("impersonate", _IDENTITIES, "userextras", key, name=value)
    if identity.uid:
        yield Attributes("impersonate", _IDENTITIES, "uids", name=identity.uid)


def _service_account(user: str) -> tuple[str, str] | None:
    namespace, colon, name = user.removeprefix(_SERVICE_ACCOUNT).partition(":")
    is_account = user.startswith(_SERVICE_ACCOUNT) and colon and namespace and name
    return (namespace, name) if is_account and ":" not in name else None


def _groups(identity: _Identity) -> set[str]:
    """Return the groups of the headers, or those of a service account."""
    groups = set(identity.groups)
    account = _service_account(identity.name)
    if account is not None and not groups:
        groups = {"system:serviceaccounts", f"system:serviceaccounts:{account[0]}"}
    if identity.name == ANONYMOUS.name:
        return groups | {UNAUTHENTICATED}
    return groups if UNAUTHENTICATED in groups else groups | {AUTHENTICATED}

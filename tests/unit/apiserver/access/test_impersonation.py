"""Acting as somebody else: what must be allowed, and who one is then."""

from __future__ import annotations

import pytest

from dray.api import errors
from dray.api.http_messages import User
from dray.apiserver.access import impersonation
from dray.apiserver.access.rbac import Attributes

ADMIN = User("admin", frozenset({"system:masters"}))


def acting_as(*headers: tuple[str, str], user: User = ADMIN) -> tuple[User, list[str]]:
    """The identity, and what the user had to be allowed to do."""
    asked: list[str] = []

    def allow(_user: User, attributes: Attributes) -> None:
        where = f"{attributes.namespace}/" if attributes.namespace else ""
        asked.append(f"{attributes.verb} {attributes.full_resource} {where}{attributes.name}")

    return impersonation.impersonated_user(user, headers, allow), asked


def test_without_headers_one_is_oneself() -> None:
    assert acting_as() == (ADMIN, [])


def test_a_user_is_authenticated_unless_said_otherwise() -> None:
    user, asked = acting_as(("impersonate-user", "jane"))
    assert user.name == "jane"
    assert user.groups == {"system:authenticated"}
    assert user.impersonator == ADMIN
    assert asked == ["impersonate users jane"]
    outside = acting_as(("impersonate-user", "x"), ("impersonate-group", "system:unauthenticated"))
    assert outside[0].groups == {"system:unauthenticated"}


def test_every_group_and_extra_value_is_asked_for() -> None:
    user, asked = acting_as(
        ("impersonate-user", "jane"),
        ("impersonate-group", "a"),
        ("impersonate-group", "b"),
        ("impersonate-uid", "42"),
        ("impersonate-extra-example.com%2fscope", "one"),
        ("impersonate-extra-example.com%2fscope", "two"),
    )
    assert user.groups == {"a", "b", "system:authenticated"}
    assert (user.uid, user.extra) == ("42", (("example.com/scope", ("one", "two")),))
    assert asked == [
        "impersonate users jane",
        "impersonate groups a",
        "impersonate groups b",
        "impersonate userextras/example.com/scope one",
        "impersonate userextras/example.com/scope two",
        "impersonate uids 42",
    ]


def test_a_service_account_brings_its_groups() -> None:
    user, asked = acting_as(("impersonate-user", "system:serviceaccount:team:robot"))
    assert asked == ["impersonate serviceaccounts team/robot"]
    assert user.groups == {
        "system:serviceaccounts",
        "system:serviceaccounts:team",
        "system:authenticated",
    }


def test_an_anonymous_user_is_not_authenticated() -> None:
    user, _ = acting_as(("impersonate-user", "system:anonymous"))
    assert user.groups == {"system:unauthenticated"}


def test_a_group_alone_is_nobody() -> None:
    with pytest.raises(errors.BadRequest):
        acting_as(("impersonate-group", "system:masters"))


def test_who_may_not_is_refused() -> None:
    def refuse(user: User, attributes: Attributes) -> str | None:
        return f"{user.name} cannot" if attributes.resource == "groups" else None

    headers = (("impersonate-user", "jane"), ("impersonate-group", "system:masters"))
    with pytest.raises(errors.Forbidden, match='groups "system:masters" is forbidden: eve cannot'):
        impersonation.impersonated_user(User("eve"), headers, refuse)

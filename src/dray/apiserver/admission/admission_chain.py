"""What stands between a well-formed request and the store: the seam of every admission rule.

A rule may change the object (`mutate`), find fault with its fields beside validation
(`field_errors`), refuse it (`validate`), and ask that more be written or guarded in the very
transaction that stores it, so that what it checked still holds then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dray.api import errors
from dray.api.http_messages import User
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.apiserver.storage import store_keys
from dray.store.store import Guard, Operation

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


@dataclass(slots=True, kw_only=True)
class AdmissionRequest:
    """One change on its way to the store.

    `old` is None for a creation; `new` is None where nothing of the object will remain.
    """

    operation: str
    kind: Kind
    user: User
    namespace: str
    name: str
    new: JsonObject | None = None
    old: JsonObject | None = None
    subresource: str = ""
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)
    verb: str = ""
    """The verb of the request, where the operation alone does not tell (update or patch)."""

    def forbidden(self, why: str) -> errors.Forbidden:
        return errors.forbidden(store_keys.group_resource(self.kind), self.name, why)

    def is_about(self, group: str, kind: str, subresource: str = "") -> bool:
        return (self.kind.group, self.kind.kind, self.subresource) == (group, kind, subresource)


@dataclass(frozen=True, slots=True)
class CommitRequirements:
    """What must happen, and what must still hold, in the transaction of the action."""

    operations: tuple[Operation, ...] = ()
    guards: tuple[Guard, ...] = ()


NO_REQUIREMENTS = CommitRequirements()


class AdmissionRule:
    """A rule that lets everything pass; the others say what they do about it."""

    about: frozenset[str] | None = None
    """The kinds that the rule may have something to say about; None for all of them."""

    async def mutate(self, action: AdmissionRequest) -> None:
        """Change `action.new` in place, or raise. What is added is in canonical form."""

    async def field_errors(self, action: AdmissionRequest) -> Sequence[errors.Cause]:
        """What is wrong with fields; told together with what validation finds, before it."""
        return ()

    async def validate(self, action: AdmissionRequest) -> CommitRequirements:
        """Raise to refuse; the object no longer changes."""
        return NO_REQUIREMENTS


CommitLock = Callable[[AdmissionRequest], contextlib.AbstractAsyncContextManager[None]]


NO_LOCK: contextlib.AbstractAsyncContextManager[None] = contextlib.nullcontext()
"""The turn of an action that waits for nobody."""


def at_once(_action: AdmissionRequest) -> contextlib.AbstractAsyncContextManager[None]:
    return NO_LOCK


class _Hooks(NamedTuple):
    """What the rules do about one kind. Most do one of the three, and are about few kinds: to ask
    them all would cost more than what they do."""

    mutate: Sequence[Callable[[AdmissionRequest], Awaitable[None]]]
    field_errors: Sequence[Callable[[AdmissionRequest], Awaitable[Sequence[errors.Cause]]]]
    validate: Sequence[Callable[[AdmissionRequest], Awaitable[CommitRequirements]]]

    @classmethod
    def of(cls, rules: Iterable[AdmissionRule], kind: Kind) -> _Hooks:
        concerned = [rule for rule in rules if rule.about is None or kind.kind in rule.about]
        return cls(
            [each.mutate for each in concerned if _has_own(each, "mutate")],
            [each.field_errors for each in concerned if _has_own(each, "field_errors")],
            [each.validate for each in concerned if _has_own(each, "validate")],
        )


class AdmissionChain:
    """The rules, in order: first all that change, then all that complain, then all that refuse.

    From the first refusal to the commit an action has its `turn`: where two of them would charge
    the same account, one waits for the other instead of failing over and over.
    """

    def __init__(self, rules: Iterable[AdmissionRule], turn: CommitLock = at_once) -> None:
        self._rules = tuple(rules)
        self._hooks: dict[str, _Hooks] = {}
        self.turn = turn

    def _of(self, kind: Kind) -> _Hooks:
        hooks = self._hooks.get(kind.kind)
        if hooks is None:
            hooks = self._hooks[kind.kind] = _Hooks.of(self._rules, kind)
        return hooks

    async def mutate(self, action: AdmissionRequest) -> None:
        for mutate in self._of(action.kind).mutate:
            await mutate(action)

    async def field_errors(self, action: AdmissionRequest) -> list[errors.Cause]:
        field_errors = self._of(action.kind).field_errors
        return [cause for find in field_errors for cause in await find(action)]

    async def validate(self, action: AdmissionRequest) -> CommitRequirements:
        operations: list[Operation] = []
        guards: list[Guard] = []
        for validate in self._of(action.kind).validate:
            also = await validate(action)
            if also is not NO_REQUIREMENTS:
                operations += also.operations
                guards += also.guards
        return (
            CommitRequirements(tuple(operations), tuple(guards))
            if operations or guards
            else NO_REQUIREMENTS
        )


def _has_own(rule: AdmissionRule, method: str) -> bool:
    return getattr(type(rule), method) is not getattr(AdmissionRule, method)

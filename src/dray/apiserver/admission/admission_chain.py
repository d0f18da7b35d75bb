"""Admission: the interface of all rules, and the chain that calls them.

A rule may change the object (`mutate`), report invalid fields besides validation (`field_errors`),
reject it (`validate`), and require more writes or guards in the transaction that stores it, so that
what it checked is still true then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dray.api import errors
from dray.api.admission.refusals import Refused
from dray.api.http_messages import User
from dray.api.kinds import GroupVersionKind, Kind
from dray.api.types.meta import JsonObject
from dray.apiserver.request.request_notes import RequestNotes
from dray.apiserver.storage import store_keys
from dray.store.store import Guard, Operation, Transaction

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


@dataclass(slots=True, kw_only=True)
class AdmissionRequest:
    """One change on its way to the store.

    `old` is None for a create; `new` is None if nothing of the object will remain.
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
    """The verb of the request: update and patch are one operation."""
    version: str
    """The version of the API that the client uses."""
    options: JsonObject | None = None
    """The options of the operation, such as CreateOptions."""
    body_kind: GroupVersionKind | None = None
    """The kind of `new` where that is not the resource's own: the body of a subresource."""
    notes: RequestNotes = field(default_factory=RequestNotes)
    view: Callable[[JsonObject], JsonObject] | None = None
    """Returns the body of a subresource from the object that it changes, such as Scale."""
    is_decided: bool = False
    """Whether the change is part of a request that policies have decided about already."""

    @property
    def is_create(self) -> bool:
        return self.operation == CREATE

    @property
    def current(self) -> JsonObject | None:
        """The object of the request: none for a deletion, whatever remains of it."""
        return None if self.operation == DELETE else self.new

    def shown(self, document: JsonObject | None) -> JsonObject | None:
        """Return an object as the API has it for this resource or subresource."""
        return document if document is None or self.view is None else self.view(document)

    @property
    def document(self) -> JsonObject:
        """Return the new object of a change that leaves one."""
        assert self.new is not None
        return self.new

    def forbidden(self, why: str) -> errors.Forbidden:
        return errors.forbidden(store_keys.group_resource(self.kind), self.name, why)

    @contextlib.contextmanager
    def forbids(self) -> Iterator[None]:
        """Raise Forbidden where a rule refuses the object."""
        try:
            yield
        except Refused as error:
            raise self.forbidden(str(error)) from error

    def is_about(self, group: str, kind: str, subresource: str = "") -> bool:
        return (self.kind.group, self.kind.kind, self.subresource) == (group, kind, subresource)


@dataclass(frozen=True, slots=True)
class CommitRequirements:
    """Parts that the transaction of a change must have: operations, guards, unheld tokens."""

    operations: tuple[Operation, ...] = ()
    guards: tuple[Guard, ...] = ()
    unheld: tuple[str, ...] = ()

    def transaction(self, change: Operation) -> Transaction:
        """Return the transaction of the change itself and of what it requires. Raises 413."""
        with store_keys.translated():
            return Transaction((change, *self.operations), self.guards, self.unheld)


NO_REQUIREMENTS = CommitRequirements()


class AdmissionRule:
    """A rule that admits everything; subclasses override what they need."""

    about: frozenset[str] | None = None
    """The kinds that the rule is called for; None for all."""
    operations: frozenset[str] | None = None
    """The operations that the rule is called for; None for all."""

    async def mutate(self, admission: AdmissionRequest) -> None:
        """Change `admission.new` in place, or raise. Additions are in canonical form."""

    async def field_errors(self, admission: AdmissionRequest) -> Sequence[errors.Cause]:
        """Return errors of fields; they are reported before those of validation."""
        return ()

    async def validate(self, admission: AdmissionRequest) -> CommitRequirements | None:
        """Raise to reject the change; the object is final."""
        return None


CommitLock = Callable[[AdmissionRequest], contextlib.AbstractAsyncContextManager[None]]


NO_LOCK: contextlib.AbstractAsyncContextManager[None] = contextlib.nullcontext()
"""The lock of a change that waits for no other."""


def no_lock(_admission: AdmissionRequest) -> contextlib.AbstractAsyncContextManager[None]:
    return NO_LOCK


class _Hooks(NamedTuple):
    """The methods that rules override for one kind and operation.

    Most override one of the three, for few kinds: to call all of them would cost more than what
    they do.
    """

    mutate: Sequence[Callable[[AdmissionRequest], Awaitable[None]]]
    field_errors: Sequence[Callable[[AdmissionRequest], Awaitable[Sequence[errors.Cause]]]]
    validate: Sequence[Callable[[AdmissionRequest], Awaitable[CommitRequirements | None]]]

    @classmethod
    def of(cls, rules: Iterable[AdmissionRule], kind: str, operation: str) -> _Hooks:
        concerned = [
            rule
            for rule in rules
            if (rule.about is None or kind in rule.about)
            and (rule.operations is None or operation in rule.operations)
        ]
        return cls(
            [rule.mutate for rule in concerned if _has_own(rule, "mutate")],
            [rule.field_errors for rule in concerned if _has_own(rule, "field_errors")],
            [rule.validate for rule in concerned if _has_own(rule, "validate")],
        )


class AdmissionChain:
    """The rules in order: first all `mutate`, then all `field_errors`, then all `validate`.

    From `validate` to the commit a change holds `commit_lock`: of two that would charge the same
    quota, one waits for the other instead of failing again and again.
    """

    def __init__(self, rules: Iterable[AdmissionRule], commit_lock: CommitLock = no_lock) -> None:
        self._rules = tuple(rules)
        self._hooks: dict[tuple[str, str], _Hooks] = {}
        self.commit_lock = commit_lock

    def _of(self, admission: AdmissionRequest) -> _Hooks:
        key = admission.kind.kind, admission.operation
        hooks = self._hooks.get(key)
        if hooks is None:
            hooks = self._hooks[key] = _Hooks.of(self._rules, *key)
        return hooks

    async def mutate(self, admission: AdmissionRequest) -> None:
        for mutate in self._of(admission).mutate:
            await mutate(admission)

    async def field_errors(self, admission: AdmissionRequest) -> list[errors.Cause]:
        field_errors = self._of(admission).field_errors
        return [cause for find in field_errors for cause in await find(admission)]

    async def validate(self, admission: AdmissionRequest) -> CommitRequirements:
        operations: list[Operation] = []
        guards: list[Guard] = []
        unheld: list[str] = []
        for validate in self._of(admission).validate:
            requirements = await validate(admission)
            if requirements is not None:
                operations += requirements.operations
                guards += requirements.guards
                unheld += requirements.unheld
        if not operations and not guards and not unheld:
            return NO_REQUIREMENTS
        return CommitRequirements(tuple(operations), tuple(guards), tuple(unheld))


def _has_own(rule: AdmissionRule, method: str) -> bool:
    return getattr(type(rule), method) is not getattr(AdmissionRule, method)

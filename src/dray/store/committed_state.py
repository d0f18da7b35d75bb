"""The current state in memory, and the evaluation of transactions. Nothing here waits.

The memory store is little more than this; the SQLite store adds durability.
"""

from __future__ import annotations

import abc
import bisect
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.store import store


class StateSnapshot(NamedTuple):
    """A whole state at one revision: entries in key order, and the tokens that keys hold."""

    revision: int
    entries: Sequence[store.Entry]
    holds: Mapping[str, tuple[str, ...]]


Before = dict[str, store.Entry | None]
"""The entries of some keys at an earlier revision; None for a key that did not exist."""

EMPTY = StateSnapshot(revision=0, entries=(), holds={})


class StateChange(NamedTuple):
    """An event, its index in its transaction, and the tokens that its key holds afterwards."""

    event: store.Event
    place: int
    holds: tuple[str, ...]


class CommittedState:
    """The current entries and holds. Changed only by applying a draft."""

    def __init__(self, image: StateSnapshot) -> None:
        self.revision = image.revision
        self._changed_at: defaultdict[str, int] = defaultdict(lambda: image.revision)
        self._entries = {entry.key: entry for entry in image.entries}
        self._keys = [entry.key for entry in image.entries]
        self._holds = dict(image.holds)
        self._owners = {token: key for key, tokens in image.holds.items() for token in tokens}

    def get(self, key: str) -> store.Entry | None:
        return self._entries.get(key)

    def holds(self, key: str) -> tuple[str, ...]:
        return self._holds.get(key, ())

    def changed_at(self, area: str) -> int:
        return self._changed_at[area]

    def owner(self, token: str) -> str | None:
        return self._owners.get(token)

    def page(self, span: store.Span, limit: int) -> store.Page:
        low = bisect.bisect_right(self._keys, span.low)
        high = max(low, bisect.bisect_left(self._keys, span.high))
        end = min(high, low + limit) if limit else high
        entries = [self._entries[key] for key in self._keys[low:end]]
        return store.Page(entries, self.revision, high - end)

    def page_at(self, span: store.Span, limit: int, revision: int, before: Before) -> store.Page:
        """Return a page of an earlier revision; `before` has the keys that changed since then."""
        # A changed key removes at most one entry from the page: that many more are enough.
        page = self.page(span, limit + len(before) if limit else 0)
        unchanged = [entry for entry in page.entries if entry.key not in before]
        changed = [entry for entry in before.values() if entry]
        entries = sorted(unchanged + changed, key=operator.attrgetter("key"))
        hidden = sum(key in self._entries for key in before)
        count = len(page.entries) + page.remaining - hidden + len(changed)
        entries = entries[:limit] if limit else entries
        return store.Page(entries, revision, count - len(entries))

    def apply(self, draft: PendingCommits) -> None:
        self.revision = draft.revision
        for change in draft.changes:
            self._set_entry(change.event.key, change.event.current)
            self._changed_at[_area(change.event.key)] = draft.revision
        for key, holds in draft.new_holds.items():
            if holds:
                self._holds[key] = holds
            else:
                self._holds.pop(key, None)
        for token, owner in draft.new_owners.items():
            if owner is None:
                self._owners.pop(token, None)
            else:
                self._owners[token] = owner

    def _set_entry(self, key: str, entry: store.Entry | None) -> None:
        exists = key in self._entries
        if entry is not None:
            self._entries[key] = entry
            if not exists:
                bisect.insort(self._keys, key)
        elif exists:
            del self._entries[key]
            del self._keys[bisect.bisect_left(self._keys, key)]


class StateStore(store.Store):
    """A store whose current state is in memory; subclasses add durability and history."""

    def __init__(self, image: StateSnapshot) -> None:
        self._state = CommittedState(image)
        self._closed = False

    @property
    @abc.abstractmethod
    def _oldest(self) -> int:
        """Return the revision back to which history reaches."""

    async def revision(self) -> int:
        return self._state.revision

    async def get(self, key: str) -> store.Entry | None:
        return self._state.get(key)

    def changed_at(self, area: str) -> int:
        return self._state.changed_at(area)

    def _check_open(self) -> None:
        if self._closed:
            raise store.Closed

    def _check_reached(self, revision: int) -> None:
        if revision > self._state.revision:
            raise store.FutureRevision(revision, self._state.revision)

    def _check_reachable(self, revision: int) -> None:
        self._check_open()
        self._check_reached(revision)
        if revision < self._oldest:
            raise store.RevisionExpired(revision, self._oldest)


def _area(key: str) -> str:
    """Return the first two parts of a key, which all objects of a kind have in common."""
    return key[: key.find("/", key.find("/", 1) + 1) + 1]


class PendingCommits:
    """Transactions that are accepted and not yet committed; each one sees those before it.

    A rejected transaction leaves no trace. Dropping the draft undoes all of it.
    """

    def __init__(self, state: CommittedState) -> None:
        self._state = state
        self._entries: dict[str, store.Entry | None] = {}
        self.revision = state.revision
        self.changes: list[StateChange] = []
        self.new_holds: dict[str, tuple[str, ...]] = {}
        self.new_owners: dict[str, str | None] = {}

    @property
    def events(self) -> list[store.Event]:
        return [change.event for change in self.changes]

    def add(self, transaction: store.Transaction) -> int:
        """Accept a transaction and return its future revision, or raise CommitRejected."""
        self._check_revisions(transaction)
        claimed = self._check_holds(transaction)
        self._move_holds(transaction, claimed)
        events = list(self._events(transaction.operations))
        if events:
            self.revision += 1
        for place, event in enumerate(events):
            self._entries[event.key] = event.current
            self.changes.append(StateChange(event, place, self._holds(event.key)))
        return self.revision

    def _check_revisions(self, transaction: store.Transaction) -> None:
        for guard in transaction.requirements():
            entry = self._get(guard.key)
            actual = entry.revision if entry else store.ABSENT
            if actual != guard.revision:
                raise store.GuardFailed(guard.key, guard.revision, actual)

    def _check_holds(self, transaction: store.Transaction) -> dict[str, str]:
        claimed = transaction.claimed()
        releasing = transaction.releasing()
        for token in (*claimed, *transaction.unheld):
            owner = self._owner(token)
            if owner is not None and owner not in releasing:
                raise store.TokenAlreadyHeld(token, owner)
        return claimed

    def _move_holds(self, transaction: store.Transaction, claimed: Mapping[str, str]) -> None:
        for key in transaction.releasing():
            self.new_owners.update(dict.fromkeys(self._holds(key)))
            self.new_holds[key] = ()
        for token, key in claimed.items():
            self.new_owners[token] = key
            self.new_holds[key] += (token,)

    def _events(self, operations: Iterable[store.Operation]) -> Iterator[store.Event]:
        revision = self.revision + 1
        for operation in operations:
            previous = self._get(operation.key)
            if isinstance(operation, store.Put):
                created = previous.created if previous else revision
                entry = store.Entry(operation.key, operation.value, revision, created)
                yield store.Event(operation.key, revision, entry, previous)
            elif previous:
                yield store.Event(operation.key, revision, None, previous)

    def _get(self, key: str) -> store.Entry | None:
        return self._entries[key] if key in self._entries else self._state.get(key)

    def _holds(self, key: str) -> tuple[str, ...]:
        holds = self.new_holds.get(key)
        return self._state.holds(key) if holds is None else holds

    def _owner(self, token: str) -> str | None:
        if token in self.new_owners:
            return self.new_owners[token]
        return self._state.owner(token)


def undo(events: Iterable[store.Event], span: store.Span) -> Before:
    """Return the entries that the changed keys of a span had before all of these events."""
    before: Before = {}
    for event in events:
        if span.covers(event.key):
            before.setdefault(event.key, event.previous)
    return before

"""A store against a model made of dicts: commits, holds, lists at any revision, watches.

The model keeps every state it ever had and the list of all events; nothing in it is clever.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dray.store import memory, sqlite, store, watch
from tests import loop, rounds

KEYS = ["/a/x", "/a/y", "/a/b/x", "/a/b/y", "/b/x", "/ab/x"]
PREFIXES = ["/", "/a/", "/a/b/", "/b/", "/c/"]
TOKENS = ["t0", "t1", "t2"]
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
SMALL = watch.WatchLimits(window_events=4, buffered_events=10_000)

keys = st.sampled_from(KEYS)
tokens = st.lists(st.sampled_from(TOKENS), unique=True).map(tuple)


class Aim(NamedTuple):
    """An operation whose expected revision is chosen once the present is known."""

    key: str
    value: bytes | None
    expectation: str
    holds: tuple[str, ...] | None


aims = st.builds(
    Aim,
    key=keys,
    value=st.none() | st.binary(max_size=3),
    expectation=st.sampled_from(["any", "any", "right", "right", "absent", "wrong"]),
    holds=st.none() | tokens,
)


class Model:
    def __init__(self) -> None:
        self.revision = 0
        self.entries: dict[str, store.Entry] = {}
        self.owners: dict[str, str] = {}
        self.compacted = 0
        self.past: dict[int, dict[str, store.Entry]] = {0: {}}
        self.events: list[store.Event] = []

    def revision_of(self, key: str) -> int:
        return self.entries[key].revision if key in self.entries else store.ABSENT

    def refusal(self, transaction: store.Transaction) -> tuple[Any, ...] | None:
        for operation in transaction.operations:
            actual = self.revision_of(operation.key)
            if operation.expect not in (None, actual):
                return (operation.key, operation.expect, actual)
        for guard in transaction.guards:
            if guard.revision != self.revision_of(guard.key):
                return (guard.key, guard.revision, self.revision_of(guard.key))
        return self._held(transaction)

    def _held(self, transaction: store.Transaction) -> tuple[Any, ...] | None:
        owners = self._after_release(transaction)
        taken: dict[str, str] = {}
        for operation in transaction.operations:
            for token in getattr(operation, "holds", None) or ():
                if token in taken:
                    return (token, taken[token])
                taken[token] = operation.key
        for token in taken:
            if token in owners:
                return (token, owners[token])
        return None

    def _after_release(self, transaction: store.Transaction) -> dict[str, str]:
        letting_go = [
            operation.key
            for operation in transaction.operations
            if isinstance(operation, store.Delete) or operation.holds is not None
        ]
        return {token: key for token, key in self.owners.items() if key not in letting_go}

    def commit(self, transaction: store.Transaction) -> None:
        revision, entries, events = self.revision + 1, dict(self.entries), []
        self.owners = self._after_release(transaction)
        for operation in transaction.operations:
            previous = entries.pop(operation.key, None)
            if isinstance(operation, store.Put):
                created = previous.created if previous else revision
                entry = store.Entry(operation.key, operation.value, revision, created)
                entries[operation.key] = entry
                self.owners |= dict.fromkeys(operation.holds or (), operation.key)
                events.append(store.Event(operation.key, revision, entry, previous))
            elif previous:
                events.append(store.Event(operation.key, revision, None, previous))
        if events:
            self.revision, self.entries = revision, entries
            self.past[revision] = entries
            self.events += events


class Watching:
    """A watch, and how many events have been read from it."""

    def __init__(self, watcher: store.Watch, prefix: str, after: int) -> None:
        self.watcher, self.prefix, self._after = watcher, prefix, after
        self._taken = 0

    def unread(self, model: Model) -> list[store.Event]:
        matching = [e for e in model.events if e.key.startswith(self.prefix)]
        return [e for e in matching if e.revision > self._after][self._taken :]

    async def take(self, count: int) -> list[store.Event]:
        async with asyncio.timeout(20):
            events = [await anext(self.watcher) for _ in range(count)]
        self._taken += count
        return events


class StoreMachine(RuleBasedStateMachine):
    """Any store; what leaves the memory store's window counts as compacted."""

    def open(self) -> AbstractAsyncContextManager[store.Store]:
        return memory.open(SMALL)

    def oldest(self) -> int:
        return self.store._fanout.window.start  # type: ignore[attr-defined, no-any-return]

    @initialize()
    def start(self) -> None:
        self.model = Model()
        self.watches: list[Watching] = []
        self._enter()

    def _enter(self) -> None:
        self.stack = AsyncExitStack()
        self.store: store.Store = loop.run(self.stack.enter_async_context(self.open()))

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            loop.run(self.stack.aclose())

    @rule(aims=st.lists(aims, min_size=1, max_size=3, unique_by=lambda aim: aim.key), guard=aims)
    def commit(self, aims: list[Aim], guard: Aim) -> None:
        expected = self._expected(guard)
        guards = () if expected is None else (store.Guard(guard.key, expected),)
        transaction = store.Transaction(tuple(map(self._operation, aims)), guards)
        refusal = self.model.refusal(transaction)
        if refusal is None:
            revision = loop.run(self.store.commit(transaction))
            self.model.commit(transaction)
            assert revision == self.model.revision
        else:
            with pytest.raises(store.CommitRejected) as refused:
                loop.run(self.store.commit(transaction))
            assert refused.value.args == refusal

    def _operation(self, aim: Aim) -> store.Operation:
        expected = self._expected(aim)
        if aim.value is None:
            return store.Delete(aim.key, expected)
        return store.Put(aim.key, aim.value, expected, aim.holds)

    def _expected(self, aim: Aim) -> int | None:
        right = self.model.revision_of(aim.key)
        return {"any": None, "right": right, "absent": store.ABSENT, "wrong": right + 1}[
            aim.expectation
        ]

    @rule(
        prefix=st.sampled_from(PREFIXES),
        limit=st.integers(0, 4),
        after_key=st.just("") | keys,
        back=st.none() | st.integers(0, 8),
    )
    def list(self, prefix: str, limit: int, after_key: str, back: int | None) -> None:
        revision = None if back is None else max(0, self.model.revision - back)
        listing = self.store.list(prefix, limit=limit, after_key=after_key, revision=revision)
        try:
            page = loop.run(listing)
        except store.RevisionExpired:
            assert revision is not None
            assert revision < self.oldest()
            return
        at = self.model.revision if revision is None else revision
        assert page.revision == at
        matching = [
            entry
            for key, entry in sorted(self.model.past[at].items())
            if key.startswith(prefix) and key > after_key
        ]
        wanted = matching[:limit] if limit else matching
        assert page.entries == wanted
        assert page.remaining == len(matching) - len(wanted)

    @rule(prefix=st.sampled_from(PREFIXES), back=st.integers(0, 8))
    def watch(self, prefix: str, back: int) -> None:
        after = max(0, self.model.revision - back)
        try:
            watcher = loop.run(self.store.watch(prefix, after))
        except store.RevisionExpired:
            assert after < self.oldest()
        else:
            self.watches.append(Watching(watcher, prefix, after))

    @precondition(lambda self: self.watches)
    @rule(data=st.data())
    def read_watch(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.watches) - 1))
        watching = self.watches[index]
        unread = watching.unread(self.model)
        count = data.draw(st.integers(0, len(unread)))
        try:
            assert loop.run(watching.take(count)) == unread[:count]
        except store.RevisionExpired:
            assert watching.watcher.revision < self.oldest()
            self.watches.pop(index)
            return
        progress = watching.watcher.revision
        assert all(event.revision > progress for event in unread[count:])

    @rule(back=st.integers(0, 4))
    def compact(self, back: int) -> None:
        revision = max(0, self.model.revision - back)
        loop.run(self.store.compact(revision))
        self.model.compacted = max(self.model.compacted, revision)

    @invariant()
    def present_is_the_same(self) -> None:
        if not hasattr(self, "store"):
            return
        page = loop.run(self.store.list("/"))
        assert page.revision == self.model.revision
        assert {entry.key: entry for entry in page.entries} == self.model.entries


class LastingStoreMachine(StoreMachine):
    """A store that can be closed and opened again at any moment."""

    def open(self) -> AbstractAsyncContextManager[store.Store]:
        if not hasattr(self, "directory"):
            self.directory = tempfile.TemporaryDirectory(dir=FAST)
        return sqlite.open(Path(self.directory.name) / "store.db", limits=SMALL)

    def oldest(self) -> int:
        return self.model.compacted

    @rule()
    def reopen(self) -> None:
        loop.run(self.stack.aclose())
        self._enter()
        resumable = [w for w in self.watches if w.watcher.revision >= self.model.compacted]
        self.watches = []
        for watching in resumable:
            after = watching.watcher.revision
            watcher = loop.run(self.store.watch(watching.prefix, after))
            self.watches.append(Watching(watcher, watching.prefix, after))

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "directory"):
            self.directory.cleanup()


def test_memory_store_behaves_like_a_dict_with_a_past() -> None:
    run_state_machine_as_test(StoreMachine, settings=rounds.examples(100, long=3000))


def test_sqlite_store_behaves_like_a_dict_with_a_past() -> None:
    run_state_machine_as_test(LastingStoreMachine, settings=rounds.examples(50, long=1000))

"""A store's transaction as one transaction of etcd, and the meaning of its failure.

An entry is one key of etcd. A held token is another, with its owner as value, so that no two keys
can hold it; and a key that holds tokens has a record of them, so that they can be released:

    <root>/entries<key>    the value
    <root>/tokens/<token>  the key that holds it
    <root>/holds<key>      the tokens it holds, as a JSON array
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from aetcd import rpc

from dray.store import store

MAX_STEPS = 128
"""The limit of operations in a transaction that etcd has by default (--max-txn-ops)."""


class Layout(NamedTuple):
    """The keys in etcd of entries, tokens and holds."""

    root: str

    def entry(self, key: str) -> bytes:
        return f"{self.root}/entries{key}".encode()

    def token(self, token: str) -> bytes:
        return f"{self.root}/tokens/{token}".encode()

    def holds(self, key: str) -> bytes:
        return f"{self.root}/holds{key}".encode()

    def key_of(self, entry: bytes) -> str:
        return entry.decode().removeprefix(f"{self.root}/entries")


class Held(NamedTuple):
    """The tokens of a key, and the revision of the record that lists them."""

    tokens: tuple[str, ...] = ()
    revision: int = store.ABSENT


class Attempt:
    """One attempt of a transaction that assumes which tokens its keys hold.

    etcd compares the assumption. When it was wrong, `resolve_failure` corrects it for the next
    attempt; so keys that hold nothing, which are nearly all, need no read before the write.
    """

    def __init__(
        self, layout: Layout, transaction: store.Transaction, believed: Mapping[str, Held]
    ) -> None:
        self._layout = layout
        self._transaction = transaction
        self._guards = list(transaction.requirements())
        self._held = {key: believed.get(key, Held()) for key in transaction.releasing()}
        self._claimed = transaction.claimed()
        self._own = {token for held in self._held.values() for token in held.tokens}
        wanted = dict.fromkeys((*self._claimed, *transaction.unheld))
        self._foreign = [token for token in wanted if token not in self._own]

    def request(self) -> Any:
        compared = list(self._compared())
        steps = [*self._writes(), *self._hold_writes()]
        if len(steps) > MAX_STEPS:
            raise store.TooLarge("steps", len(steps), MAX_STEPS)
        return rpc.TxnRequest(
            compare=[_is_at(key, revision) for key, revision in compared],
            success=steps,
            failure=[rpc.RequestOp(request_range=rpc.RangeRequest(key=key)) for key, _ in compared],
        )

    def _compared(self) -> Iterator[tuple[bytes, int]]:
        for guard in self._guards:
            yield self._layout.entry(guard.key), guard.revision
        for key, held in self._held.items():
            yield self._layout.holds(key), held.revision
        for token in self._foreign:
            yield self._layout.token(token), store.ABSENT

    def _writes(self) -> Iterator[rpc.RequestOp]:
        for operation in self._transaction.operations:
            key = self._layout.entry(operation.key)
            yield put(key, operation.value) if isinstance(operation, store.Put) else _delete(key)

    def _hold_writes(self) -> Iterator[rpc.RequestOp]:
        for key, held in self._held.items():
            tokens = [token for token, owner in self._claimed.items() if owner == key]
            if tokens:
                yield put(self._layout.holds(key), msgspec.json.encode(tokens))
            elif held.tokens:
                yield _delete(self._layout.holds(key))
        for token, owner in self._claimed.items():
            yield put(self._layout.token(token), owner.encode())
        for token in self._own - self._claimed.keys():
            yield _delete(self._layout.token(token))

    def resolve_failure(self, response: Any) -> dict[str, Held]:
        """Return the tokens that the keys really hold. Raises CommitRejected if a guard failed."""
        entries = iter([_first(step.response_range.kvs) for step in response.responses])
        for guard in self._guards:
            entry = next(entries)
            actual = entry.mod_revision if entry else store.ABSENT
            if actual != guard.revision:
                raise store.GuardFailed(guard.key, guard.revision, actual)
        held = {key: _held(next(entries)) for key in self._held}
        if held == self._held:
            for token in self._foreign:
                if taken := next(entries):
                    raise store.TokenAlreadyHeld(token, taken.value.decode())
        return held


def _is_at(key: bytes, revision: int) -> rpc.Compare:
    return rpc.Compare(
        key=key, target=rpc.Compare.MOD, result=rpc.Compare.EQUAL, mod_revision=revision
    )


def put(key: bytes, value: bytes) -> rpc.RequestOp:
    return rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value))


def _delete(key: bytes) -> rpc.RequestOp:
    return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))


def _first(pairs: Any) -> Any:
    return pairs[0] if pairs else None


def _held(record: Any) -> Held:
    if record is None:
        return Held()
    return Held(msgspec.json.decode(record.value, type=tuple[str, ...]), record.mod_revision)

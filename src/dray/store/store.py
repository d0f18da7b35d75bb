"""The interface of a store: keys, opaque values, revisions and one order of commits.

The API server calls it; `memory`, `sqlite` and `etcd` implement it. Kinds and HTTP are not its
business.

Every commit that changes something gets a new revision, larger than all before it. An entry carries
the revision that last wrote it; the store never decodes a value, so a reader that needs the
revision inside the object (`metadata.resourceVersion`) puts it there. All changes of one commit
share its revision and appear at once.

Errors are the store's own and carry data, because a message about an object needs its kind:

    StoreError
    ├── CommitRejected      the commit changed nothing, because
    │   ├── GuardFailed       a key is not at the expected revision
    │   └── TokenAlreadyHeld  another key holds one of the tokens
    ├── TooLarge            the transaction exceeds what every implementation can take
    ├── Expired             the revision is older than the history kept
    ├── FutureRevision      the revision has not been reached
    ├── SlowWatcher         a watcher fell too far behind and was ended
    ├── ReadOnly            writes are refused for now (as on a full disk); reads go on
    ├── Unavailable         no answer; a commit may or may not have happened
    ├── Closed              the store has been closed
    └── StoreUnusable       the stored state cannot be opened
"""

from __future__ import annotations

import abc
import functools
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple, Self

import msgspec

ABSENT = 0
"""The revision of a key that does not exist."""

MAX_TRANSACTION_PARTS = 96
"""Operations and tokens of one transaction. etcd's own limit is 128 steps: one for each, and one
for each token that is given up."""

MAX_TRANSACTION_GUARDS = 120
"""Everything that one transaction compares; etcd's own limit is 128, and a few are our own."""

MAX_TRANSACTION_BYTES = 1_500_000
"""Values of one transaction, together; etcd takes requests of 1.5 MiB."""


class StoreError(Exception):
    """An error of a store."""


class CommitRejected(StoreError):
    """The commit changed nothing."""


class GuardFailed(CommitRejected):
    """A key is not at the revision the transaction expects; `ABSENT` stands for no entry."""

    def __init__(self, key: str, expected: int, actual: int) -> None:
        super().__init__(key, expected, actual)
        self.key, self.expected, self.actual = key, expected, actual

    def __str__(self) -> str:
        return f"{self.key} is at revision {self.actual}, not {self.expected}"


class TokenAlreadyHeld(CommitRejected):
    """Another key holds the token."""

    def __init__(self, token: str, owner: str) -> None:
        super().__init__(token, owner)
        self.token, self.owner = token, owner

    def __str__(self) -> str:
        return f"{self.token} is held by {self.owner}"


class TooLarge(StoreError):
    """The transaction has too many parts or too many bytes."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(what, size, limit)
        self.what, self.size, self.limit = what, size, limit

    def __str__(self) -> str:
        return f"a transaction of {self.size} {self.what}; at most {self.limit} are allowed"


class RevisionExpired(StoreError):
    """The history no longer reaches back to the revision."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(revision, oldest)
        self.revision, self.oldest = revision, oldest

    def __str__(self) -> str:
        return f"revision {self.revision} is too old; history starts at {self.oldest}"


class FutureRevision(StoreError):
    """No commit has reached the revision."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(revision, current)
        self.revision, self.current = revision, current

    def __str__(self) -> str:
        return f"revision {self.revision} is not reached; the current one is {self.current}"


class SlowWatcher(StoreError):
    """The watcher let too many events pile up and has been ended; it may resume where it was."""

    def __init__(self, waiting: int) -> None:
        super().__init__(waiting)
        self.waiting = waiting

    def __str__(self) -> str:
        return f"the watcher was ended with {self.waiting} events unread"


class ReadOnly(StoreError):
    """Writes are refused for now; nothing of the commit happened. The text is the reason."""


class Unavailable(StoreError):
    """No response came; a commit may or may not have happened. The text is the reason."""


class Closed(StoreError):
    """The store has been closed."""


class StoreUnusable(StoreError):
    """The stored state cannot be opened: a newer format, damage, in use. The text is the reason."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One key and its value; `revision` wrote it last, `created` wrote it first."""

    key: str
    value: bytes
    revision: int
    created: int


class Page(msgspec.Struct, frozen=True, gc=False):
    """Entries in key order as they were at `revision`; `remaining` more follow them."""

    entries: list[Entry]
    revision: int
    remaining: int


class Event(msgspec.Struct, frozen=True, gc=False):
    """A change of a key by a commit: no `current` after a delete, no `previous` before a create."""

    key: str
    revision: int
    current: Entry | None
    previous: Entry | None


class StoreHealth(msgspec.Struct, frozen=True, gc=False):
    """Whether writes succeed as far as the store has tried, and if not, why."""

    writable: bool
    reason: str = ""


class Put(msgspec.Struct, frozen=True):
    """Write a value.

    `expect` is the revision the key must have: `ABSENT` to create, None for whatever there is.
    `holds` are the tokens the key owns from now on; None leaves them as they are.
    """

    key: str
    value: bytes
    expect: int | None = None
    holds: tuple[str, ...] | None = None


class Delete(msgspec.Struct, frozen=True):
    """Remove a key and release its tokens; to delete an absent key changes nothing."""

    key: str
    expect: int | None = None


Operation = Put | Delete


class Guard(msgspec.Struct, frozen=True):
    """Another key must be at this revision (`ABSENT`: must not exist) for the commit to happen."""

    key: str
    revision: int


class Transaction(msgspec.Struct, frozen=True):
    """Operations that happen together or not at all; each key at most once."""

    operations: tuple[Operation, ...]
    guards: tuple[Guard, ...] = ()
    unheld: tuple[str, ...] = ()
    """Tokens that no other key may hold, and that this transaction does not take either."""

    def __post_init__(self) -> None:
        keys = [operation.key for operation in self.operations]
        if not keys or len(set(keys)) != len(keys):
            raise ValueError(
                "invalid transaction: it needs at least one operation and each key at most once"
            )
        for key in keys:
            _check_key(key)
        self._check_size()

    def _check_size(self) -> None:
        parts, size = len(self.operations), 0
        for operation in self.operations:
            if isinstance(operation, Put):
                parts += len(operation.holds or ())
                size += len(operation.value)
        if parts > MAX_TRANSACTION_PARTS:
            raise TooLarge("parts", parts, MAX_TRANSACTION_PARTS)
        guards = parts + len(self.guards) + len(self.unheld)
        if guards > MAX_TRANSACTION_GUARDS:
            raise TooLarge("guards", guards, MAX_TRANSACTION_GUARDS)
        if size > MAX_TRANSACTION_BYTES:
            raise TooLarge("bytes", size, MAX_TRANSACTION_BYTES)

    def requirements(self) -> Iterator[Guard]:
        """Return every revision that must match, in the order in which a failure is reported."""
        for operation in self.operations:
            if operation.expect is not None:
                yield Guard(operation.key, operation.expect)
        yield from self.guards

    def claimed(self) -> dict[str, str]:
        """Return the tokens that this transaction takes, each with its new owner."""
        owners: dict[str, str] = {}
        for operation in self.operations:
            for token in (operation.holds or ()) if isinstance(operation, Put) else ():
                if owners.setdefault(token, operation.key) != operation.key:
                    raise TokenAlreadyHeld(token, owners[token])
        return owners

    def releasing(self) -> list[str]:
        """Return the keys whose tokens this transaction replaces or releases."""
        return [
            operation.key
            for operation in self.operations
            if isinstance(operation, Delete) or operation.holds is not None
        ]


def _check_key(key: str) -> None:
    if not key.startswith("/") or key.endswith("/") or "\0" in key:
        raise ValueError(f"not a key: {key!r}")


class Span(NamedTuple):
    """The keys strictly between two strings."""

    low: str
    high: str

    @staticmethod
    @functools.lru_cache(maxsize=1024)
    def under(prefix: str, after_key: str = "") -> Span:
        """Return the keys under a prefix, which ends with "/", that come after `after_key`."""
        if not prefix.startswith("/") or not prefix.endswith("/"):
            raise ValueError(f"not a prefix: {prefix!r}")
        return Span(max(prefix, after_key), prefix[:-1] + "0")

    def covers(self, key: str) -> bool:
        return self.low < key < self.high


class Watch(abc.ABC, AsyncIterator[Event]):
    """Events under one prefix in the order of their commits, without a gap, for one reader.

    Reading raises `SlowWatcher`, `Expired`, `Unavailable` or `Closed` when it cannot go on. A read
    that is cancelled loses nothing.
    """

    @property
    @abc.abstractmethod
    def revision(self) -> int:
        """Every event up to this revision has been read: safe to resume after."""

    @abc.abstractmethod
    async def read(self) -> list[Event]:
        """Wait for an event and return all that are ready; empty once the watch is closed."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stop receiving; a waiting `read` returns."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Store(abc.ABC):
    """Keys and values with revisions. Each module's `open` is the way to one, and closes it."""

    @abc.abstractmethod
    async def revision(self) -> int:
        """The revision of the newest commit."""

    @abc.abstractmethod
    async def get(self, key: str) -> Entry | None:
        """Return the newest entry of a key, or None."""

    @abc.abstractmethod
    async def list(
        self, prefix: str, *, limit: int = 0, after_key: str = "", revision: int | None = None
    ) -> Page:
        """Return entries under a prefix, in key order, now or exactly as of an earlier revision."""

    def changed_at(self, area: str) -> int | None:
        """Return the revision of the newest change in an area, such as `/core/pods/`.

        An area is the first two parts of keys. None if only a request could tell.
        """
        return None

    @abc.abstractmethod
    async def commit(self, transaction: Transaction) -> int:
        """Do all of it or raise. Returns its revision, once it is durable."""

    @abc.abstractmethod
    async def watch(self, prefix: str, after_revision: int) -> Watch:
        """Return a watch of every change under a prefix after that revision."""

    @abc.abstractmethod
    async def compact(self, revision: int) -> None:
        """Drop history: afterwards lists and watches reach back to this revision only."""

    @abc.abstractmethod
    def health(self) -> StoreHealth:
        """Return whether writes are accepted right now."""

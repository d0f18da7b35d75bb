"""Stored objects as frozen structs, for rules that depend on fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from dray.api.conversion import canonical
from dray.api.kinds import Kind
from dray.apiserver.storage import store_keys
from dray.store.store import Entry, Store

T = TypeVar("T")

MAX_CACHED = 4096


class Reader(Generic[T]):
    """Decodes stored objects to structs of one type."""

    def __init__(self, type_: type[T]) -> None:
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_)

    def read(self, entry: Entry) -> T:
        try:
            return self._decoder.decode(entry.value)
        except msgspec.ValidationError:
            # Go encodes some empty fields as null, which structs reject.
            return self.convert(msgspec.json.decode(entry.value))

    def convert(self, document: dict[str, Any]) -> T:
        try:
            return msgspec.convert(document, self._type)
        except msgspec.ValidationError:
            return msgspec.convert(canonical.prune_nulls(document), self._type)


class Found(NamedTuple, Generic[T]):
    """An object, and the entry that it was decoded from."""

    entry: Entry
    value: T


class _List(NamedTuple, Generic[T]):
    changed_at: int | None
    objects: Sequence[Found[T]]


class Lookup(Generic[T]):
    """The newest objects of one kind in the store, decoded once per revision."""

    def __init__(self, store: Store, kind: Kind, type_: type[T]) -> None:
        self._store = store
        self._prefix = store_keys.prefix(kind)
        self._reader = Reader(type_)
        self._cached: dict[str, Found[T]] = {}
        self._lists: dict[str, _List[T]] = {}
        """By namespace."""

    async def get(self, name: str, namespace: str = "") -> T | None:
        with store_keys.translated():
            entry = await self._store.get(f"{self._within(namespace)}{name}")
        return None if entry is None else self._found(entry).value

    async def all(self, namespace: str = "") -> Sequence[Found[T]]:
        changed = self._store.changed_at(self._prefix)
        cached = self._lists.get(namespace)
        if cached is not None and changed is not None and cached.changed_at == changed:
            return cached.objects
        with store_keys.translated():
            page = await self._store.list(self._within(namespace))
        objects = tuple(map(self._found, page.entries))
        if len(self._lists) >= MAX_CACHED:
            self._lists.clear()
        self._lists[namespace] = _List(changed, objects)
        return objects

    def _within(self, namespace: str) -> str:
        return f"{self._prefix}{namespace}/" if namespace else self._prefix

    def _found(self, entry: Entry) -> Found[T]:
        cached = self._cached.get(entry.key)
        if cached is None or cached.entry.revision != entry.revision:
            cached = Found(entry, self._reader.read(entry))
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            self._cached[entry.key] = cached
        return cached

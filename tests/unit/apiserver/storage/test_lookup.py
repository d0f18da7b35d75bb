"""Objects of the store as structs: decoded once, and never out of date."""

from __future__ import annotations

import pytest

from dray.api import kinds
from dray.api.types.core import ConfigMap
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.lookup import Lookup
from dray.store import memory
from dray.store.store import Delete, Put, Store, Transaction
from tests import loop


async def write(store: Store, name: str, text: str, namespace: str = "a") -> None:
    key = store_keys.key(kinds.CONFIG_MAP, name, namespace)
    value = b'{"metadata":{"resourceVersion":"","name":"%b"},"data":{"text":"%b"}}'
    await store.commit(Transaction((Put(key, value % (name.encode(), text.encode())),)))


async def texts(lookup: Lookup[ConfigMap], namespace: str = "") -> list[str]:
    return [found.value.data["text"] for found in await lookup.all(namespace)]


@pytest.mark.parametrize("knows_changes", [True, False])
def test_a_list_is_what_the_store_has_now(
    knows_changes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not knows_changes:
        monkeypatch.setattr(memory.MemoryStore, "changed_at", lambda _store, _area: None)

    async def steps() -> None:
        async with memory.open() as store:
            lookup = Lookup(store, kinds.CONFIG_MAP, ConfigMap)
            assert await texts(lookup) == []
            await write(store, "one", "first")
            await write(store, "two", "second", "b")
            assert await texts(lookup) == ["first", "second"]
            assert (await texts(lookup, "a"), await texts(lookup, "b")) == (["first"], ["second"])
            await write(store, "one", "third")
            assert (await texts(lookup, "a"), await texts(lookup)) == (
                ["third"],
                ["third", "second"],
            )
            await store.commit(Transaction((Delete(store_keys.key(kinds.CONFIG_MAP, "one", "a")),)))
            assert (await texts(lookup, "a"), await texts(lookup, "c")) == ([], [])

    loop.run(steps())


def test_an_unchanged_list_is_not_read_again() -> None:
    async def steps() -> None:
        async with memory.open() as store:
            lookup = Lookup(store, kinds.CONFIG_MAP, ConfigMap)
            await write(store, "one", "first")
            found = await lookup.all("a")
            await store.commit(Transaction((Put("/core/pods/a/other", b"{}"),)))
            assert await lookup.all("a") is found

    loop.run(steps())

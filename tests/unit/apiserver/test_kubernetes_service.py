"""The Service by which programs know the API server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import msgspec

from dray.api import kinds
from dray.apiserver.kubernetes_service import CHECK_SECONDS, KubernetesService
from dray.apiserver.storage import store_keys
from dray.clock import utc_now
from dray.store import memory
from dray.store.store import Delete, Transaction
from tests import virtualtime

ENDPOINTS = store_keys.key(
    kinds.served("discovery.k8s.io", "EndpointSlice"), "kubernetes", "default"
)
KEY = store_keys.key(kinds.SERVICE, "kubernetes", "default")


def test_it_comes_back_after_it_was_deleted() -> None:
    async def test() -> None:
        numbers = itertools.count()
        async with memory.open() as store:
            kept = KubernetesService(store, utc_now, lambda: f"uid-{next(numbers)}")
            await kept.create()
            first = await store.get(KEY)
            assert first is not None
            task = asyncio.create_task(kept.run())
            await asyncio.sleep(CHECK_SECONDS * 3)
            assert await store.get(KEY) == first
            await store.commit(Transaction((Delete(KEY, first.revision),)))
            await asyncio.sleep(CHECK_SECONDS * 2)
            assert await store.get(KEY) is not None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    virtualtime.run(test())


def test_the_endpoints_are_where_the_server_listens_now() -> None:
    async def test() -> None:
        numbers = itertools.count()
        async with memory.open() as store:
            kept = KubernetesService(store, utc_now, lambda: f"uid-{next(numbers)}")
            for port in (6443, 6443, 7000):
                await kept.listens_at("0.0.0.0", port)
                entry = await store.get(ENDPOINTS)
                assert entry is not None
                found = msgspec.json.decode(entry.value)
                assert found["endpoints"][0]["addresses"] == ["127.0.0.1"]
                assert found["ports"] == [{"name": "https", "protocol": "TCP", "port": port}]
            assert found["metadata"]["uid"] == "uid-5"

    virtualtime.run(test())

"""The Service by which programs know the API server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

from dray.api import kinds
from dray.apiserver.kubernetes_service import CHECK_SECONDS, KubernetesService
from dray.apiserver.storage import store_keys
from dray.clock import utc_now
from dray.store import memory
from dray.store.store import Delete, Transaction
from tests import virtualtime

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

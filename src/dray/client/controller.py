"""Cache events become keys, keys become calls of `reconcile(key)`. No domain logic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from dray.api import errors
from dray.client.queue import WorkQueue

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

LASTING_FAILURES = 10
"""After this many failures the back-off is some seconds long."""


class Controller(Generic[Key]):
    """Works its queue with a few workers; a key that fails is retried after its back-off.

    `reconcile` may return the number of seconds after which the key is added again.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[Key], Awaitable[float | None]],
        *,
        workers: int = 4,
        queue: WorkQueue[Key] | None = None,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[Key] = WorkQueue() if queue is None else queue
        self._reconcile = reconcile
        self._workers = workers

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
        finally:
            self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._attempt(key)
            finally:
                self.queue.done(key)

    async def _attempt(self, key: Key) -> None:
        try:
            again_seconds = await self._reconcile(key)
        except errors.Conflict:
            # Another writer was first; the cache will show its change in a moment.
            self.queue.retry(key)
        except errors.StatusError as error:
            self._tell(key, error)
            self.queue.retry(key)
        else:
            self.queue.forget(key)
            if again_seconds is not None:
                self.queue.add_after(key, again_seconds)

    def _tell(self, key: Key, error: errors.StatusError) -> None:
        """Log the first failure of a key and one that lasts; not the quick retries between."""
        failures = self.queue.failures(key)
        is_news = failures == 0 or failures >= LASTING_FAILURES
        level = logging.WARNING if is_news else logging.DEBUG
        log.log(level, "%s: %s: %s", self.name, key, error)

"""The base of every loop: a queue of keys, `reconcile(key)`, and the shared context."""

from __future__ import annotations

import abc
import datetime
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dray import telemetry
from dray.api import errors
from dray.api.features import Features
from dray.api.ids import ObjectKey
from dray.api.kinds import Kind
from dray.client.api_client import Client
from dray.client.cache import Cache, ObjectChange
from dray.client.controller import Controller
from dray.client.events import Recorder
from dray.client.queue import WorkQueue
from dray.controllers.caches import Caches
from dray.controllers.metrics import Metrics

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")
Clock = Callable[[], datetime.datetime]


@dataclass(slots=True)
class Context:
    """The client, caches and settings that all loops share."""

    client: Client
    caches: Caches
    features: Features
    now: Clock
    recorders: dict[str, Recorder]
    served: Sequence[Kind]
    """The kinds that the server has, for loops over all objects."""
    metrics: Metrics = field(default_factory=lambda: Metrics(telemetry.Registry()))
    root_authority: str = ""
    """The certificate authority of the API server, in PEM."""

    def recorder(self, component: str) -> Recorder:
        """Return the event recorder of a component."""
        if component not in self.recorders:
            self.recorders[component] = Recorder(self.client, component, now=self.now)
        return self.recorders[component]


class Loop(abc.ABC, Generic[Key]):
    """A reconcile loop that runs until cancelled, and can be run again after an error.

    A key whose reconciliation raises is logged and retried later; the others go on.
    """

    def __init__(self, name: str, context: Context, *, workers: int = 4) -> None:
        self.name = name
        self.context = context
        self.client, self.now = context.client, context.now
        self.queue: WorkQueue[Key] = WorkQueue()
        self._workers = workers

    @abc.abstractmethod
    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one key. Returns the seconds until the next try, or None."""

    @abc.abstractmethod
    def resync(self) -> None:
        """Queue every key that there is work for."""

    def follow(self, cache: Cache[T], handler: Callable[[ObjectChange[T]], None]) -> None:
        """Call `handler` for every change. A change that it raises for is logged and skipped."""

        def guarded(change: ObjectChange[T]) -> None:
            try:
                handler(change)
            except Exception:
                log.exception("%s: %s", self.name, change.key)

        cache.subscribe(guarded)

    async def synced(self) -> None:
        """Wait for the caches that the loop needs before it may act."""
        await self.context.caches.synced()

    async def run(self) -> None:
        await self.synced()
        self.resync()
        controller: Controller[Key] = Controller(
            self.name, self._guarded, workers=self._workers, queue=self.queue
        )
        await controller.run()

    async def _guarded(self, key: Key) -> float | None:
        metrics, began = self.context.metrics, time.perf_counter()
        try:
            return await self.reconcile(key)
        except errors.StatusError:
            metrics.retries.add(self.name)
            raise
        except Exception as error:
            metrics.retries.add(self.name)
            log.exception("%s: %s", self.name, key)
            raise errors.internal_error(str(error)) from error
        finally:
            metrics.seconds.observe(time.perf_counter() - began, self.name)


class ObjectLoop(Loop[ObjectKey]):
    """A loop whose keys are the keys of the objects of one kind."""

    def __init__(
        self, name: str, context: Context, objects: Cache[Any], *, workers: int = 4
    ) -> None:
        super().__init__(name, context, workers=workers)
        self._objects = objects
        self.follow(objects, lambda change: self.queue.add(change.key))

    def resync(self) -> None:
        for item in self._objects:
            self.queue.add(item.metadata.key)

"""Revisions increase: of each object with every write, and of a watch with every event."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec

from dray.api import errors, kinds
from dray.api.kinds import Kind
from dray.api.types.meta import ObjectMeta, Wire
from dray.client.api_client import Client

WATCHED: Final = (kinds.NODE, kinds.POD, kinds.RESOURCE_CLAIM, kinds.RESOURCE_SLICE)
RETRY_SECONDS: Final = 0.05
_BOOKMARK: Final = "BOOKMARK"


class _Object(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class RevisionChecker:
    """Finds revisions that do not increase, in the lists and events of one kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._last = 0
        self._objects: dict[str, int] = {}
        self.violations: list[str] = []

    def listed(self, resource_version: str, objects: Iterable[ObjectMeta]) -> None:
        """Take a list into account, with the revision at which it was made."""
        revision = int(resource_version)
        if revision < self._last:
            self._add(f"the list is of revision {revision}, after {self._last}")
        for metadata in objects:
            current = int(metadata.resource_version)
            if current > revision:
                self._add(f"{metadata.name} has revision {current}, and its list is of {revision}")
            if current < self._objects.get(metadata.uid, 0):
                self._add_object(metadata.name, current, self._objects[metadata.uid])
            self._objects[metadata.uid] = current
        self._last = max(self._last, revision)

    def event(self, type_: str, metadata: ObjectMeta) -> None:
        """Take the next event of a watch into account."""
        revision = int(metadata.resource_version)
        # Several objects may be written in one revision, but no object twice.
        if revision < self._last:
            self._add(f"the watch is at revision {revision}, after {self._last}")
        if type_ != _BOOKMARK:
            before = self._objects.get(metadata.uid, 0)
            if revision <= before:
                self._add_object(metadata.name, revision, before)
            self._objects[metadata.uid] = revision
        self._last = max(self._last, revision)

    def _add_object(self, name: str, revision: int, before: int) -> None:
        self._add(f"{name} has revision {revision}, after {before}")

    def _add(self, text: str) -> None:
        self.violations.append(f"{self._kind}: {text}")


class RevisionWatch:
    """Watches the kinds that matter to devices, and checks every event."""

    def __init__(self, client: Client, watched: Iterable[Kind] = WATCHED) -> None:
        self._client = client
        self._checkers = {kind: RevisionChecker(kind.plural) for kind in watched}

    @property
    def violations(self) -> list[str]:
        """Return what was found so far; it does not go away."""
        return [text for checker in self._checkers.values() for text in checker.violations]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[RevisionWatch]:
        """Watch while the block runs."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._watch(kind, checker), name=f"revisions-{kind.plural}")
                for kind, checker in self._checkers.items()
            ]
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()

    async def _watch(self, kind: Kind, checker: RevisionChecker) -> None:
        while True:
            with contextlib.suppress(errors.StatusError):
                await self._watch_once(kind, checker)
            # A watch ends from time to time; the next list tells where it goes on.
            await asyncio.sleep(RETRY_SECONDS)

    async def _watch_once(self, kind: Kind, checker: RevisionChecker) -> None:
        page = await self._client.list(kind)
        checker.listed(page.resource_version, (_metadata(raw) for raw in page.items))
        async for event in self._client.watch(kind, resource_version=page.resource_version):
            checker.event(event.type, _metadata(event.object))


def _metadata(raw: msgspec.Raw) -> ObjectMeta:
    return msgspec.json.decode(raw, type=_Object).metadata

"""Creates and deletes pods for an owner, and records events for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dray.api import errors, kinds
from dray.api.ids import ObjectKey
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject, ObjectMeta
from dray.api.types.pods import Pod
from dray.client import events, object_writes
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.controllers.own_writes import OwnWrites


class PodBatchResult(NamedTuple):
    """The number of pods that succeeded, and the first error of the others."""

    done: int
    failure: errors.StatusError | None = None


@dataclass(frozen=True, slots=True)
class PodControl:
    """Pods of the owners of one kind. Writes are recorded under the owner's key."""

    client: Client
    kind: Kind
    recorder: Recorder
    writes: OwnWrites[ObjectKey]

    async def create(self, owner: ObjectMeta, body: JsonObject) -> JsonObject:
        try:
            created = await self.client.create(kinds.POD, body, owner.namespace)
        except errors.StatusError as error:
            if not is_namespace_ending(error):
                note = f"Error creating: {error}"
                self.record_event(owner, events.WARNING, "FailedCreate", note)
            raise
        self.writes.record(owner.key, created)
        name = created["metadata"]["name"]
        self.record_event(owner, events.NORMAL, "SuccessfulCreate", f"Created pod: {name}")
        return created

    async def create_all(self, owner: ObjectMeta, bodies: Sequence[JsonObject]) -> PodBatchResult:
        """Create pods in batches of 1, 2, 4 and so on, so that a permanent error occurs once."""
        done, batch = 0, 1
        while done < len(bodies):
            some = bodies[done : done + batch]
            outcome = await _together(self.create(owner, body) for body in some)
            done += outcome.done
            if outcome.failure is not None:
                return PodBatchResult(done, outcome.failure)
            batch *= 2
        return PodBatchResult(done)

    async def delete(self, owner: ObjectMeta, pod: Pod) -> None:
        """Delete a pod of the owner. Does nothing if the pod is gone."""
        try:
            deleted = await object_writes.delete(self.client, kinds.POD, pod.metadata)
        except (errors.NotFound, errors.Conflict):
            return
        except errors.StatusError as error:
            self.record_event(owner, events.WARNING, "FailedDelete", f"Error deleting: {error}")
            raise
        self.writes.record(owner.key, deleted)
        note = f"Deleted pod: {pod.metadata.name}"
        self.record_event(owner, events.NORMAL, "SuccessfulDelete", note)

    async def delete_all(self, owner: ObjectMeta, pods: Iterable[Pod]) -> PodBatchResult:
        return await _together(self.delete(owner, pod) for pod in pods)

    def record_event(self, owner: ObjectMeta, type_: str, reason: str, note: str) -> None:
        self.recorder.record(events.reference(self.kind, owner), type_, reason, note)


def is_namespace_ending(error: errors.StatusError) -> bool:
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)


async def _together(work: Iterable[Awaitable[Any]]) -> PodBatchResult:
    results = await asyncio.gather(*work, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in failures:
        if not isinstance(failure, errors.StatusError):
            raise failure
    rejections = [failure for failure in failures if isinstance(failure, errors.StatusError)]
    return PodBatchResult(len(results) - len(failures), next(iter(rejections), None))


def check(outcome: PodBatchResult) -> None:
    """Raise the error of the outcome, if any."""
    if outcome.failure is not None:
        raise outcome.failure

"""Tells the API how a pod is, as soon as there is news, and again until it has been told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from dray.api import errors, http_messages, kinds
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.node.devices import health
from dray.node.devices.preparation import ClaimsOfPod
from dray.node.pods import pod_status, status_patches
from dray.node.pods.context import NodeContext
from dray.node.pods.pod_status import Containers, PodFailure

log = logging.getLogger(__name__)


RETRY_SECONDS: Final = 0.2
MAX_RETRY_SECONDS: Final = 60.0


class PodState:
    """What there is to tell of a pod. Whoever changes it says so with `notice`."""

    def __init__(self, pod: Pod) -> None:
        everyone = (*pod.spec.init_containers, *pod.spec.containers)
        self.pod = pod
        self.containers: Containers = {
            each.name: pod_status.ObservedContainer() for each in everyone
        }
        self.held: ClaimsOfPod = {}
        self.is_over = status_patches.has_ended(pod)
        self.failure: PodFailure | None = None
        self.news = asyncio.Event()
        self._changed = asyncio.Event()

    def notify_changed(self) -> None:
        self.news.set()
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that is looked at again after every notice."""
        while not holds():
            await self._changed.wait()


class PodStatusReporter:
    def __init__(self, machine: NodeContext, story: PodState) -> None:
        self._machine = machine
        self._story = story

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._story.news.wait()
            await self.report()

    async def report(self) -> None:
        """Tell how the pod is now; returns when that has been told."""
        delay = RETRY_SECONDS
        while True:
            self._story.news.clear()
            try:
                return await self._send()
            except errors.NotFound:
                return None
            except errors.StatusError as error:
                log.warning("status of pod %s: %s", self._story.pod.metadata.name, error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_RETRY_SECONDS)

    async def _send(self) -> None:
        machine, story = self._machine, self._story
        if status_patches.has_ended(story.pod):
            return
        metadata = story.pod.metadata
        body = pod_status.status(
            story.pod,
            story.containers,
            is_over=story.is_over,
            address=machine.address,
            runtime=machine.runtime,
            now=machine.now(),
            failure=story.failure,
        )
        self._add_health(body["status"])
        await machine.client.patch(
            kinds.POD,
            metadata.name,
            body,
            metadata.namespace,
            subresource="status",
            patch_type=http_messages.STRATEGIC_MERGE_PATCH,
        )

    def _add_health(self, status: JsonObject) -> None:
        specs = {each.name: each for each in self._story.pod.spec.containers}
        for entry in status.get("containerStatuses", ()):
            container = specs[entry["name"]]
            found = health.resource_statuses(container, self._story.held, self._machine.health_of)
            if found:
                entry["allocatedResourcesStatus"] = found

"""Writes the status of a pod to the API after every change, and retries until that succeeds."""

from __future__ import annotations

import asyncio
import logging

from dray.api import errors, kinds
from dray.api.semantics import pod_status as pod_predicates
from dray.api.types.meta import JsonObject
from dray.client.object_writes import merge_status
from dray.node.devices import health
from dray.node.pods import pod_status
from dray.node.pods.context import MAX_RETRY_SECONDS, RETRY_SECONDS, NodeContext, PodState

log = logging.getLogger(__name__)


class PodStatusReporter:
    """Reports the state of one pod."""

    def __init__(self, node: NodeContext, state: PodState) -> None:
        self._node = node
        self._state = state

    async def run(self) -> None:
        """Report every change until cancelled."""
        while True:
            await self._state.unreported.wait()
            await self.report()

    async def report(self) -> None:
        """Write the current status; return when the API has it, or when the pod is gone."""
        delay = RETRY_SECONDS
        while True:
            self._state.unreported.clear()
            try:
                return await self._send()
            except errors.NotFound:
                return None
            except errors.StatusError as error:
                log.warning("status of pod %s: %s", self._state.pod.metadata.name, error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_RETRY_SECONDS)

    async def _send(self) -> None:
        node, state = self._node, self._state
        if state.is_gone or pod_predicates.has_ended(state.pod):
            return
        metadata = state.pod.metadata
        body = pod_status.status(
            state.pod,
            state.containers,
            is_over=state.is_over,
            address=node.address,
            runtime=node.runtime,
            now=node.now(),
            failure=state.failure,
        )
        self._add_health(body["status"])
        await merge_status(node.client, kinds.POD, metadata.name, body, metadata.namespace)

    def _add_health(self, status: JsonObject) -> None:
        specs = {container.name: container for container in self._state.pod.spec.containers}
        for entry in status.get("containerStatuses", ()):
            container, claims = specs[entry["name"]], self._state.prepared_claims
            if statuses := health.resource_statuses(container, claims, self._node.health_of):
                entry["allocatedResourcesStatus"] = statuses

"""Carries out preemption: nominates the node, marks the victims and deletes them."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.types.pods import Pod
from dray.client import events, object_writes
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.scheduling.unschedulable import PreemptionPlan

log = logging.getLogger(__name__)


class Evictor:
    """Evicts the victims of preemption. `name` is the scheduler's, for the victims' status."""

    def __init__(
        self, client: Client, recorder: Recorder, name: str, now: Callable[[], datetime.datetime]
    ) -> None:
        self._client, self._recorder, self._name, self._now = client, recorder, name, now

    async def carry_out(self, plan: PreemptionPlan, pod: Pod) -> None:
        """Nominate the node for the pod, then delete the victims."""
        await self._patch(pod, {"nominatedNodeName": plan.node})
        for victim in plan.victims:
            if victim.metadata.deletion_timestamp is None:
                await self._evict(victim, pod, plan.node)

    async def _evict(self, victim: Pod, pod: Pod, node: str) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{self._name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": gotime.write(self._now()),
        }
        await self._patch(victim, {"conditions": [condition]})
        metadata = victim.metadata
        try:
            await object_writes.delete(self._client, kinds.POD, metadata)
        except errors.StatusError as error:
            log.warning("pod %s is not evicted: %s", metadata.key, error)
            return
        log.info("pod %s on node %s is preempted by pod %s", metadata.key, node, pod.metadata.key)
        note = f"Preempted by pod {pod.metadata.uid} on node {node}"
        about = events.reference(kinds.POD, metadata)
        self._recorder.record(about, events.NORMAL, "Preempted", note, action="Preempting")

    async def _patch(self, pod: Pod, status: dict[str, object]) -> None:
        try:
            await object_writes.patch_status(
                self._client, kinds.POD, pod.metadata, status, merges_lists=True
            )
        except errors.StatusError as error:
            log.warning("status of pod %s: %s", pod.metadata.key, error)

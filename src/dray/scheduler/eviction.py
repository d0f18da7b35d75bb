"""The writes of preemption: the nominated node of a pod, and the eviction of its victims.

None is repeated here: before the next attempt the caller has to look again whether it is needed.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from typing import Any

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.semantics import pod_status
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.client import events, object_writes
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.scheduler.claims.claim_writes import answered
from dray.scheduling.preemption.preemptor import Preemptor

log = logging.getLogger(__name__)


class Evictor:
    """Evicts pods for others. `name` is the scheduler's, for the victims' status.

    Methods raise StatusError if the API server refuses a write, also because another pod has the
    name by now, which the caller will see, and WriteOutcomeUnknown without an answer.
    """

    def __init__(
        self, client: Client, recorder: Recorder, name: str, now: Callable[[], datetime.datetime]
    ) -> None:
        self._client, self._recorder, self._name, self._now = client, recorder, name, now

    async def nominate(self, pod: Pod, node: str) -> bool:
        """Write the nominated node of a pod. Returns whether the pod waits for a node."""
        current = await self._patch(pod, {"nominatedNodeName": node})
        return current is not None and _is_waiting(current)

    async def clear(self, pod: Pod) -> None:
        """Remove the nominated node of a pod; nothing happens without one."""
        await self._patch(pod, {"nominatedNodeName": None})

    async def is_waiting(self, pod: Pod) -> bool:
        """Return whether this very pod waits for a node, as the API server has it."""
        metadata = pod.metadata
        try:
            current = await answered(self._client.get(kinds.POD, metadata.name, metadata.namespace))
        except errors.NotFound:
            return False
        return current["metadata"].get("uid") == metadata.uid and _is_waiting(current)

    async def evict(self, victim: Pod, preemptor: Preemptor, is_needed: Callable[[], bool]) -> bool:
        """Mark and delete a victim. Returns False if it has left without that, or may stay."""
        # kube-scheduler's words, and the name of the pod or of the PodGroup.
        what = "podgroup" if preemptor.is_gang else "pod"
        message = f"{self._name}: preempting to accommodate a higher priority {what}"
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{message} {preemptor.key}",
            "lastTransitionTime": gotime.write(self._now()),
        }
        current = await self._patch(victim, {"conditions": [condition]})
        if current is None or _is_leaving(current) or not is_needed():
            return False
        metadata = victim.metadata
        try:
            await answered(object_writes.delete(self._client, kinds.POD, metadata))
        except errors.NotFound:
            # It may also have been our own request, one without answer.
            return False
        where = f"on node {victim.spec.node_name}"
        log.info("pod %s %s is preempted by %s %s", metadata.key, where, what, preemptor.key)
        note = f"Preempted by {what} {preemptor.uid} {where}"
        about = events.reference(kinds.POD, metadata)
        self._recorder.record(about, events.NORMAL, "Preempted", note, action="Preempting")
        return True

    async def _patch(self, pod: Pod, status: dict[str, Any]) -> JsonObject | None:
        """Return the pod afterwards; None if it is gone."""
        try:
            return await answered(
                object_writes.patch_status(
                    self._client, kinds.POD, pod.metadata, status, merges_lists=True
                )
            )
        except errors.NotFound:
            return None


def _is_waiting(pod: JsonObject) -> bool:
    return not (pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"))


def _is_leaving(pod: JsonObject) -> bool:
    phase = pod.get("status", {}).get("phase")
    has_ended = phase in (pod_status.SUCCEEDED, pod_status.FAILED)
    return has_ended or "deletionTimestamp" in pod["metadata"]

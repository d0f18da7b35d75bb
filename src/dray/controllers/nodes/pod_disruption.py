"""Deletes pods on behalf of the control plane, with a condition that gives the reason."""

from __future__ import annotations

import contextlib
import datetime
import logging
from typing import Any

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.semantics import pod_status
from dray.api.semantics.conditions import find_condition
from dray.api.types.pods import Pod
from dray.client import object_writes
from dray.client.api_client import Client

log = logging.getLogger(__name__)

DISRUPTION_TARGET = "DisruptionTarget"


async def end(
    client: Client,
    pod: Pod,
    now: datetime.datetime,
    reason: str,
    message: str,
    *,
    at_once: bool = False,
) -> None:
    """Set the condition and delete the pod.

    `at_once` is for pods whose node cannot stop them: they count as failed.
    """
    why = message or "it has ended, or its node is gone"
    log.info("pod %s on node %s is deleted: %s", pod.metadata.key, pod.spec.node_name, why)
    has_ended = pod_status.has_ended(pod)
    status: dict[str, Any] = {}
    if reason and not has_ended and not _is_marked(pod, reason):
        status["conditions"] = [_condition(pod, now, reason, message)]
    if at_once and not has_ended:
        status["phase"] = pod_status.FAILED
    with contextlib.suppress(errors.NotFound):
        if status:
            await _patch_status(client, pod, status)
        options = {"gracePeriodSeconds": 0} if at_once else {}
        await object_writes.delete(client, kinds.POD, pod.metadata, **options)


def _is_marked(pod: Pod, reason: str) -> bool:
    condition = find_condition(pod.status.conditions, DISRUPTION_TARGET)
    return condition is not None and (condition.status, condition.reason) == ("True", reason)


def _condition(pod: Pod, now: datetime.datetime, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": gotime.write(now),
        "observedGeneration": pod.metadata.generation,
    }


async def set_condition(client: Client, pod: Pod, condition: dict[str, Any]) -> None:
    """Write one condition and leave the others as they are."""
    await _patch_status(client, pod, {"conditions": [condition]})


async def _patch_status(client: Client, pod: Pod, status: dict[str, Any]) -> None:
    # Merged by type and meant for this very pod: what the node agent reports meanwhile stays.
    await object_writes.patch_status(client, kinds.POD, pod.metadata, status, merges_lists=True)

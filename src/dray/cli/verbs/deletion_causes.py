"""Causes for which a deleted object still exists, and the next step for each."""

from __future__ import annotations

import datetime
import re
from typing import NamedTuple

from dray.api import errors, kinds, well_known
from dray.api.types.meta import JsonObject
from dray.cli.session.connection import Session
from dray.cli.session.resource_types import ObjectArgument
from dray.cli.verbs import events, listing
from dray.client.api_client import ObjectSelection
from dray.clock import utc_now

FAILED_UNPREPARE = "FailedUnprepareDynamicResources"
_DEPENDENTS = "foregroundDeletion"
_NO_ANSWER = re.compile(
    r"driver (\S+?):? (?:is not registered|.*?: (?:UNAVAILABLE|DEADLINE_EXCEEDED)\b)"
)
"""The event of a driver that does not run, or that hangs."""


class DeletionCause(NamedTuple):
    """A sentence, and the next step."""

    message: str
    advice: str


async def find(session: Session, reference: ObjectArgument, document: JsonObject) -> DeletionCause:
    """Return what keeps an object from being removed."""
    if reference.kind.plural == kinds.POD.plural and not reference.kind.group:
        return await _of_pod(session, reference, document)
    return _of_finalizers(reference, document) or DeletionCause(
        "the server has not removed it yet", _describe(reference)
    )


def _describe(reference: ObjectArgument) -> str:
    where = f" -n {reference.namespace}" if reference.namespace else ""
    return f"See: dray describe {reference.kind.singular} {reference.name}{where}"


def _of_finalizers(reference: ObjectArgument, document: JsonObject) -> DeletionCause | None:
    metadata, status = document["metadata"], document.get("status") or {}
    finalizers = metadata.get("finalizers") or []
    consumers = [str(consumer.get("name", "")) for consumer in status.get("reservedFor") or ()]
    if well_known.CLAIM_FINALIZER in finalizers and consumers:
        return DeletionCause(
            f"it is in use by {', '.join(consumers)}",
            f"It is deleted after them: dray delete pod {' '.join(consumers)}"
            f" -n {reference.namespace}",
        )
    for condition in status.get("conditions") or ():
        if condition["type"] == "NamespaceContentRemaining" and condition["status"] == "True":
            return DeletionCause(str(condition.get("message", "")), _describe(reference))
    if _DEPENDENTS in finalizers:
        return DeletionCause("its dependents are deleted first", _describe(reference))
    if finalizers:
        word = "finalizer" if len(finalizers) == 1 else "finalizers"
        return DeletionCause(
            f"its {word} {', '.join(finalizers)} must be removed by what set it",
            _describe(reference),
        )
    return None


async def _of_pod(
    session: Session, reference: ObjectArgument, document: JsonObject
) -> DeletionCause:
    if cause := _of_finalizers(reference, document):
        return cause
    node = (document.get("spec") or {}).get("nodeName", "")
    force = f"dray delete pod {reference.name} -n {reference.namespace} --force"
    if node and not await _is_ready(session, node):
        return DeletionCause(
            f"node {node} is not ready, so its agent cannot stop the containers",
            f"If the node is gone for good: {force}",
        )
    if failure := await _last_unprepare_failure(session, document):
        return _of_driver(node, failure)
    if deadline := document["metadata"].get("deletionTimestamp"):
        left = (datetime.datetime.fromisoformat(deadline) - utc_now()).total_seconds()
        if left > 0:
            return DeletionCause(
                f"its containers have up to {left:.0f} s to end (grace period)",
                "Stop them sooner with: --grace-period=1",
            )
    return DeletionCause(f"node {node} has not reported that it stopped", _describe(reference))


def _of_driver(node: str, failure: str) -> DeletionCause:
    """Return the cause for a driver that does not unprepare the devices of a pod."""
    if silent := _NO_ANSWER.match(failure):
        return DeletionCause(
            f"driver {silent[1]} on node {node} does not answer, so devices stay prepared",
            f"Start the driver again on node {node}; the pod is then deleted.",
        )
    # The time of the next try would make each message another one.
    reason = failure.partition("; next try in ")[0]
    return DeletionCause(
        f"a driver on node {node} fails to unprepare the devices: {reason}",
        "The node tries again; see the log of the driver.",
    )


async def _is_ready(session: Session, name: str) -> bool:
    """Return whether a node is ready. What the user may not read counts as ready."""
    try:
        node = await session.client.get(kinds.NODE, name)
    except errors.NotFound:
        return False
    except errors.Forbidden:
        return True
    conditions = (node.get("status") or {}).get("conditions") or ()
    return ("Ready", "True") in ((item["type"], item["status"]) for item in conditions)


async def _last_unprepare_failure(session: Session, pod: JsonObject) -> str:
    metadata = pod["metadata"]
    fields = f"involvedObject.uid={metadata['uid']},reason={FAILED_UNPREPARE}"
    selection = ObjectSelection(metadata["namespace"], field_selector=fields)
    try:
        (kind,) = await session.resources.named("events")
        found = await listing.listed(session, kind, selection)
    except errors.Forbidden:
        return ""
    newest = max(found, key=events.last_seen, default=None)
    return str(newest.get("message", "")).strip() if newest else ""

"""The condition of a PodGroup that tells whether it was scheduled."""

from __future__ import annotations

import datetime
import logging

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.semantics.conditions import find_condition
from dray.api.types.workloads import PodGroup
from dray.client import object_writes
from dray.client.api_client import Client

log = logging.getLogger(__name__)

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


async def report(client: Client, group: PodGroup, now: datetime.datetime, message: str) -> None:
    """Write whether the group was scheduled. An empty message means that it was.

    Success is final: a later failure does not replace it.
    """
    before = find_condition(group.status.conditions, INITIALLY_SCHEDULED)
    status = "False" if message else "True"
    if before is not None and (
        before.status == "True" or (before.status, before.message) == (status, message)
    ):
        return
    condition = {
        "type": INITIALLY_SCHEDULED,
        "status": status,
        "reason": "Unschedulable" if message else "Scheduled",
        "message": message,
        "observedGeneration": group.metadata.generation,
        "lastTransitionTime": gotime.write(now),
    }
    try:
        await object_writes.patch_status(
            client, kinds.POD_GROUP, group.metadata, {"conditions": [condition]}, merges_lists=True
        )
    except errors.StatusError as error:
        log.warning("status of PodGroup %s: %s", group.metadata.name, error)

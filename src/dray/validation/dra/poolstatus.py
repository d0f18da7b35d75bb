"""Rules for ResourcePoolStatusRequest that are not declarative."""

from __future__ import annotations

from dray.api import poolstatus
from dray.validation import badvalues, fields, metadata


def pool_status_request(request: poolstatus.ResourcePoolStatusRequest) -> fields.Errors:
    yield from metadata.created(request.metadata, namespaced=False)


def pool_status_request_update(
    new: poolstatus.ResourcePoolStatusRequest, old: poolstatus.ResourcePoolStatusRequest
) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)


def pool_status_request_status_update(
    new: poolstatus.ResourcePoolStatusRequest, old: poolstatus.ResourcePoolStatusRequest
) -> fields.Errors:
    """Once answered, the answer stays."""
    yield from metadata.updated(new.metadata, old.metadata)
    if old.status is not None:
        yield from fields.immutable(
            fields.STATUS, new.status, old.status, badvalues.Internal(new.status)
        )
    elif new.status is not None:
        yield from metadata.conditions(new.status.conditions, fields.STATUS.child("conditions"))

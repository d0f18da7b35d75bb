"""Rules for ResourcePoolStatusRequest that are not declarative."""

from __future__ import annotations

from dray.api.types import dra
from dray.validation import fields, metadata


def pool_status_request(request: dra.ResourcePoolStatusRequest) -> fields.Errors:
    yield from metadata.created(request.metadata, namespaced=False)


def pool_status_request_update(
    new: dra.ResourcePoolStatusRequest, old: dra.ResourcePoolStatusRequest
) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)


def pool_status_request_status_update(
    new: dra.ResourcePoolStatusRequest, old: dra.ResourcePoolStatusRequest
) -> fields.Errors:
    """Reject a change of a status that is already set."""
    yield from metadata.updated(new.metadata, old.metadata)
    if old.status is not None:
        yield from fields.immutable(fields.STATUS, new.status, old.status)
    elif new.status is not None:
        yield from metadata.conditions(new.status.conditions, fields.STATUS.child("conditions"))

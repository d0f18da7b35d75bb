"""Owner references: the controller of an object, and references to it."""

from __future__ import annotations

from typing import Any

from dray.api import kinds
from dray.api.kinds import Kind
from dray.api.types.meta import ObjectMeta, OwnerReference


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    for owner in metadata.owner_references:
        if owner.controller:
            return owner
    return None


def controlled_by(metadata: ObjectMeta, kind: Kind) -> OwnerReference | None:
    """Return the controller of an object if it is of `kind`, in any version, or None."""
    owner = controller_of(metadata)
    if owner is None or owner.kind != kind.kind:
        return None
    group, _ = kinds.parse_api_version(owner.api_version)
    return owner if group == kind.group else None


def controller_uids(value: Any) -> tuple[str, ...]:
    """Return the uid of the object's controller, for an index."""
    owner = controller_of(value.metadata)
    return (owner.uid,) if owner else ()


def reference(
    kind: Kind, metadata: ObjectMeta, *, blocks_deletion: bool | None = True
) -> dict[str, Any]:
    """Return the reference to a controlling owner as JSON."""
    result: dict[str, Any] = {
        "apiVersion": kind.preferred.api_version,
        "kind": kind.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
    }
    if blocks_deletion is not None:
        result["blockOwnerDeletion"] = blocks_deletion
    return result

"""The condition for removing an object that is marked for deletion."""

from __future__ import annotations

from dray.api.types.meta import JsonObject


def is_fully_deleted(document: JsonObject) -> bool:
    """Return whether nothing keeps an object any more that is on its way out."""
    metadata = document["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("deletionGracePeriodSeconds"):
        return False
    is_namespace = document.get("kind") == "Namespace"
    kept_by = (document.get("spec") or {}).get("finalizers") if is_namespace else None
    return not metadata.get("finalizers") and not kept_by

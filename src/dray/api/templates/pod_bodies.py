"""The body of a pod from the template of its controller."""

from __future__ import annotations

from typing import Any

from dray.api import kinds
from dray.api.kinds import Kind
from dray.api.semantics import owner_references
from dray.api.templates.workload_types import Template
from dray.api.types.meta import JsonObject, ObjectMeta

LONGEST_PREFIX = 253


def pod_from(template: Template, kind: Kind, owner: ObjectMeta) -> JsonObject:
    """Return the body of a pod from a template for its controller; callers may change it."""
    template_metadata: dict[str, Any] = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        name: template_metadata[name].copy()
        for name in ("labels", "annotations", "finalizers")
        if template_metadata.get(name)
    }
    prefix = f"{owner.name}-"
    metadata["generateName"] = prefix if len(prefix) <= LONGEST_PREFIX else owner.name
    metadata["ownerReferences"] = [owner_references.reference(kind, owner)]
    spec = dict(template.get("spec") or {})
    return {**kinds.POD.type_meta, "metadata": metadata, "spec": spec}

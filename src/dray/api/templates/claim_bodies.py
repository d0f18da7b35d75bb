"""The bodies of claims from templates, for the pods and PodGroups that name these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dray.api import errors, kinds, well_known
from dray.api.features import Features
from dray.api.ids import GroupResource
from dray.api.kinds import Kind
from dray.api.semantics import owner_references
from dray.api.semantics.pod_claims import ClaimSource
from dray.api.templates.workload_types import ClaimTemplate
from dray.api.types.meta import JsonObject, ObjectMeta
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup

_TEMPLATE = GroupResource("resource.k8s.io", "resourceclaimtemplate")
_LONGEST_BASE = 57
"""Leaves room for a hyphen and five random characters in 63."""


class CannotGenerate(Exception):
    """A claim cannot be created before something else changes; the message is upstream's."""


class Owner(NamedTuple):
    """The pod or PodGroup that claims are generated for."""

    kind: Kind
    user: Pod | PodGroup

    @property
    def metadata(self) -> ObjectMeta:
        return self.user.metadata


def claim_from(
    owner: Owner, source: ClaimSource, template: ClaimTemplate | None, features: Features
) -> JsonObject:
    """Return the body of the claim that a template gives for one entry of its owner.

    Raises CannotGenerate without the template, or if it needs a feature that is off.
    """
    if template is None:
        name = source.resource_claim_template_name or ""
        missing = errors.not_found(_TEMPLATE, name)
        raise CannotGenerate(f'resource claim template "{name}": {missing}')
    _check_features(template, features)
    metadata: Mapping[str, Any] = template.spec.get("metadata") or {}
    claim_metadata: dict[str, Any] = {
        "generateName": generate_name(owner.metadata.name, source.name),
        "annotations": {
            **(metadata.get("annotations") or {}),
            well_known.POD_CLAIM_NAME_ANNOTATION: source.name,
        },
        "ownerReferences": [
            owner_references.reference(owner.kind, owner.metadata, blocks_deletion=None),
        ],
    }
    if metadata.get("labels"):
        claim_metadata["labels"] = metadata["labels"]
    return {
        **kinds.RESOURCE_CLAIM.type_meta,
        "metadata": claim_metadata,
        "spec": template.spec.get("spec") or {},
    }


def generate_name(owner_name: str, claim_name: str) -> str:
    """Return the name prefix. If both parts are too long, each is cut in proportion."""
    whole = f"{owner_name}-{claim_name}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    owner_length = len(owner_name) * _LONGEST_BASE // len(whole)
    claim_length = len(claim_name) * _LONGEST_BASE // len(whole)
    return f"{owner_name[:owner_length]}-{claim_name[:claim_length]}"


def _check_features(template: ClaimTemplate, features: Features) -> None:
    requests = _requests(template)
    if not features.admin_access and any(map(_asks_admin_access, requests)):
        raise CannotGenerate("admin access is requested, but the feature is disabled")
    if not features.prioritized_list and any(r.get("firstAvailable") for r in requests):
        raise CannotGenerate(
            "template includes a prioritized list of subrequests, but the feature is disabled"
        )


def _requests(template: ClaimTemplate) -> list[dict[str, Any]]:
    devices = (template.spec.get("spec") or {}).get("devices") or {}
    return devices.get("requests") or []


def _asks_admin_access(request: Mapping[str, Any]) -> bool:
    return bool((request.get("exactly") or {}).get("adminAccess"))

"""Creates claims from templates, once, owned by the pod or PodGroup that names the template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dray.api import errors, kinds, well_known
from dray.api.features import Features
from dray.api.ids import GroupResource
from dray.api.kinds import Kind
from dray.api.semantics import owner_references
from dray.api.semantics.pod_claims import ClaimSource
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import JsonObject, ObjectMeta
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.client.api_client import Client
from dray.controllers import caches
from dray.controllers.caches import Caches
from dray.controllers.slim_types import ClaimTemplate

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


class Generator:
    """Creates the claims of claim templates."""

    def __init__(self, client: Client, caches: Caches, features: Features) -> None:
        self._client = client
        self._claims, self._templates = caches.claims, caches.claim_templates
        self._features = features

    async def find(self, owner: Owner, source: ClaimSource) -> ResourceClaim | None:
        """Return the claim that was created for this entry, or None.

        Also finds a claim that the status of the owner does not name yet.
        """
        for claim in self._claims.find(caches.OWNER, owner.metadata.uid):
            if claim.metadata.annotations.get(well_known.POD_CLAIM_NAME_ANNOTATION) == source.name:
                return claim
        return None

    async def create(self, owner: Owner, source: ClaimSource) -> JsonObject:
        template_name = source.resource_claim_template_name or ""
        template = self._templates.get(template_name, owner.metadata.namespace)
        if template is None:
            missing = errors.not_found(_TEMPLATE, template_name)
            raise CannotGenerate(f'resource claim template "{template_name}": {missing}')
        self._check_features(template)
        body = claim_from(owner, source.name, template)
        return await self._client.create(kinds.RESOURCE_CLAIM, body, owner.metadata.namespace)

    def _check_features(self, template: ClaimTemplate) -> None:
        requests = _requests(template)
        if not self._features.admin_access and any(map(_asks_admin_access, requests)):
            raise CannotGenerate("admin access is requested, but the feature is disabled")
        if not self._features.prioritized_list and any(r.get("firstAvailable") for r in requests):
            raise CannotGenerate(
                "template includes a prioritized list of subrequests, but the feature is disabled"
            )


def claim_from(owner: Owner, claim_name: str, template: ClaimTemplate) -> JsonObject:
    """Return the body of the claim that a template gives for one entry of its owner."""
    metadata: Mapping[str, Any] = template.spec.get("metadata") or {}
    claim_metadata: dict[str, Any] = {
        "generateName": generate_name(owner.metadata.name, claim_name),
        "annotations": {
            **(metadata.get("annotations") or {}),
            well_known.POD_CLAIM_NAME_ANNOTATION: claim_name,
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


def _requests(template: ClaimTemplate) -> list[dict[str, Any]]:
    devices = (template.spec.get("spec") or {}).get("devices") or {}
    return devices.get("requests") or []


def _asks_admin_access(request: Mapping[str, Any]) -> bool:
    return bool((request.get("exactly") or {}).get("adminAccess"))

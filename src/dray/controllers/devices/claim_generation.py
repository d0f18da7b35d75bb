"""Creates claims from templates, once, owned by the pod or PodGroup that names the template."""

from __future__ import annotations

from dray.api import kinds, well_known
from dray.api.features import Features
from dray.api.semantics.pod_claims import ClaimSource
from dray.api.templates import claim_bodies
from dray.api.templates.claim_bodies import Owner
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client
from dray.controllers import caches
from dray.controllers.caches import Caches


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
        """Create the claim. Raises CannotGenerate if that has to wait for another change."""
        template_name = source.resource_claim_template_name or ""
        template = self._templates.get(template_name, owner.metadata.namespace)
        body = claim_bodies.claim_from(owner, source, template, self._features)
        return await self._client.create(kinds.RESOURCE_CLAIM, body, owner.metadata.namespace)

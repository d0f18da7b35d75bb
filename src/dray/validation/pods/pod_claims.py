"""Rules for the claims of a pod: each has a name, and one source."""

from __future__ import annotations

from dray.api import well_known
from dray.api.types import meta, pods
from dray.validation import fields, identifiers


def resource_claims(
    claims: tuple[pods.PodResourceClaim, ...], path: fields.Path, owner: meta.ObjectMeta | None
) -> fields.Errors:
    if owner is not None and well_known.MIRROR_POD_ANNOTATION in owner.annotations:
        for _ in claims:
            yield fields.forbidden(
                fields.WHOLE_OBJECT, "static pods do not support resource claims"
            )
        return
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        claim_path = path.index(index)
        if not claim.name:
            yield fields.required(claim_path.child("name"))
        elif claim.name in seen:
            yield fields.duplicate(claim_path.child("name"), claim.name)
        else:
            yield from identifiers.dns_label(claim.name, claim_path.child("name"))
            seen.add(claim.name)
        yield from _claim_source(claim, claim_path)


def _claim_source(claim: pods.PodResourceClaim, path: fields.Path) -> fields.Errors:
    name, template_name = claim.resource_claim_name, claim.resource_claim_template_name
    if name is not None and template_name is not None:
        yield fields.invalid(
            path,
            claim,
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        )
    if name is None and template_name is None:
        yield fields.invalid(
            path, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        )
    if name is not None:
        yield from identifiers.object_name(name, path.child("resourceClaimName"))
    if template_name is not None:
        yield from identifiers.object_name(template_name, path.child("resourceClaimTemplateName"))

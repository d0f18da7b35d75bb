"""The objects of a cluster that matter to one pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dray.api import features as gates
from dray.api.features import Features
from dray.api.ids import ClaimKey
from dray.api.semantics import pod_claims
from dray.api.types import dra
from dray.api.types.core import CoreEvent, ResourceQuota
from dray.api.types.dra import ResourceClaim, ResourceClaimTemplate
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod

OTHER_NAMESPACES = " of other namespaces"
"""Suffix of a kind that could be read only in the pod's own namespace."""


class PodContext(msgspec.Struct, frozen=True):
    """Cluster objects needed to explain one pod. `unread`: kinds the user may not list."""

    claims: Mapping[ClaimKey, ResourceClaim] = {}
    templates: Mapping[ClaimKey, ResourceClaimTemplate] = {}
    classes: Sequence[dra.DeviceClass] = ()
    nodes: Mapping[str, Node] = {}
    quotas: Sequence[ResourceQuota] = ()
    slices: Sequence[dra.ResourceSlice] = ()
    taint_rules: Sequence[dra.DeviceTaintRule] = ()
    pods: Sequence[Pod] = ()
    events: Sequence[CoreEvent] = ()
    """The events of the pod, the oldest first."""
    features: Features = gates.DEFAULT
    unread: frozenset[str] = frozenset()
    partly_read: frozenset[str] = frozenset()
    """Kinds that could be read only in the pod's own namespace."""


def claims_of(pod: Pod, context: PodContext) -> dict[str, ResourceClaim]:
    """Return the claims of a pod by its own names of them, also those its templates will give."""
    claims: dict[str, ResourceClaim] = {}
    for source in pod.spec.resource_claims:
        state = pod_claims.claim_of(pod, source)
        namespace = pod.metadata.namespace
        if state.name:
            claim = context.claims.get(ClaimKey(namespace, state.name))
            if claim is not None:
                claims[source.name] = claim
        elif not state.is_made:
            name = source.resource_claim_template_name or ""
            template = context.templates.get(ClaimKey(namespace, name))
            if template is not None:
                metadata = ObjectMeta(
                    name=f"{pod.metadata.name}-{source.name}", namespace=namespace
                )
                claims[source.name] = ResourceClaim(metadata, template.spec.spec)
    return claims

"""Copies of one pod with claims of their own, to count how many of them fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from dray.api.semantics import pod_claims
from dray.api.types.dra import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from dray.api.types.meta import ObjectMeta
from dray.api.types.pods import Pod, PodResourceClaim, PodSpec

__all__ = ["PodCopies", "of_claim", "of_class"]


class PodCopies(NamedTuple):
    """A pod, and the claims that are made for each copy of it."""

    pod: Pod
    claims: Sequence[ResourceClaim] = ()

    def copy(self, number: int) -> tuple[Pod, list[ResourceClaim]]:
        """Return a copy of the pod with its claims, under names that no object can have."""
        made = {claim.metadata.name for claim in self.claims}
        sources = []
        for source in self.pod.spec.resource_claims:
            name = pod_claims.claim_of(self.pod, source).name
            if name in made:
                source = PodResourceClaim(source.name, resource_claim_name=f"{name}/{number}")
            sources.append(source)
        claims = [
            msgspec.structs.replace(claim, metadata=_numbered(claim.metadata, number))
            for claim in self.claims
        ]
        spec = msgspec.structs.replace(self.pod.spec, resource_claims=tuple(sources))
        metadata = _numbered(self.pod.metadata, number)
        return msgspec.structs.replace(self.pod, metadata=metadata, spec=spec), claims


def of_class(class_name: str, devices: int = 1) -> PodCopies:
    """Return copies that ask for this number of devices of a class and nothing else."""
    exactly = ExactDeviceRequest(class_name, allocation_mode="ExactCount", count=devices)
    return of_claim(ResourceClaimSpec(DeviceClaim((DeviceRequest("device", exactly),))))


def of_claim(spec: ResourceClaimSpec, namespace: str = "") -> PodCopies:
    """Return copies that need a claim of their own and nothing else."""
    metadata = ObjectMeta(name="fit", namespace=namespace, uid="fit")
    used = PodResourceClaim(name="device", resource_claim_name="fit")
    claim = ResourceClaim(ObjectMeta(name="fit", namespace=namespace), spec)
    return PodCopies(Pod(metadata, PodSpec(resource_claims=(used,))), (claim,))


def _numbered(metadata: ObjectMeta, number: int) -> ObjectMeta:
    name, uid = f"{metadata.name}/{number}", f"{metadata.uid}/{number}"
    return msgspec.structs.replace(metadata, name=name, uid=uid)

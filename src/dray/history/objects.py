"""Structs with only the fields of objects that the history is about."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.ids import ClaimKey, DeviceId
from dray.api.types.dra import ResourceClaimConsumerReference
from dray.api.types.meta import Condition, NodeSelector, Wire
from dray.api.types.pods import (
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodResourceClaimStatus,
)


class ManagedFields(Wire, frozen=True):
    manager: str = ""
    time: str = ""


class OwningObject(Wire, frozen=True):
    kind: str = ""
    uid: str = ""


class Metadata(Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = {}
    owner_references: tuple[OwningObject, ...] = ()
    managed_fields: tuple[ManagedFields, ...] = ()

    def last_written(self) -> str:
        """Return the latest time that the object has of a write, or ""."""
        times = [field.time for field in self.managed_fields]
        return max([*times, self.creation_timestamp, self.deletion_timestamp or ""])


class NameAndUid(Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class RecordedObject(Wire, frozen=True):
    """Any object whose metadata is all that counts."""

    metadata: Metadata = Metadata()


class RequestedClass(Wire, frozen=True):
    name: str = ""
    device_class_name: str = ""


class RecordedRequest(Wire, frozen=True):
    """A request of a claim: one for a class, or alternatives."""

    name: str = ""
    exactly: RequestedClass | None = None
    first_available: tuple[RequestedClass, ...] = ()


class RequestedDevices(Wire, frozen=True):
    requests: tuple[RecordedRequest, ...] = ()


class ClaimSpec(Wire, frozen=True):
    devices: RequestedDevices = RequestedDevices()


class AllocatedDevice(Wire, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None

    @property
    def device_id(self) -> DeviceId:
        return DeviceId(self.driver, self.pool, self.device)


class AllocatedDevices(Wire, frozen=True):
    results: tuple[AllocatedDevice, ...] = ()


class Allocation(Wire, frozen=True):
    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None

    def node(self) -> str:
        """Return the node that the devices are on, or "" if several may be meant."""
        terms = self.node_selector.node_selector_terms if self.node_selector else ()
        if len(terms) == 1 and len(terms[0].match_fields) == 1:
            (field,) = terms[0].match_fields
            if field.key == "metadata.name" and len(field.values) == 1:
                return field.values[0]
        return ""


class ClaimStatus(Wire, frozen=True):
    allocation: Allocation | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()


class RecordedClaim(Wire, frozen=True):
    metadata: Metadata = Metadata()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    def classes(self) -> dict[str, str]:
        """Return the class of each request; alternatives are named REQUEST/ALTERNATIVE."""
        found = {}
        for request in self.spec.devices.requests:
            if request.exactly is not None:
                found[request.name] = request.exactly.device_class_name
            for alternative in request.first_available:
                name = f"{request.name}/{alternative.name}"
                found[name] = alternative.device_class_name
        return found


class ClaimUpdate(Wire, frozen=True):
    """A claim with only what can change: to read all of it takes three times as long."""

    metadata: NameAndUid = NameAndUid()
    status: ClaimStatus = ClaimStatus()


class ContainerResources(Wire, frozen=True):
    requests: dict[str, str] = {}


class RecordedContainer(Wire, frozen=True):
    resources: ContainerResources = ContainerResources()


class RecordedPodSpec(Wire, frozen=True):
    node_name: str = ""
    init_containers: tuple[RecordedContainer, ...] = ()
    containers: tuple[RecordedContainer, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()


class RecordedPodStatus(Wire, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class RecordedPod(Wire, frozen=True):
    metadata: Metadata = Metadata()
    spec: RecordedPodSpec = RecordedPodSpec()
    status: RecordedPodStatus = RecordedPodStatus()

    def claims(self) -> Iterator[ClaimKey]:
        """Yield the claims of the pod that have a name."""
        made = {item.name: item.resource_claim_name for item in self.status.resource_claim_statuses}
        for source in self.spec.resource_claims:
            name = source.resource_claim_name or made.get(source.name)
            if name:
                yield ClaimKey(self.metadata.namespace, name)
        extended = self.status.extended_resource_claim_status
        if extended is not None and extended.resource_claim_name:
            yield ClaimKey(self.metadata.namespace, extended.resource_claim_name)

    def requested_resources(self) -> Iterator[str]:
        for container in (*self.spec.init_containers, *self.spec.containers):
            yield from container.resources.requests

    def waiting_reason(self) -> str | None:
        """Return what the scheduler says, or None if it has not refused the pod."""
        if self.spec.node_name or self.status.phase in ("Succeeded", "Failed"):
            return None
        for condition in self.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                return condition.message or condition.reason
        return None

"""Objects of the group resource.k8s.io: claims, classes, slices, taints, pool status."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dray.api.ids import ClaimKey, DeviceId, PoolId
from dray.api.types.meta import Condition, NodeSelector, ObjectMeta, Wire, WireWithJson

ALLOCATION_RESULTS_MAX_SIZE: Final = 32
"""How many devices one claim may be allocated."""
RESERVED_FOR_MAX_SIZE: Final = 256
"""How many consumers may reserve one claim."""


class CELDeviceSelector(Wire, frozen=True):
    expression: str = ""


class DeviceSelector(Wire, frozen=True):
    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(WireWithJson, frozen=True, eq=False):
    driver: str = ""
    parameters: Any = msgspec.UNSET


class DeviceClassConfiguration(Wire, frozen=True):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Wire, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class ResourcePoolStatusRequestSpec(Wire, frozen=True):
    driver: str = ""
    pool_name: str | None = None
    limit: int | None = None
    default_partition_type_attribute: str | None = None


class PartitionTypeStatus(Wire, frozen=True):
    attribute: str = ""
    type: str = ""
    total: int | None = None
    allocatable: int | None = None


class ShareableCapacityStatus(Wire, frozen=True):
    name: str = ""
    total: str | None = None
    consumed: str | None = None
    available: str | None = None


class ShareableSummaryStatus(Wire, frozen=True):
    fully_available_devices: int | None = None
    partially_available_devices: int | None = None
    capacity: tuple[ShareableCapacityStatus, ...] = ()


class PoolStatus(Wire, frozen=True):
    driver: str = ""
    pool_name: str = ""
    generation: int = 0
    resource_slice_count: int | None = None
    total_devices: int | None = None
    allocated_devices: int | None = None
    available_devices: int | None = None
    unavailable_devices: int | None = None
    node_name: str | None = None
    validation_error: str | None = None
    partition_summary: tuple[PartitionTypeStatus, ...] = ()
    shareable_summary: ShareableSummaryStatus | None = None


class ResourcePoolStatusRequestStatus(Wire, frozen=True):
    pool_count: int | None = None
    pools: tuple[PoolStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()


class ResourcePoolStatusRequest(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourcePoolStatusRequestSpec = ResourcePoolStatusRequestSpec()
    status: ResourcePoolStatusRequestStatus | None = None


class DeviceTaint(Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class DeviceToleration(Wire, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class DeviceTaintSelector(Wire, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Wire, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRuleStatus(Wire, frozen=True):
    conditions: tuple[Condition, ...] = ()


class DeviceTaintRule(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()


class CapacityRequirements(Wire, frozen=True):
    requests: dict[str, str] = {}


class DeviceDerivedAttribute(Wire, frozen=True):
    name: str = ""
    expression: str = ""


class ExactDeviceRequest(Wire, frozen=True):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceSubRequest(Wire, frozen=True):
    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(Wire, frozen=True):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Wire, frozen=True):
    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Wire, frozen=True):
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Wire, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Wire, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Wire, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str] = {}
    skip_node_operations: tuple[str, ...] = ()

    @property
    def device_id(self) -> DeviceId:
        return DeviceId(self.driver, self.pool, self.device)

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.driver, self.pool)


class DeviceAllocationConfiguration(Wire, frozen=True):
    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Wire, frozen=True):
    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Wire, frozen=True):
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(Wire, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class NetworkDeviceData(Wire, frozen=True):
    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


class AllocatedDeviceStatus(WireWithJson, frozen=True, eq=False):
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()
    data: Any = msgspec.UNSET
    network_data: NetworkDeviceData | None = None

    @property
    def device_id(self) -> DeviceId:
        return DeviceId(self.driver, self.pool, self.device)


class ResourceClaimStatus(Wire, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def key(self) -> ClaimKey:
        return ClaimKey(self.metadata.namespace, self.metadata.name)


class ResourceClaimTemplateSpec(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceAttribute(Wire, frozen=True):
    """One value out of eight forms; exactly one is set in a valid attribute."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")
    int_values: tuple[int, ...] = msgspec.field(default=(), name="ints")
    bool_values: tuple[bool, ...] = msgspec.field(default=(), name="bools")
    string_values: tuple[str, ...] = msgspec.field(default=(), name="strings")
    version_values: tuple[str, ...] = msgspec.field(default=(), name="versions")


class CapacityRequestPolicyRange(Wire, frozen=True):
    min: str | None = None
    max: str | None = None
    step: str | None = None


class CapacityRequestPolicy(Wire, frozen=True):
    default: str | None = None
    valid_values: tuple[str, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Wire, frozen=True):
    value: str = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(Wire, frozen=True):
    value: str = "0"


class CounterSet(Wire, frozen=True):
    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Wire, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class NodeAllocatableMapping(Wire, frozen=True):
    capacity_key: str | None = None
    capacity_multiplier: str | None = None
    device_multiplier: str | None = None


class NodeAllocatableOverhead(Wire, frozen=True):
    per_pod: str | None = None
    per_container: str | None = None


class NodeAllocatableResource(Wire, frozen=True):
    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Wire, frozen=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resources: dict[str, NodeAllocatableResource] = {}


class ResourcePool(Wire, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Wire, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.spec.driver, self.spec.pool.name)

"""ResourcePoolStatusRequest: a one-shot question about what is free."""

from __future__ import annotations

from dray.api.meta import Condition, ObjectMeta, Wire


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

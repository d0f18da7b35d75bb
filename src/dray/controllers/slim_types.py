"""Structs with only the fields that loops need."""

from __future__ import annotations

from dray.api.ids import PoolId
from dray.api.types.dra import DeviceTaint, ResourcePool
from dray.api.types.meta import ObjectMeta, Wire


class TaintedDevice(Wire, frozen=True):
    name: str = ""
    taints: tuple[DeviceTaint, ...] = ()


class TaintedSliceSpec(Wire, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    devices: tuple[TaintedDevice, ...] = ()


class TaintedSlice(Wire, frozen=True):
    """A ResourceSlice with only its taints, a small part of it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TaintedSliceSpec = TaintedSliceSpec()

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.spec.driver, self.spec.pool.name)

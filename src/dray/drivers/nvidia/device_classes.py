"""The DeviceClasses of GPUs and partitions. Pure."""

from __future__ import annotations

from typing import Final

from dray.api.types.dra import CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector
from dray.api.types.meta import ObjectMeta
from dray.drivers.nvidia.devices import DRIVER, GPU_TYPE, MIG_TYPE

GPU_CLASS: Final = "gpu.nvidia.com"
MIG_CLASS: Final = "mig.nvidia.com"
EXTENDED_RESOURCE: Final = "nvidia.com/gpu"
PARTITIONS_OF: Final = "dray.dev/partitions-of"
"""Marks the class that a dray API server takes for requests of a part of a GPU."""


def device_classes(*, with_extended_resource: bool = True) -> list[DeviceClass]:
    """Return the classes of whole GPUs, also an extended resource, and of partitions."""
    extended = EXTENDED_RESOURCE if with_extended_resource else None
    return [
        _device_class(ObjectMeta(name=GPU_CLASS), GPU_TYPE, extended),
        _device_class(ObjectMeta(name=MIG_CLASS, labels={PARTITIONS_OF: GPU_CLASS}), MIG_TYPE),
    ]


def _device_class(metadata: ObjectMeta, type_: str, extended: str | None = None) -> DeviceClass:
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "{type_}"'
    selector = DeviceSelector(cel=CELDeviceSelector(expression))
    spec = DeviceClassSpec(selectors=(selector,), extended_resource_name=extended)
    return DeviceClass(metadata, spec)

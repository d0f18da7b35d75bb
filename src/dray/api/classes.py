"""DeviceClass, and the configuration and selectors that classes share with claims."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.meta import ObjectMeta, Wire


class CELDeviceSelector(Wire):
    expression: str = ""


class DeviceSelector(Wire):
    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(Wire):
    """Parameters belong to the driver: any JSON, kept as decoded."""

    driver: str = ""
    parameters: Any = msgspec.UNSET


class DeviceClassConfiguration(Wire):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Wire):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Wire):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()

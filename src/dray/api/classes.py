"""DeviceClass, and the configuration and selectors that classes share with claims."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.meta import ObjectMeta, Wire


class CELDeviceSelector(Wire, frozen=True):
    expression: str = ""


class DeviceSelector(Wire, frozen=True):
    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(Wire, frozen=True):
    """Parameters belong to the driver: any JSON, kept as decoded."""

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

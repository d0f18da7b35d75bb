"""Write a driver: devices in, ResourceSlices, prepared claims, CDI and metadata files out.

class Hello(driverkit.Driver):
    name = "hello.example.com"

    def devices(self):
        return [driverkit.device("hello-0", greeting="hello")]

    def prepare(self, allocated):
        return driverkit.Edits(env={"GREETING": allocated.attribute("greeting")})

driverkit.main(Hello())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dray.api.types.dra import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
)
from dray.driverkit.cdi import DeviceNode, Edits, Hook, Mount
from dray.driverkit.driver import (
    Allocated,
    DeviceHealth,
    DeviceOptions,
    DeviceStatus,
    Driver,
    Health,
    Prepared,
    PrepareError,
    Released,
    condition,
    device,
)

if TYPE_CHECKING:
    from dray.driverkit.plugin import Directories, Plugin, main

__all__ = [
    "Allocated",
    "CapacityRequestPolicy",
    "CapacityRequestPolicyRange",
    "Counter",
    "CounterSet",
    "Device",
    "DeviceAttribute",
    "DeviceCapacity",
    "DeviceCounterConsumption",
    "DeviceHealth",
    "DeviceNode",
    "DeviceOptions",
    "DeviceStatus",
    "Directories",
    "Driver",
    "Edits",
    "Health",
    "Hook",
    "Mount",
    "Plugin",
    "PrepareError",
    "Prepared",
    "Released",
    "condition",
    "device",
    "main",
]

_RUNNING = frozenset({"Directories", "Plugin", "main"})


def __getattr__(name: str) -> Any:
    """Import the modules that run a driver on first use: they need gRPC and HTTP."""
    if name not in _RUNNING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dray.driverkit import plugin

    return getattr(plugin, name)

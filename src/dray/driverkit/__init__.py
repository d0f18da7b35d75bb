"""Write a driver: devices in, ResourceSlices, prepared claims, CDI and metadata files out.

class Hello(driverkit.Driver):
    name = "hello.example.com"

    def devices(self):
        return [driverkit.device("hello-0", greeting="hello")]

    def prepare(self, allocated):
        return driverkit.Edits(env={"GREETING": allocated.attribute("greeting")})

driverkit.main(Hello())
"""

from dray.driverkit.cdi import DeviceNode, Edits, Hook, Mount
from dray.driverkit.driver import (
    Allocated,
    DeviceHealth,
    DeviceOptions,
    Driver,
    Health,
    PrepareError,
    Released,
    device,
)
from dray.driverkit.plugin import Directories, Plugin, main

__all__ = [
    "Allocated",
    "DeviceHealth",
    "DeviceNode",
    "DeviceOptions",
    "Directories",
    "Driver",
    "Edits",
    "Health",
    "Hook",
    "Mount",
    "Plugin",
    "PrepareError",
    "Released",
    "device",
    "main",
]

"""A driver whose one device is shared by memory, and that notices when the device is ill.

The health of this imaginary GPU is in a file, so that it can be made ill by hand:

    echo "too hot" > /tmp/imaginary-gpu-fault
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from dray import driverkit

FAULT = Path(os.environ.get("IMAGINARY_GPU_FAULT", "/tmp/imaginary-gpu-fault"))
SHARES = driverkit.CapacityRequestPolicy(
    default="1Gi", valid_range=driverkit.CapacityRequestPolicyRange(min="1Gi", step="1Gi")
)


class SharedGpu(driverkit.Driver):
    name = "shared-gpu.example.com"

    def devices(self) -> Iterable[driverkit.Device]:
        memory = driverkit.DeviceCapacity("16Gi", request_policy=SHARES)
        yield driverkit.Device(
            name="gpu-0", allow_multiple_allocations=True, capacity={"memory": memory}
        )

    def prepare(self, allocated: driverkit.Allocated) -> driverkit.Prepared:
        memory = allocated.result.consumed_capacity.get("memory", "0")
        if FAULT.exists():
            raise driverkit.PrepareError(f"{allocated.name} is ill: {FAULT.read_text().strip()}")
        share = driverkit.DeviceStatus(data={"memory": memory})
        return driverkit.Prepared(driverkit.Edits(env={"GPU_MEMORY_LIMIT": memory}), share)

    def health(self) -> Iterable[driverkit.DeviceHealth]:
        if FAULT.exists():
            ill = driverkit.Health.UNHEALTHY
            yield driverkit.DeviceHealth("gpu-0", ill, FAULT.read_text().strip())


if __name__ == "__main__":
    driverkit.main(SharedGpu())

"""A driver with an imaginary NPU of eight cores, whole or in partitions. Under `dray up`:

python examples/drivers/npu.py --node gpu-0 --folder ~/.local/share/dray/nodes/gpu-0
"""

from __future__ import annotations

from collections.abc import Iterable

from dray import driverkit

CORES = 8
SIZES = (2, 4, CORES)
"""The partitions: four of two cores, two of four, or the whole NPU."""


class Npu(driverkit.Driver):
    name = "npu.example.com"

    def shared_counters(self) -> Iterable[driverkit.CounterSet]:
        yield driverkit.CounterSet("npu-0", _cores(range(CORES)))

    def devices(self) -> Iterable[driverkit.Device]:
        for size in SIZES:
            for first in range(0, CORES, size):
                yield driverkit.Device(
                    name=f"npu-0-{size}c-{first}",
                    attributes={"cores": driverkit.DeviceAttribute(int_value=size)},
                    consumes_counters=(
                        driverkit.DeviceCounterConsumption(
                            "npu-0", _cores(range(first, first + size))
                        ),
                    ),
                )

    def prepare(self, allocated: driverkit.Allocated) -> driverkit.Edits:
        _, first = allocated.name.rsplit("-", 1)
        last = int(first) + allocated.attribute("cores") - 1
        return driverkit.Edits(env={"NPU_CORES": f"{first}-{last}"})


def _cores(numbers: Iterable[int]) -> dict[str, driverkit.Counter]:
    """Return one counter for each core, so that no two devices in use have the same core."""
    return {f"core-{number}": driverkit.Counter("1") for number in numbers}


if __name__ == "__main__":
    driverkit.main(Npu())

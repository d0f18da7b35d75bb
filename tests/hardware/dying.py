"""A driver that is killed when a partition is made and not yet noted: run as a program."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from dray.drivers.nvidia import nvml, partitions
from dray.drivers.nvidia.hardware import ComputeInstance
from dray.drivers.nvidia.nvml import Nvml
from dray.drivers.nvidia.partition_state import GpuState


class Deadly(Nvml):
    def create_compute(self, gpu: str, instance: int) -> ComputeInstance:
        super().create_compute(gpu, instance)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


def main(folder: str) -> None:
    library = nvml.open_library()
    deadly = Deadly(library.library)
    gpu = deadly.gpus()[0]
    cut = partitions.in_order(deadly.profiles(gpu.uuid))[0]
    GpuState(deadly, Path(folder)).hold_partition("claim/device/", gpu.uuid, cut)


if __name__ == "__main__":
    main(sys.argv[1])

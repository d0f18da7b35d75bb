"""The NVIDIA driver on a fake machine as a process: `python -m tests.conformance_drivers.nvidia …`.

What it made of a GPU is kept in a file, as hardware keeps partitions when the driver dies.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

from dray import driverkit
from dray.drivers.nvidia.driver import Options
from dray.drivers.nvidia.inventory import Settings
from tests.cluster.test_nvidia import FakeMachineDriver
from tests.nvidia import fake
from tests.nvidia.fake import FakeHardware

KEPT = ("modes", "made", "computing")


def hardware(folder: Path) -> FakeHardware:
    """A fake machine that is found again as it was left."""
    made = fake.hardware(folder / "machine", count=2)
    state = folder / "hardware"
    if state.exists():
        for name, value in pickle.loads(state.read_bytes()).items():
            setattr(made, name, value)

    def keep(_call: str) -> None:
        kept: dict[str, Any] = {name: getattr(made, name) for name in KEPT}
        state.write_bytes(pickle.dumps(kept))

    made.interrupt = keep
    return made


def main(*arguments: str) -> None:
    folder = Path(arguments[arguments.index("--folder") + 1])
    node = arguments[arguments.index("--node") + 1]
    made = FakeMachineDriver(hardware(folder), folder / "plugins", Options(Settings(node)))
    driverkit.main(made, list(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])

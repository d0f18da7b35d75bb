"""The NVIDIA driver on a fake machine as a process: `python -m tests.conformance_drivers.nvidia …`.

What it made of a GPU is kept in a file, as hardware keeps partitions when the driver dies, and as
two drivers of a rolling update see the same hardware.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from unittest import mock

from dray import driverkit
from dray.drivers.nvidia.driver import Options
from dray.drivers.nvidia.inventory import Settings
from tests.nvidia import fake
from tests.nvidia.fake import FakeHardware
from tests.nvidia.machine_driver import FakeMachineDriver

KEPT = ("modes", "made", "computing")


class KeptHardware(FakeHardware):
    """Reads its state before each call, and writes it after each change."""

    def _called(self, name: str, gpu: str = "") -> None:
        if self._file.exists():
            for field, value in pickle.loads(self._file.read_bytes()).items():
                setattr(self, field, value)
        super()._called(name, gpu)

    def keep(self, _call: str = "") -> None:
        self._file.write_bytes(pickle.dumps({field: getattr(self, field) for field in KEPT}))

    def destroy_instance(self, gpu: str, instance: int) -> None:
        super().destroy_instance(gpu, instance)
        self.keep()

    @property
    def _file(self) -> Path:
        return self.root.with_suffix(".state")


def hardware(root: Path) -> FakeHardware:
    """A fake machine that is found again as it was left."""
    is_new = not root.exists()
    build = fake._build_machine if is_new else lambda *_: None
    with mock.patch.object(fake, "_build_machine", build):
        made = fake.hardware(root, count=2)
    kept = KeptHardware(made.root, made.known, made.offered)
    kept.interrupt = kept.keep
    return kept


def main(*arguments: str) -> None:
    folder = Path(arguments[arguments.index("--folder") + 1])
    node = arguments[arguments.index("--node") + 1]
    data = folder / "plugins" / FakeMachineDriver.name
    driver = FakeMachineDriver(hardware(folder / "machine"), data, Options(Settings(node)))
    driverkit.main(driver, list(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The simulated driver as a process: `python -m tests.conformance_drivers.simulated FLEET …`."""

from __future__ import annotations

import sys
from pathlib import Path

from dray import driverkit
from dray.drivers.simulated import fleet
from dray.drivers.simulated.plugin import SimulatedPlugin


def main(name: str, *arguments: str) -> None:
    machine = next(iter(fleet.load(name, nodes=1).machines.values()))
    driver = next(pool.driver for pool in machine.pools())
    # The same place after a restart, as on a node.
    folder = Path(arguments[arguments.index("--folder") + 1]) / "cards"
    folder.mkdir(exist_ok=True)
    driverkit.main(SimulatedPlugin(machine, driver, folder), list(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])

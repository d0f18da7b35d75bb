"""A driver that takes its time where a file says so: `prepare` or `unprepare`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

from dray import driverkit
from dray.api.types.dra import Device

SLOW = Path(os.environ["SLOW_DRIVER_FOLDER"])


class SlowDriver(driverkit.Driver):
    """Waits in the middle of its work; notes there that it has come so far."""

    name = "slow.example.com"

    def devices(self) -> Iterable[Device]:
        yield driverkit.device("slow-0")

    async def prepare(self, allocated: driverkit.Allocated) -> driverkit.Edits:
        await self._linger("prepare")
        return driverkit.Edits(env={"SLOW": allocated.name})

    async def unprepare(self, released: driverkit.Released) -> None:
        await self._linger("unprepare")

    async def _linger(self, stage: str) -> None:
        if (SLOW / stage).exists():
            (SLOW / f"in-{stage}").touch()
            await asyncio.Event().wait()


if __name__ == "__main__":
    driverkit.main(SlowDriver())

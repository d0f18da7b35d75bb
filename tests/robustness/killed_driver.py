"""A driver that is killed before each change it makes to the disk, one process per change.

`python -m tests.robustness.killed_driver FOLDER` prints a line of JSON for each kill: during what,
before which change, and everything that was wrong afterwards.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from dray import driverkit
from dray.api.types.dra import Device, ResourceClaim
from dray.driverkit import cdi
from dray.driverkit.cdi import Edits
from dray.driverkit.driver import Allocated, PrepareError, Released
from dray.driverkit.prepared_claims import PreparedClaims

NAME = "gpu.example.com"
DEVICES = ("gpu-0", "gpu-1")
CHANGES = frozenset({"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir"})
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
DONE = 0


class Hardware(driverkit.Driver):
    """Its devices remember on disk who has them, and let nobody else in."""

    name = NAME

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def devices(self) -> Iterable[Device]:
        return [driverkit.device(name) for name in DEVICES]

    def prepare(self, allocated: Allocated) -> Edits:
        holder, uid = self._folder / allocated.name, allocated.claim.metadata.uid
        if holder.exists() and holder.read_text("utf-8") not in ("", uid):
            raise PrepareError(f"{allocated.name} is taken")
        holder.write_text(uid, "utf-8")
        return Edits(env={f"HAS_{allocated.name[-1]}": uid})

    def unprepare(self, released: Released) -> None:
        (self._folder / released.name).unlink(missing_ok=True)


class Node:
    """What there is on disk, and a fresh process's view of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)

    def claims(self) -> PreparedClaims:
        driver = Hardware(self._folder / "hardware")
        return PreparedClaims(driver, self._folder / "data", self._folder / "cdi")

    def prepare(self, uid: str) -> None:
        asyncio.run(self.claims().prepare(claim(uid)))

    def unprepare(self, uid: str) -> None:
        asyncio.run(self.claims().unprepare(uid))

    def left(self) -> list[str]:
        """Files of claims: everything but the checkpoint and what belongs to it."""
        files = [each for each in self._folder.rglob("*") if each.is_file()]
        return sorted(file.name for file in files if not file.name.startswith("prepared-claims"))

    def faults(self) -> Iterator[str]:
        """What is wrong after a restart: nothing may be lost, nothing double, nothing left over."""
        devices = asyncio.run(self.claims().prepare(claim("a")))
        if devices != asyncio.run(self.claims().prepare(claim("a"))):
            yield "the second answer is another"
        ids = [name for device in devices for name in device.cdi_ids]
        edits = cdi.resolve(ids, [self._folder / "cdi"])
        if dict(edits.env) != {"HAS_0": "a", "HAS_1": "a"}:
            yield f"a container would get {edits.env}"
        if (holders := self._holders()) != ["a", "a"]:
            yield f"the devices are held by {holders}"
        if (refusal := self._refusal("b")) is None or "still prepared for" not in refusal:
            yield f"another claim got the devices: {refusal}"
        self.unprepare("a")
        if left := self.left():
            yield f"left over: {left}"
        if (refusal := self._refusal("b")) is not None:
            yield f"the devices are not free: {refusal}"

    def _holders(self) -> list[str]:
        hardware = sorted((self._folder / "hardware").iterdir())
        return [each.read_text("utf-8") for each in hardware]

    def _refusal(self, uid: str) -> str | None:
        try:
            self.prepare(uid)
        except PrepareError as error:
            return str(error)
        return None


def claim(uid: str) -> ResourceClaim:
    results = [
        {"request": "gpu", "driver": NAME, "pool": "n1", "device": device} for device in DEVICES
    ]
    return msgspec.convert(
        {
            "metadata": {"name": f"claim-{uid}", "namespace": "default", "uid": uid},
            "status": {"allocation": {"devices": {"results": results}}},
        },
        ResourceClaim,
    )


def die_before(number: int) -> None:
    """Kill this process, as `kill -9` does, before its change to the disk with this number."""
    seen = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        is_opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
        if event in CHANGES or is_opened:
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

    sys.addaudithook(watch)


def in_a_process(work: Callable[[], None]) -> int:
    """Fork, work, and say how that process ended."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(DONE)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(folder: Path, operation: str) -> Iterator[dict[str, Any]]:
    for number in count():
        node = Node(folder / f"{operation}-{number}")
        if operation == "unprepare":
            in_a_process(partial(node.prepare, "a"))
        ended = in_a_process(partial(_dying, node, operation, number))
        yield {"during": operation, "before": number, "faults": list(node.faults())}
        if ended == DONE:
            return


def _dying(node: Node, operation: str, number: int) -> None:
    die_before(number)
    getattr(node, operation)("a")


if __name__ == "__main__":
    for operation in ("prepare", "unprepare"):
        for line in killed(Path(sys.argv[1]), operation):
            print(json.dumps(line), flush=True)

"""Child processes that are reaped when they end, whether or not anybody waits for them."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
from collections.abc import Sequence
from typing import Any, Final

OPEN_FILES: Final[int] = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
"""How many files a process may have open, before a server in this process raised that for itself:
containers get it. More slows programs down that close every number up to the limit."""


class Process:
    """A running child process. Create it on the event loop."""

    def __init__(self, argv: Sequence[str], **options: Any) -> None:
        self.child: subprocess.Popen[bytes] = subprocess.Popen(argv, **options)
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._descriptor = os.pidfd_open(self.child.pid)
        self._loop.add_reader(self._descriptor, self._reap)

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def has_ended(self) -> bool:
        return self.child.poll() is not None

    async def wait(self) -> int:
        """Wait for the exit code; 128 plus the signal's number for a process killed by one."""
        await self._ended.wait()
        code = self.child.returncode
        return 128 - code if code < 0 else code

    def kill(self) -> None:
        self.child.kill()

    def close_pipes(self) -> None:
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            if pipe is not None:
                pipe.close()

    def _reap(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.child.wait()
        self._ended.set()


async def end_of(process: int) -> None:
    """Wait for any process to end, also one that is not a child."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        await ready(descriptor)
    finally:
        os.close(descriptor)


async def ready(descriptor: int, *, to_write: bool = False) -> None:
    """Wait until a descriptor can be read or, with `to_write`, written without blocking."""
    loop = asyncio.get_running_loop()
    is_ready = asyncio.Event()
    add, remove = loop.add_reader, loop.remove_reader
    if to_write:
        add, remove = loop.add_writer, loop.remove_writer
    add(descriptor, is_ready.set)
    try:
        await is_ready.wait()
    finally:
        remove(descriptor)

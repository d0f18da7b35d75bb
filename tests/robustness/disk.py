"""A disk that loses what was not synced: a file system layer for SQLite, through apsw.

Files are real ones below. When the power goes, every later operation fails; `restore_files` then
gives each file the content it has after the outage: what was synced, and by chance some of what
was not, since a disk may write in any order.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import apsw

NAME = "unsynced-is-lost"


class PowerCut(apsw.IOError):
    """Raised by every operation after the power has gone."""


class Content:
    """What a file durably contains, and the writes since its last sync."""

    def __init__(self, durable: bytes) -> None:
        self._durable = bytearray(durable)
        self._pending: list[tuple[int, bytes | None]] = []

    def write(self, offset: int, data: bytes) -> None:
        self._pending.append((offset, data))

    def truncate(self, size: int) -> None:
        self._pending.append((size, None))

    def sync(self) -> None:
        for offset, data in self._pending:
            self._apply(offset, data)
        self._pending.clear()

    def after_outage(self, chance: random.Random) -> bytes:
        for offset, data in self._pending:
            if chance.random() < 0.3:
                self._apply(offset, data)
        return bytes(self._durable)

    def _apply(self, offset: int, data: bytes | None) -> None:
        if data is None:
            del self._durable[offset:]
            return
        self._durable.extend(bytes(max(0, offset - len(self._durable))))
        self._durable[offset : offset + len(data)] = data


class Disk(apsw.VFS):
    """The layer. The power goes at the operation after `operations_left` others."""

    def __init__(self, operations_left: int) -> None:
        self.operations_left = operations_left
        self._contents: dict[str, Content] = {}
        super().__init__(NAME, "")

    def use(self) -> None:
        """Count one operation on the disk."""
        self.operations_left -= 1
        if self.operations_left < 0:
            raise PowerCut

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        content = self._contents.get(path)
        if content is None:
            before = Path(path).read_bytes() if Path(path).exists() else b""
            content = self._contents[path] = Content(before)
        return File(self, content, name, flags)

    def xDelete(self, name: str, sync_directory: bool) -> None:
        self.use()
        self._contents.pop(name, None)
        super().xDelete(name, sync_directory)

    def restore_files(self, chance: random.Random) -> None:
        for path, content in self._contents.items():
            Path(path).write_bytes(content.after_outage(chance))


class File(apsw.VFSFile):
    """An open file on the disk."""

    def __init__(self, disk: Disk, content: Content, name: Any, flags: list[int]) -> None:
        self._disk, self._content = disk, content
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.use()
        self._content.write(offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._disk.use()
        self._content.truncate(size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self._disk.use()
        super().xSync(flags)
        self._content.sync()

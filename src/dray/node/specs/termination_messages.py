"""The message that a container leaves at its end: a file that it writes, or the end of its log.

The file is the agent's, next to the container's log, and mounted alone: the container can neither
replace it nor put a link in its place. The agent reads no more than the last bytes of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dray.api.types.containers import Container
from dray.node.containers import logs, shim
from dray.node.containers.logs import LogOptions
from dray.node.host_paths import SafeFolder, UnsafePath
from dray.node.runtimes.interface import Bind, ContainerConfigError, Runtime
from dray.node.specs import volumes

FILE: Final = "termination-log"
DEFAULT_PATH: Final = "/dev/termination-log"
FROM_LOG: Final = "FallbackToLogsOnError"
MAX_BYTES: Final = 4096
MAX_LOG_BYTES, MAX_LOG_LINES = 2048, 80


def bind(runtime: Runtime, container: Container, pods: Path, folder: str) -> Bind | None:
    """Make the file of a start in `folder`, a path below `pods`, and return its mount.

    None where the runtime mounts nothing. Raises ContainerConfigError for its path.
    """
    path = container.termination_message_path or DEFAULT_PATH
    if not runtime.mounts_files and path == DEFAULT_PATH:
        return None
    try:
        target = volumes.container_path(path)
        with SafeFolder.open(pods) as root, root.enter(folder, mode=0o700) as start:
            # For every user of the container; nobody else comes into the folder.
            start.write(FILE, b"", mode=0o666)
    except UnsafePath as error:
        where = f"container {container.name}: terminationMessagePath"
        raise ContainerConfigError(f"{where}: {error}") from error
    return Bind(str(pods / folder / FILE), target, read_only=False)


def read(folder: Path, policy: str, exit_code: int) -> str:
    """Return the message of a start with this folder that has ended; empty where it left none."""
    try:
        with SafeFolder.open(folder) as start:
            found = start.read(FILE, MAX_BYTES, from_end=True)
    except (UnsafePath, OSError):
        found = b""
    if not found and policy == FROM_LOG and exit_code:
        found = _end_of_log(folder)
    return found.decode("utf-8", "replace")


def _end_of_log(folder: Path) -> bytes:
    try:
        text = logs.read(folder / shim.OUTPUT, LogOptions(tail_lines=MAX_LOG_LINES))
    except OSError:
        return b""
    return text[-MAX_LOG_BYTES:]

"""The size of a pod's emptyDir volumes: a pod that exceeds a sizeLimit is evicted.

As a kubelet does, the node looks from time to time, so that a volume may exceed its limit for a
while. Volumes in memory have a size that the kernel enforces, and are not looked at.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Final

from dray.api.formats import quantity
from dray.api.types.pods import Pod
from dray.node import host_paths
from dray.node.pods.pod_status import PodFailure

PERIOD_SECONDS: Final = 10.0
EVICTED: Final = "Evicted"
_PATH: Final = "/usr/bin:/bin"
_BLOCK_BYTES: Final = 1024
_DU_SECONDS: Final = 300.0


async def until_exceeded(pod: Pod, volumes: Path) -> PodFailure:
    """Wait until a volume is larger than its limit. Without limits, that is never."""
    limits = {
        volume.name: source.size_limit
        for volume in pod.spec.volumes
        if (source := volume.empty_dir) is not None and source.size_limit and not source.medium
    }
    while limits:
        await asyncio.sleep(PERIOD_SECONDS)
        for name, limit in limits.items():
            size = await host_paths.walk_aside(_size, volumes / name)
            if size is None or size > quantity.parse(limit).value():
                text = f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}".'
                return PodFailure(EVICTED, text if size else f"{text} Its size cannot be found.")
    await asyncio.Event().wait()
    raise AssertionError("nothing sets the event")


def _size(folder: Path) -> int | None:
    """Return the bytes on disk below a folder; None where they cannot be counted.

    A container can hide files, or make more than can be counted: then they count as too much.

    By du: it follows no links, and is not stopped by folders in folders without end.
    """
    if not folder.exists():
        return 0
    argv = [shutil.which("du", path=_PATH) or "/usr/bin/du", "-skx", "--", str(folder)]
    environment = {"PATH": _PATH, "LC_ALL": "C"}
    try:
        ran = subprocess.run(
            argv, capture_output=True, timeout=_DU_SECONDS, check=False, env=environment, text=True
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if "Permission denied" in ran.stderr or not ran.stdout:
        return None
    return int(ran.stdout.split()[0]) * _BLOCK_BYTES

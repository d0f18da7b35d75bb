"""The recorder: follows a cluster, read only, and writes the history of its devices.

What is on disk always has a revision of each kind up to which it is complete. Whatever fails, the
server or the disk, the next attempt goes on from there: exactly where the server still has what
happened since, otherwise by a comparison, with a gap.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from dray.api import errors
from dray.api.features import Features
from dray.client.api_client import Client
from dray.history import recording
from dray.history.history_file import HistoryFile, HistoryUnusable
from dray.history.recording import MayNotRead, OtherCluster, Recording, Setting

__all__ = [
    "HistoryRecorder",
    "MayNotRead",
    "OtherCluster",
]

log = logging.getLogger(__name__)

NAME: Final = "dray-recorder"
RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 30.0

T = TypeVar("T")


class HistoryRecorder:
    """Follows the cluster of a client; an attempt that failed is repaired by the next one."""

    def __init__(
        self,
        client: Client,
        file: HistoryFile,
        *,
        features: Features,
        now: Callable[[], datetime.datetime],
        follows_new_clusters: bool = False,
    ) -> None:
        """With `follows_new_clusters` the file goes on when the cluster is another one."""
        self.is_recording = asyncio.Event()
        """Set while what happens is recorded."""
        self._setting = Setting(
            client, file, features, now, follows_new_clusters, self.is_recording
        )

    async def check(self) -> None:
        """Raise OtherCluster if the file is not about this cluster, and MayNotRead.

        Also raises the errors of the server.
        """
        recorded = await asyncio.to_thread(self._setting.file.load)
        cluster = await recording.cluster_uid(self._setting.client)
        self._setting.check_cluster(recorded, cluster)
        await recording.check_rights(self._setting.client, self._setting.features)

    async def run(self) -> None:
        """Record until cancelled. Raises OtherCluster."""
        pause = RETRY_SECONDS
        with ThreadPoolExecutor(1, "history") as thread:

            async def in_thread(work: Callable[[], T]) -> T:
                return await asyncio.get_running_loop().run_in_executor(thread, work)

            while True:
                attempt = Recording(self._setting, in_thread)
                failure = await self._outcome(attempt)
                if attempt.has_recorded:
                    pause = RETRY_SECONDS
                log.warning("the history is recorded again in %g s: %s", pause, failure)
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_RETRY_SECONDS)

    async def _outcome(self, attempt: Recording) -> Exception:
        try:
            await attempt.run()
        except OtherCluster:
            raise
        except (errors.StatusError, HistoryUnusable) as error:
            return error
        finally:
            self.is_recording.clear()
            await attempt.end()
        raise AssertionError("an attempt to record ends with a failure")

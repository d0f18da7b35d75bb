"""The recorder: follows a cluster, read only, and writes the history of its devices."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from dray.api.features import Features
from dray.client.api_client import Client
from dray.history.history_file import HistoryFile

__all__ = ["NAME", "Recorder"]

NAME = "dray-recorder"


class Recorder:
    """Follows the cluster of a client; a failed run is repaired by the next one."""

    def __init__(
        self,
        client: Client,
        file: HistoryFile,
        *,
        features: Features,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._client, self._file, self._features, self._now = client, file, features, now

    async def run(self) -> None:
        """Record until cancelled."""
        raise NotImplementedError

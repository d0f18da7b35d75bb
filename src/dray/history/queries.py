"""Questions to the file of a history, while a recorder writes it or later."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Self

from dray.api.ids import DeviceId
from dray.history.periods import HeldPeriod, MarkPeriod, Moment, Span, UsageBucket, WaitPeriod

__all__ = ["History"]

Time = datetime.datetime | None


class History:
    """Reads one file over a read-only connection of its own. Blocks: ask it in a thread.

    Several threads may ask; each question waits for the one before.
    """

    def __init__(self, path: Path) -> None:
        """Raises HistoryUnusable if the file is absent, damaged, newer or not a history."""
        raise NotImplementedError

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def span(self) -> Span:
        """Return the time that the file is about, and its gaps, the earliest first."""
        raise NotImplementedError

    def at(self, time: datetime.datetime) -> Moment:
        """Return what was held, tainted and unhealthy at one time."""
        raise NotImplementedError

    def periods(
        self,
        *,
        device: DeviceId | str | None = None,
        claim: str | None = None,
        node: str | None = None,
        user: str | None = None,
        since: Time = None,
        until: Time = None,
    ) -> list[HeldPeriod]:
        """Return when devices were held, the earliest first, as far as all arguments apply.

        A device is an id or a text: DRIVER/POOL/DEVICE or POOL/DEVICE. A claim is NAMESPACE/NAME.
        Of the time from `since` to `until`, each period that has a part in it is returned whole.
        """
        raise NotImplementedError

    def marks(self, device: DeviceId, since: Time = None, until: Time = None) -> list[MarkPeriod]:
        """Return when a device was tainted or unhealthy, the earliest first."""
        raise NotImplementedError

    def waits(self, since: Time = None, until: Time = None) -> list[WaitPeriod]:
        """Return when pods with claims waited, the earliest first."""
        raise NotImplementedError

    def usage(
        self, since: datetime.datetime, until: datetime.datetime, buckets: int
    ) -> list[UsageBucket]:
        """Return the use of each DeviceClass over time, ordered by class and time."""
        raise NotImplementedError

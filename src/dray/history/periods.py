"""Answers about the past: who held a device when, what was wrong with it, and what waited.

All times are in UTC. A period without `until` still goes on.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from dray.api.ids import DeviceId

__all__ = [
    "DeviceHolder",
    "Gap",
    "HeldPeriod",
    "HistorySpan",
    "MarkKind",
    "MarkPeriod",
    "Moment",
    "UsageBucket",
    "WaitPeriod",
]

MarkKind = Literal["tainted", "unhealthy"]
ENDED: Final = datetime.timedelta(seconds=10)
"""A recorder that runs has written something in that time."""


class Gap(NamedTuple):
    """A time of which nothing is known: no recorder ran, and nothing could be read afterwards."""

    since: datetime.datetime
    until: datetime.datetime


class HistorySpan(NamedTuple):
    """The time that a history is about; both ends are None while nothing is recorded."""

    first: datetime.datetime | None
    last: datetime.datetime | None
    """Until when everything is known: seconds ago while the recorder runs."""
    gaps: tuple[Gap, ...]

    def knows(self, time: datetime.datetime) -> bool:
        """Return whether everything about a time is known."""
        if self.first is None or self.last is None or not self.first <= time <= self.last:
            return False
        return not any(gap.since < time < gap.until for gap in self.gaps)

    def has_ended(self, now: datetime.datetime) -> bool:
        """Return whether no recorder writes now: a gap begins at the last time."""
        return self.last is not None and now - self.last > ENDED


class DeviceHolder(msgspec.Struct, frozen=True, gc=False):
    """A claim that holds a device, and who uses the claim."""

    claim: str
    """NAMESPACE/NAME."""
    uid: str
    pods: tuple[str, ...] = ()
    """NAMESPACE/NAME of the pods in the claim's `status.reservedFor`."""
    user: str = ""
    """Who created the claim or its pod, as far as the objects say it; "" where they do not."""


class Moment(msgspec.Struct, frozen=True):
    """The devices at one time. In a gap it has only what is certain nevertheless."""

    time: datetime.datetime
    is_known: bool
    holders: Mapping[DeviceId, tuple[DeviceHolder, ...]] = {}
    tainted: frozenset[DeviceId] = frozenset()
    """With a taint that prevents allocation."""
    unhealthy: frozenset[DeviceId] = frozenset()


class HeldPeriod(msgspec.Struct, frozen=True):
    """A time in which a claim held a device or a share of it."""

    device: DeviceId
    node: str
    """Empty for a device that no single node has."""
    claim: str
    """NAMESPACE/NAME."""
    uid: str
    pods: tuple[str, ...]
    """NAMESPACE/NAME of every pod that used the claim in this time, the earliest first."""
    user: str
    since: datetime.datetime
    until: datetime.datetime | None = None
    until_is_about: bool = False
    """Whether it ended at an unknown time after `until`."""


class MarkPeriod(msgspec.Struct, frozen=True):
    """A time in which a device had a taint that prevents allocation, or was unhealthy."""

    device: DeviceId
    kind: MarkKind
    key: str
    """The key of the taint."""
    since: datetime.datetime
    until: datetime.datetime | None = None


class WaitPeriod(msgspec.Struct, frozen=True):
    """A time in which a pod with claims waited to be scheduled."""

    pod: str
    """NAMESPACE/NAME."""
    since: datetime.datetime
    until: datetime.datetime | None = None
    reason: str = ""
    """What the scheduler said last."""


class UsageBucket(msgspec.Struct, frozen=True):
    """Means over one part of the time; a device counts once with its partitions."""

    device_class: str
    since: datetime.datetime
    until: datetime.datetime
    total: float
    """Devices that the class selects."""
    held: float
    """Devices of the class that claims held, or parts of them, through any class."""
    waiting: float
    """Pods that waited with a claim for the class."""
    known: float = 1.0
    """How much of the part is known, from 0 to 1; the means are over what is known."""

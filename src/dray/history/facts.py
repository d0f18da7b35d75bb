"""Facts, which begin and end, and the changes of them: the content of a history.

A fact is a statement about the cluster that is true for some time, such as that a claim holds a
device. Times are milliseconds since 1970, UTC.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from dray.api.ids import DeviceId
from dray.history.periods import MarkKind

__all__ = [
    "Fact",
    "FactBegin",
    "FactChange",
    "FactDetails",
    "FactEnd",
    "FactRevision",
    "HeldFact",
    "MarkedFact",
    "ObjectRef",
    "RecordProgress",
    "TotalFact",
    "UsedFact",
    "WaitingFact",
    "from_milliseconds",
    "milliseconds",
]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def milliseconds(time: datetime.datetime) -> int:
    return (time - _EPOCH) // MILLISECOND


def from_milliseconds(time: int) -> datetime.datetime:
    return _EPOCH + time * MILLISECOND


class ObjectRef(NamedTuple):
    """A claim or pod. Another consumer of a claim has RESOURCE/NAME as its name."""

    namespace: str
    name: str
    uid: str


class HeldFact(msgspec.Struct, frozen=True, gc=False):
    """A claim holds a device, or shares of it."""

    device: DeviceId
    claim: ObjectRef


class UsedFact(msgspec.Struct, frozen=True, gc=False):
    """A pod uses a claim."""

    claim: ObjectRef
    pod: ObjectRef


class MarkedFact(msgspec.Struct, frozen=True, gc=False):
    """A taint of this key makes a device tainted or unhealthy."""

    device: DeviceId
    kind: MarkKind
    key: str


class WaitingFact(msgspec.Struct, frozen=True, gc=False):
    """A pod with a claim for this class waits; "" for a class that is not known."""

    pod: ObjectRef
    device_class: str


class TotalFact(msgspec.Struct, frozen=True, gc=False):
    """A class selects this number of devices; a device counts once with its partitions."""

    device_class: str
    count: int


Fact = HeldFact | UsedFact | MarkedFact | WaitingFact | TotalFact


class FactDetails(msgspec.Struct, frozen=True, gc=False):
    """Particulars that are recorded with a fact."""

    since: int = 0
    """When it became true as the object says it, or 0."""
    node: str = ""
    device_class: str = ""
    """Through which class the claim holds the device."""
    root: str = ""
    """The device of which the held one is a partition, or "" if it is none."""
    user: str = ""
    """Who created the claim."""
    reason: str = ""
    """Why the pod waits."""


class FactBegin(NamedTuple):
    fact: Fact
    details: FactDetails
    since: int


class FactEnd(NamedTuple):
    fact: Fact
    until: int
    is_about: bool = False
    """Whether it ended at an unknown time after `until`."""


class FactRevision(NamedTuple):
    """The reason of a fact has changed."""

    fact: Fact
    reason: str


FactChange = FactBegin | FactEnd | FactRevision


class RecordProgress(NamedTuple):
    """Up to where everything is recorded."""

    until: int
    """The time."""
    versions: Mapping[str, str]
    """The resourceVersion of each kind, by plural."""
    begins_anew: bool = False
    """Whether nothing is known about the time between the last progress and this one."""
    cluster: str = ""
    """The UID of the cluster's namespace kube-system, where it can be read."""

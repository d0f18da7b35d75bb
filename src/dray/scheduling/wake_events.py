"""Events that could make an unschedulable pod fit (queueing hints of kube-scheduler)."""

from __future__ import annotations

from typing import NamedTuple

from dray.api.ids import ClaimKey, ObjectKey


class WakeEvent(NamedTuple):
    """A change in the cluster after which a pod is worth another attempt."""

    what: str
    which: ObjectKey | None = None
    """The object that changes; None for any of its kind."""


NODES = WakeEvent("nodes")
"""A node is added, changed or removed."""
POD_REMOVED = WakeEvent("pod removed")
"""A pod leaves a node."""
POD_PLACED = WakeEvent("pod placed")
"""A pod gets a node."""
DEVICES = WakeEvent("devices")
"""Devices are published or freed."""
CLASSES = WakeEvent("classes")
"""A device class changes."""
DEVICES_TAKEN = WakeEvent("devices taken")
"""A claim gets devices. It helps nobody, but may change why others wait."""

GROUP = "group"
"""What the events of PodGroups are about."""

LASTING = frozenset({NODES, CLASSES})
"""The events that pods do not cause by coming and going."""
GENERAL = LASTING | {POD_REMOVED, POD_PLACED, DEVICES, DEVICES_TAKEN}
"""The events that are not about one object."""


def claim_changes(key: ObjectKey | ClaimKey) -> WakeEvent:
    """Return the event that one claim changes."""
    return WakeEvent("claim", ObjectKey(*key))


def group_changes(key: ObjectKey) -> WakeEvent:
    """Return the event that one PodGroup or its membership changes."""
    return WakeEvent(GROUP, key)

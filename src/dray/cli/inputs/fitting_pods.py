"""Numbers of pods that still fit, by device class."""

from __future__ import annotations

import time
from collections.abc import Iterable

from dray.api.types.nodes import Node
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.scheduling import fit_counts, pod_copies
from dray.scheduling.fit_counts import FitCount
from dray.scheduling.state import SchedulingState

SECONDS = 1.0
"""The time that counting may take, for all classes together."""
_NEEDED = frozenset({"Node", "Pod", "ResourceClaim", "ResourceSlice"})


def by_class(objects: ClusterObjects, classes: Iterable[str]) -> dict[str, FitCount]:
    """Return for each class how many more pods fit; nothing if too little could be read."""
    unread = {*objects.unread, *objects.partly_read}
    if not objects.of(Node) or not _NEEDED.isdisjoint(unread):
        return {}
    state = SchedulingState(objects.features)
    for values in objects.objects.values():
        for value in values:
            state.put(value)
    deadline = time.monotonic() + SECONDS
    return {
        name: fit_counts.count(
            state, pod_copies.of_class(name), lambda: time.monotonic() > deadline
        )
        for name in classes
    }

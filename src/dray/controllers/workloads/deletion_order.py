"""Orders pods for deletion: the one whose loss costs least comes first.

The order of pkg/controller/controller_utils.go, ActivePodsWithRanks.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping

from dray.api.formats import gotime
from dray.api.semantics import pod_status
from dray.api.types.pods import Pod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def by_deletion_order(
    pods: Iterable[Pod], now: datetime.datetime, crowding: Mapping[str, int] | None = None
) -> list[Pod]:
    """Sort pods, the first to delete in front.

    `crowding` is the number of related pods on each node.
    """
    return sorted(pods, key=lambda pod: _rank(pod, crowding or {}, now))


_PHASES = (pod_status.PENDING, pod_status.UNKNOWN, pod_status.RUNNING)


def _rank(
    pod: Pod, crowding: Mapping[str, int], now: datetime.datetime
) -> tuple[bool, int, bool, int, int, int, int, int, str]:
    phase = pod.status.phase
    created = pod.metadata.creation_timestamp
    return (
        bool(pod.spec.node_name),
        _PHASES.index(phase) if phase in _PHASES else 0,
        pod_status.is_ready(pod),
        _deletion_cost(pod),
        -crowding.get(pod.spec.node_name, 0),
        _age_class(pod_status.ready_since(pod), now),
        -pod_status.restarts(pod),
        _age_class(gotime.parse(created) if created else None, now),
        pod.metadata.uid,
    )


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _age_class(since: datetime.datetime | None, now: datetime.datetime) -> int:
    """Return the age on a logarithmic scale; among pods of similar age chance decides."""
    if since is None:
        return -1
    age_seconds = (now - since).total_seconds()
    return int(math.log2(age_seconds * 1e9)) if age_seconds > 0 else -1

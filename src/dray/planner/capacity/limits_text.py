"""The limits of a number of pods, in one line."""

from __future__ import annotations

from typing import Final

from dray.planner.capacity.pod_capacity import PodCapacity

LISTED: Final = 3


def of(capacity: PodCapacity) -> str:
    """Return what limits the number: a quota, a claim, or checks of nodes."""
    if capacity.message:
        return capacity.message
    words = [capacity.quota] if capacity.quota else []
    if capacity.claim:
        words.append(f"the users of claim {capacity.claim}")
    if capacity.is_limited_by_nodes:
        found = capacity.limits()
        words += [f"{check} ({_nodes(count)})" for check, count in found[:LISTED]]
        words += [f"{len(found) - LISTED} more"] if len(found) > LISTED else []
    return ", ".join(words) or "no nodes"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"

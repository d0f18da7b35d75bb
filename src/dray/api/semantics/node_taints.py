"""Taints of nodes that evict pods, and how long a pod tolerates them."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api import well_known
from dray.api.semantics.tolerations import tolerates
from dray.api.types.nodes import Node, Taint
from dray.api.types.pods import Toleration

FOREVER = float("inf")


def evicting_taints(node: Node) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.effect == well_known.NO_EXECUTE]


def tolerated_seconds(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> float:
    """Return how long a pod may stay: the shortest of the tolerations that it needs."""
    shortest = FOREVER
    for taint in taints:
        matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not matching:
            return 0.0
        limits = [item.toleration_seconds for item in matching]
        shortest = min([shortest, *(max(limit, 0) for limit in limits if limit is not None)])
    return shortest

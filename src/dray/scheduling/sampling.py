"""The part of a large cluster that kube-scheduler looks at for one pod."""

from __future__ import annotations

_ALL_BELOW = 100


def nodes_to_find(nodes: int) -> int:
    """Return after how many fitting nodes kube-scheduler need not look at the other ones.

    https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/schedule_one.go
    (numFeasibleNodesToFind)
    """
    if nodes < _ALL_BELOW:
        return nodes
    return max(nodes * max(50 - nodes // 125, 5) // 100, _ALL_BELOW)

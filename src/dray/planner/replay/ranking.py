"""Nodes in the order of their scores, for pods with one request; cost follows what changed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from dray.planner.policies.interface import PlacementPolicy, Ties
from dray.planner.policies.rooms import NodeRoom, PodRequest


class _Ranking:
    """The nodes where pods with one request fit, by score."""

    def __init__(
        self, nodes: Sequence[NodeRoom], request: PodRequest, policy: PlacementPolicy
    ) -> None:
        self._nodes, self._request, self._policy = nodes, request, policy
        self._scores: list[int | None] = [None] * len(nodes)
        self._positions = [0] * len(nodes)
        """Where each node is in the list of its score."""
        self._by_score: dict[int, list[int]] = {}
        self.update(range(len(nodes)))

    def update(self, changed: Iterable[int]) -> None:
        """Score again the nodes that changed."""
        nodes, request = self._nodes, self._request
        score_of, scores = self._policy.score, self._scores
        for index in changed:
            node = nodes[index]
            score = score_of(node, request) if node.fits(request) else None
            if score != scores[index]:
                self._move(index, score)

    def best(self, draw: random.Random) -> int | None:
        """Return one of the nodes with the highest score; None without any node."""
        if not self._by_score:
            return None
        nodes = self._by_score[max(self._by_score)]
        return draw.choice(nodes) if self._policy.ties is Ties.DRAWN else min(nodes)

    def _move(self, index: int, score: int | None) -> None:
        old = self._scores[index]
        if old is not None:
            nodes = self._by_score[old]
            last = nodes.pop()
            if last != index:
                position = self._positions[last] = self._positions[index]
                nodes[position] = last
            elif not nodes:
                del self._by_score[old]
        if score is not None:
            nodes = self._by_score.setdefault(score, [])
            self._positions[index] = len(nodes)
            nodes.append(index)
        self._scores[index] = score


class Rankings:
    """A ranking for every request, each brought up to date when it is asked."""

    def __init__(
        self, nodes: Sequence[NodeRoom], policy: PlacementPolicy, draw: random.Random
    ) -> None:
        self._nodes, self._policy, self._draw = nodes, policy, draw
        self._rankings: dict[PodRequest, _Ranking] = {}
        self._cursors: dict[PodRequest, int] = {}
        self._changes: list[int] = []
        """The nodes that changed, in the order of the changes."""

    def best(self, request: PodRequest) -> NodeRoom | None:
        """Return the node for a pod; None if it fits nowhere."""
        ranking = self._rankings.get(request)
        if ranking is None:
            ranking = self._rankings[request] = _Ranking(self._nodes, request, self._policy)
        else:
            ranking.update(sorted(set(self._changes[self._cursors[request] :])))
        self._cursors[request] = len(self._changes)
        index = ranking.best(self._draw)
        return None if index is None else self._nodes[index]

    def changed(self, node: NodeRoom) -> None:
        """Record that the room of a node is another one."""
        self._changes.append(node.index)

"""Fragmentation gradient descent: the node where free GPU room loses least of its use.

The fragmentation of a node is the free GPU room that a pod drawn from the mix of requests could not
use, as an expected value. `dray.allocator.fragmentation` does the same with the devices of DRA.
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dray.allocator.fragmentation import mix
from dray.planner.policies.interface import HIGHEST, PlacementPolicy
from dray.planner.policies.rooms import WHOLE, NodeRoom, PodRequest


def mix_of(requests: Mapping[PodRequest, int]) -> dict[PodRequest, float]:
    """Return the most common requests with their weights. Memory does not count."""
    counts: Counter[PodRequest] = Counter()
    for request, count in requests.items():
        counts[request._replace(memory=0)] += count
    return mix.most_common(counts, _by_size)


def _by_size(request: PodRequest) -> tuple[int, int, int, list[str]]:
    return -request.cpu, -request.part, -request.gpus, sorted(request.models)


class _Use(NamedTuple):
    """The free GPU parts that pods of the mix can use on a node, by what is free."""

    of_gpu: Sequence[float]
    """For pods with one GPU or a part of one: by the free parts of a GPU."""
    of_whole: Sequence[float]
    """For pods with several GPUs: by the number of GPUs that are free as a whole."""


class FragmentationGradientDescent(PlacementPolicy):
    """The node and GPU where fragmentation grows least."""

    def __init__(self, weights: Mapping[PodRequest, float]) -> None:
        self._mix = [(request, weight) for request, weight in weights.items() if request.gpus]
        self._steps = sorted({request.cpu for request, _ in self._mix})
        """The amounts of free CPU from which on another request of the mix fits."""
        self._most = max((request.gpus for request, _ in self._mix), default=0)
        self._uses: dict[tuple[str, int], _Use] = {}

    def score(self, node: NodeRoom, request: PodRequest) -> int:
        if request.is_fraction:
            return max(self._part_scores(node, request).values())
        used = node.whole - request.gpus
        use = self._use(node, node.cpu - request.cpu)
        usable = self._usable_by_one(node, use) - request.gpus * use.of_gpu[WHOLE]
        usable += use.of_whole[min(used, self._most)] * used
        return self._score(node, node.free_parts - request.parts - usable)

    def part_of_gpu(self, node: NodeRoom, request: PodRequest, draw: random.Random) -> int:
        scores = self._part_scores(node, request)
        return node.gpus.index(max(scores, key=scores.__getitem__))

    def _part_scores(self, node: NodeRoom, request: PodRequest) -> dict[int, int]:
        """Return the scores of GPUs by their free parts, in the order of the GPUs."""
        part = request.part
        use = self._use(node, node.cpu - request.cpu)
        of_gpu, left = use.of_gpu, node.free_parts - part
        usable = self._usable_by_one(node, use)
        scores: dict[int, int] = {}
        for free in node.gpus:
            if free >= part and free not in scores:
                whole = node.whole - (free == WHOLE)
                after = usable - of_gpu[free] + of_gpu[free - part]
                after += use.of_whole[min(whole, self._most)] * whole
                scores[free] = self._score(node, left - after)
        return scores

    def _score(self, node: NodeRoom, after: float) -> int:
        growth = after - self.fragmentation(node)
        return int(mix.score(growth / WHOLE, HIGHEST))

    def fragmentation(self, node: NodeRoom) -> float:
        """Return the free parts that a pod of the mix is expected not to be able to use."""
        known: float | None = node.cache.get("fragmentation")
        if known is None:
            use = self._use(node, node.cpu)
            usable = self._usable_by_one(node, use)
            usable += use.of_whole[min(node.whole, self._most)] * node.whole
            known = node.cache["fragmentation"] = node.free_parts - usable
        return known

    def _usable_by_one(self, node: NodeRoom, use: _Use) -> float:
        known: float | None = node.cache.get(id(use))
        if known is None:
            known = node.cache[id(use)] = sum(map(use.of_gpu.__getitem__, node.gpus))
        return known

    def _use(self, node: NodeRoom, cpu: int) -> _Use:
        """Return the use of GPUs of the node's model with so much free CPU beside them."""
        key = node.model, bisect_right(self._steps, cpu)
        use = self._uses.get(key)
        if use is None:
            use = self._uses[key] = self._computed(node.model, cpu)
        return use

    def _computed(self, model: str, cpu: int) -> _Use:
        by_part, by_count = [0.0] * (WHOLE + 1), [0.0] * (self._most + 1)
        for request, weight in self._mix:
            if request.cpu <= cpu and (not request.models or model in request.models):
                if request.gpus == 1:
                    by_part[request.part] += weight
                else:
                    by_count[request.gpus] += weight
        of_gpu = [free * weight for free, weight in enumerate(itertools.accumulate(by_part))]
        return _Use(of_gpu, [WHOLE * weight for weight in itertools.accumulate(by_count)])

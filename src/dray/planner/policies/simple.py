"""Policies that look at the free room of one node alone."""

from __future__ import annotations

import random

from dray.planner.policies.interface import HIGHEST, BestFitGpu, FirstGpu, PlacementPolicy, Ties
from dray.planner.policies.rooms import WHOLE, NodeRoom, PodRequest
from dray.scheduling.nodes import scoring

_CPU_UNIT = scoring.LARGEST_CPU
_GPU_UNIT = scoring.LARGEST_DEVICES * WHOLE


class Upstream(FirstGpu):
    """The node with the most free CPU and memory, as kube-scheduler by default."""

    def score(self, node: NodeRoom, request: PodRequest) -> int:
        return scoring.mean_free_portion(
            (
                (node.cpu_capacity, node.cpu - request.cpu),
                (node.memory_capacity, node.memory - request.memory),
            )
        )


class FirstFit(FirstGpu):
    """The first node in the order of the list."""

    def score(self, node: NodeRoom, request: PodRequest) -> int:
        return -node.index


class RandomFit(PlacementPolicy):
    """Any node and any GPU."""

    ties = Ties.DRAWN

    def score(self, node: NodeRoom, request: PodRequest) -> int:
        return 0

    def part_of_gpu(self, node: NodeRoom, request: PodRequest, draw: random.Random) -> int:
        return draw.choice([i for i, free in enumerate(node.gpus) if free >= request.part])


class DotProduct(BestFitGpu):
    """The node whose free room points most away from the request (Tetris, SIGCOMM 2014)."""

    def score(self, node: NodeRoom, request: PodRequest) -> int:
        cpu = (node.cpu / _CPU_UNIT) * (request.cpu / _CPU_UNIT)
        gpu = (node.free_parts / _GPU_UNIT) * (request.parts / _GPU_UNIT)
        return int(HIGHEST * (1 - (cpu + gpu) / 2))


class BestFit(BestFitGpu):
    """The node with the least CPU and GPU left over."""

    def score(self, node: NodeRoom, request: PodRequest) -> int:
        cpu = (node.cpu - request.cpu) / _CPU_UNIT
        gpu = (node.free_parts - request.parts) / _GPU_UNIT
        return int(scoring.least_left_over(cpu, gpu))


class Clustering(BestFitGpu):
    """Nodes with pods of the same kind alone, then with that kind among others, then empty ones."""

    def score(self, node: NodeRoom, request: PodRequest) -> int:
        if not request.gpus:
            return 0
        quarter = HIGHEST // 4
        fullness = quarter * (_GPU_UNIT - node.free_parts) // _GPU_UNIT
        if node.kinds[request.kind]:
            return fullness + quarter * (3 if len(node.kinds) == 1 else 2)
        return fullness + (0 if node.kinds else quarter)


class Packing(BestFitGpu):
    """Shared GPUs first, then free GPUs of used nodes, then free nodes."""

    def score(self, node: NodeRoom, request: PodRequest) -> int:
        if not request.gpus:
            return 0
        if node.whole == len(node.gpus):
            return max(HIGHEST // 3 - node.whole, node.whole)
        left = min((free for free in node.gpus if free >= request.part), default=WHOLE)
        if left == WHOLE:
            return max(HIGHEST // 2 - request.gpus, HIGHEST // 3)
        return max(HIGHEST - left * HIGHEST // WHOLE // 10, HIGHEST // 2)

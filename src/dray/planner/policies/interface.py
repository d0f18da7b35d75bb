"""The interface of policies, and the choices of a GPU that several of them share."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

from dray.planner.policies import rooms
from dray.planner.policies.rooms import NodeRoom, PodRequest

HIGHEST = 100
"""The highest score, as in kube-scheduler."""


class Ties(Enum):
    """The choice between several nodes with the highest score."""

    LISTED = "the first in the list of nodes"
    SHUFFLED = "the first in an order of the nodes that the seed decides"
    DRAWN = "any, drawn again for each pod"


class PlacementPolicy(ABC):
    """Chooses a node by its score, and the GPUs there. It is asked only where the pod fits."""

    ties: ClassVar[Ties] = Ties.SHUFFLED

    @abstractmethod
    def score(self, node: NodeRoom, request: PodRequest) -> int:
        """Return how good the node is for the pod; the highest wins."""

    @abstractmethod
    def part_of_gpu(self, node: NodeRoom, request: PodRequest, draw: random.Random) -> int:
        """Return the GPU of which a pod gets a part."""

    def gpus(self, node: NodeRoom, request: PodRequest, draw: random.Random) -> Sequence[int]:
        """Return the GPUs that a pod gets."""
        if request.is_fraction:
            return (self.part_of_gpu(node, request, draw),)
        return rooms.first_whole(node.gpus, request.gpus)


class BestFitGpu(PlacementPolicy):
    """A policy that takes the GPU with the least room of those where a part fits."""

    def part_of_gpu(self, node: NodeRoom, request: PodRequest, draw: random.Random) -> int:
        fitting = (index for index, free in enumerate(node.gpus) if free >= request.part)
        return min(fitting, key=node.gpus.__getitem__)


class FirstGpu(PlacementPolicy):
    """A policy that takes the first GPU where a part fits, as kube-scheduler's allocator does."""

    ties = Ties.LISTED

    def part_of_gpu(self, node: NodeRoom, request: PodRequest, draw: random.Random) -> int:
        return next(index for index, free in enumerate(node.gpus) if free >= request.part)

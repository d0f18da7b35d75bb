"""The policies by their names on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dray.planner.policies import fragmentation, simple
from dray.planner.policies.interface import PlacementPolicy
from dray.planner.policies.rooms import PodRequest

Requests = Mapping[PodRequest, int]
"""The requests of all pods, with the number of pods."""

POLICIES: Mapping[str, Callable[[Requests], PlacementPolicy]] = {
    "upstream": lambda _: simple.Upstream(),
    "first-fit": lambda _: simple.FirstFit(),
    "random": lambda _: simple.RandomFit(),
    "dot-product": lambda _: simple.DotProduct(),
    "clustering": lambda _: simple.Clustering(),
    "packing": lambda _: simple.Packing(),
    "best-fit": lambda _: simple.BestFit(),
    "fgd": lambda requests: fragmentation.FragmentationGradientDescent(
        fragmentation.mix_of(requests)
    ),
}
"""Makes each policy for pods with these requests."""

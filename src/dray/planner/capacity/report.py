"""The capacity that a cluster has left: what fits, what is stranded, and its cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.api.types.dra import DeviceClass
from dray.planner.capacity import cards, pod_capacity, shapes, stranded
from dray.planner.capacity.cards import Card
from dray.planner.capacity.pod_capacity import PodCapacity
from dray.planner.capacity.stranded import StrandedDevices
from dray.planner.cluster_model import ClusterModel
from dray.scheduling import pod_copies
from dray.scheduling.pod_copies import PodCopies


class CountedPod(NamedTuple):
    """A pod whose copies are counted."""

    name: str
    copies: PodCopies
    refusal: str = ""
    """Why the API server would refuse it; empty if not."""


class CapacityReport(NamedTuple):
    """The capacity that a cluster has left."""

    capacities: Sequence[PodCapacity]
    stranded: Sequence[StrandedDevices]
    cards: Sequence[Card]
    shapes: int
    """The number of different shapes of the pods that use devices."""
    waiting: int
    """Pods that wait for a node; they are not counted with."""


def of_classes(cluster: ClusterModel) -> CapacityReport:
    """Return what is left, with how many pods fit that ask for one device of each class."""
    classes = sorted(item.metadata.name for item in cluster.of(DeviceClass))
    return of_pods(cluster, [CountedPod(name, pod_copies.of_class(name)) for name in classes])


def of_pods(cluster: ClusterModel, wanted: Sequence[CountedPod]) -> CapacityReport:
    """Return what is left, with how many copies of some pods fit, each of them for itself."""
    state = cluster.state()
    in_use = shapes.in_use(cluster)
    return CapacityReport(
        [
            PodCapacity(item.name, 0, (), message=item.refusal)
            if item.refusal
            else pod_capacity.capacity_of(item.name, item.copies, cluster, state)
            for item in wanted
        ],
        stranded.find(state, in_use),
        list(cards.cards_of(state.inventory)),
        len(in_use),
        sum(state.is_pending(pod) for pod in state.pods),
    )

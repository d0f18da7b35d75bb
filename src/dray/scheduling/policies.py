"""Policies of the scheduler: the score of nodes, and the order in which devices are tried.

A policy decides nothing else: where a pod can run and which devices it may get is the same with
all of them. Without one, both are kube-scheduler's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dray.allocator.fragmentation import mix, shapes
from dray.allocator.fragmentation.gradient import Fragmentation
from dray.allocator.search import device_order
from dray.allocator.search.device_order import Order
from dray.scheduling.claims import extended_resources
from dray.scheduling.claims.pod_demand import PodDemand
from dray.scheduling.nodes import scoring
from dray.scheduling.nodes.node_fit import NodeState
from dray.scheduling.nodes.pod_requirements import PodRequirements
from dray.scheduling.nodes.scoring import HIGHEST, Rate
from dray.scheduling.state import SchedulingState

__all__ = ["NAMES", "SchedulingPolicy", "policy"]

_TIE = 1e-3
"""The weight of what decides between nodes with equal scores."""


class SchedulingPolicy:
    """The policy of kube-scheduler, and what other policies have in common."""

    order: Order | None = None
    """The order of devices; None for upstream's."""

    def version(self) -> int:
        """Return a number that is another one when nodes have other scores than before."""
        return 0

    def rate(self, demand: PodDemand) -> Rate:
        """Return the score of nodes for a pod."""
        return scoring.by_default


class _Spread(SchedulingPolicy):
    """Nodes and devices of which the least is in use."""

    order = staticmethod(device_order.spread)

    def __init__(self, state: SchedulingState) -> None:
        self._inventory = state.inventory

    def rate(self, demand: PodDemand) -> Rate:
        return lambda node, requirements: (
            scoring.by_default(node, requirements)
            + (HIGHEST - scoring.devices_in_use(self._inventory, node))
        )


class _Pack(SchedulingPolicy):
    """Nodes of which the most is in use."""

    def __init__(self, state: SchedulingState, order: Order) -> None:
        self._inventory, self.order = state.inventory, order

    def rate(self, demand: PodDemand) -> Rate:
        return lambda node, requirements: (
            scoring.preference(node, requirements)
            + scoring.most_allocated(node, requirements)
            + scoring.devices_in_use(self._inventory, node)
        )


class _BestFit(SchedulingPolicy):
    """The node with the least CPU and devices left over, the smallest device that fits."""

    order: Order | None = staticmethod(device_order.best_fit)

    def __init__(self, state: SchedulingState) -> None:
        self._fragmentation = Fragmentation(state.inventory)

    def rate(self, demand: PodDemand) -> Rate:
        return lambda node, requirements: (
            scoring.preference(node, requirements) + self._least_left_over(node, requirements)
        )

    def _least_left_over(self, node: NodeState, requirements: PodRequirements) -> float:
        # What the pod takes of the devices is the same everywhere, so free ones can be compared.
        return scoring.least_left_over(
            scoring.cpu_left(node, requirements) / scoring.LARGEST_CPU,
            self._fragmentation.free(node.name) / scoring.LARGEST_DEVICES,
        )


class _GradientDescent(_BestFit):
    """The node and devices where fragmentation grows least, for the claims of the cluster.

    Between nodes where it grows equally, the best fit.
    """

    def __init__(self, state: SchedulingState) -> None:
        super().__init__(state)
        self._state, self._shapes = state, state.claims.shapes()
        self._version = -1
        self.order = self._fragmentation.order

    def version(self) -> int:
        if self._version != self._shapes.version:
            self._version = self._shapes.version
            self._fragmentation.set_mix(shapes.mix_of(self._shapes.rounded))
        return self._version

    def rate(self, demand: PodDemand) -> Rate:
        self.version()
        claims = demand.claims
        if demand.extended:
            of_pod = extended_resources.claim_for(demand.pod, demand.extended, self._state.classes)
            claims.append(of_pod.claim)
        found = [shape for claim in claims if (shape := shapes.shape_of(claim)) is not None]
        if not found:
            return scoring.by_default

        def rate(node: NodeState, requirements: PodRequirements) -> float:
            growth = self._fragmentation.growth(found, node.name)
            return (
                scoring.preference(node, requirements)
                + mix.score(growth, HIGHEST)
                + _TIE * self._least_left_over(node, requirements)
            )

        return rate


_BY_NAME: Mapping[str, Callable[[SchedulingState], SchedulingPolicy]] = {
    "best-fit": _BestFit,
    "fgd": _GradientDescent,
    "least-stranding": lambda state: _Pack(state, device_order.least_stranding),
    "pack": lambda state: _Pack(state, device_order.pack),
    "spread": _Spread,
}

NAMES = tuple(_BY_NAME)
"""The names of the policies, sorted."""


def policy(name: str | None, state: SchedulingState) -> SchedulingPolicy:
    """Return a policy for decisions about a state; that of kube-scheduler for None."""
    return SchedulingPolicy() if name is None else _BY_NAME[name](state)

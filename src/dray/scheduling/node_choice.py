"""The node for one pod, with the devices that the pod gets there."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Hashable, Sequence
from typing import NamedTuple

from dray.scheduling import sampling, unschedulable, wake_events
from dray.scheduling.claims import device_fit
from dray.scheduling.claims.assignments import NodeAssignment, NodeFit
from dray.scheduling.claims.device_fit import DeviceMatcher
from dray.scheduling.claims.pod_demand import PodDemand
from dray.scheduling.nodes import node_fit, scoring
from dray.scheduling.nodes.node_fit import NodeState, Reasons
from dray.scheduling.nodes.scoring import Ranking
from dray.scheduling.policies import SchedulingPolicy
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import SearchOutcome, Step, Steps
from dray.scheduling.unschedulable import Unschedulable

_WAKE_EVENTS_OF_ERRORS = frozenset(
    # A pod that takes a device on which a selector fails, or the room of its node, helps as well.
    {wake_events.DEVICES, wake_events.CLASSES, wake_events.NODES, wake_events.POD_PLACED}
)
_RANKED_NODES_LIMIT = 200_000
"""Nodes in all cached rankings together, which bounds their memory."""


class NoNode(NamedTuple):
    """No node fits. `ranking` has the reasons per node, for preemption."""

    result: Unschedulable
    ranking: Ranking


class _Attempt(NamedTuple):
    """One search of a node for a pod."""

    ranking: Ranking
    demand: PodDemand
    skips_errors: bool = False
    """Whether nodes on which the search for devices fails are passed over."""


class NodeChooser:
    """Chooses nodes. Caches a ranking of nodes for every signature of a demand."""

    def __init__(
        self, state: SchedulingState, devices: DeviceMatcher, policy: SchedulingPolicy
    ) -> None:
        self._state, self._devices, self._policy = state, devices, policy
        self._rankings: OrderedDict[Hashable, Ranking] = OrderedDict()
        self._versions = -1, -1

    def choose(self, demand: PodDemand) -> Steps[NodeAssignment | NoNode]:
        """Return the best node, or why no node fits."""
        ranking = self._ranking(demand)
        yield from ranking.update()
        try:
            attempt = yield from self._attempt(_Attempt(ranking, demand))
            if scoring.have_alternatives(demand.claims):
                assignment = yield from self._best_alternatives(attempt)
            else:
                assignment = yield from self._first_fit(attempt)
        except device_fit.SearchFailed as failed:
            return NoNode(_search_failed(failed), ranking)
        return assignment or NoNode(self._no_fit(ranking, demand), ranking)

    def all_fits(
        self, demand: PodDemand
    ) -> Generator[Step | NodeAssignment, SearchOutcome | None, None]:
        """Yield an assignment for every node that fits, the best first, between the steps.

        Each node is checked when it is its turn, so the caller may reserve assignments meanwhile.
        """
        ranking = self._new_ranking(demand, self._named(demand), self._affinity(demand))
        yield from ranking.update()
        try:
            attempt = yield from self._attempt(_Attempt(ranking, demand))
            while (state := ranking.take()) is not None:
                fit = yield from self._fit_on(attempt, state)
                if isinstance(fit, NodeFit):
                    yield NodeAssignment(demand.pod, state.name, fit)
                yield None
        except device_fit.SearchFailed:
            return

    def possible_nodes(
        self, demand: PodDemand, *, beside_any_pods: bool, with_any_devices: bool
    ) -> Steps[list[NodeState]]:
        """Return all nodes that fit, the best first.

        With `beside_any_pods`, affinity to other pods does not matter; with `with_any_devices`,
        neither do the devices that the pod would get first.
        """
        affinity = None if beside_any_pods else self._affinity(demand)
        ranking = self._new_ranking(demand, self._named(demand), affinity)
        yield from ranking.update()
        found: list[NodeState] = []
        try:
            attempt = yield from self._attempt(_Attempt(ranking, demand))
            while (state := ranking.take()) is not None:
                if with_any_devices:
                    fits = self._devices.are_usable(demand, state)
                else:
                    fits = isinstance((yield from self._fit_on(attempt, state)), NodeFit)
                if fits:
                    found.append(state)
                yield None
        except device_fit.SearchFailed:
            # As in `all_fits`: an error ends the search, and what fits until then fits.
            return found
        return found

    def placement_key(self, demand: PodDemand) -> Hashable:
        """Return a key that is equal for pods that fit on the same nodes."""
        if self._affinity(demand) is not None:
            return demand.pod.metadata.uid
        return demand.signature(), demand.shared_claims()

    def _ranking(self, demand: PodDemand) -> Ranking:
        named, affinity = self._named(demand), self._affinity(demand)
        # Such rankings depend on more than the signature, and mostly have few nodes.
        if named is not None or demand.allocated or affinity is not None:
            return self._new_ranking(demand, named, affinity)
        versions = self._state.inventory.epoch, self._policy.version()
        if self._versions != versions:
            self._rankings.clear()
            self._versions = versions
        signature = demand.signature()
        ranking = self._rankings.get(signature)
        if ranking is None:
            ranking = self._rankings[signature] = self._new_ranking(demand)
            while len(self._rankings) * len(self._state.nodes) > _RANKED_NODES_LIMIT:
                self._rankings.popitem(last=False)
        else:
            self._rankings.move_to_end(signature)
        return ranking

    def _attempt(self, attempt: _Attempt) -> Steps[_Attempt]:
        """Return the attempt if no selector fails, else one that passes over such nodes.

        Raises SearchFailed if a selector fails on any node that kube-scheduler looks at, whatever
        the order of the nodes (docs/decisions/014-selectors-that-fail.md).
        """
        ranking = attempt.ranking
        if ranking.selectors is None:
            ranking.selectors = self._devices.selectors_for(attempt.demand)
        nodes = yield from self._state.inventory.selector_failures.nodes(ranking.selectors)
        if not nodes:
            return attempt
        for state in (yield from self._nodes_to_ask(attempt, nodes)):
            failed = yield from self._devices.failure_on(attempt.demand, state)
            if failed is not None:
                skipping = attempt._replace(skips_errors=True)
                if (yield from self._has_more_fits_than_sampled(skipping)):
                    return skipping
                raise failed
            yield None
        return attempt

    def _nodes_to_ask(self, attempt: _Attempt, nodes: int) -> Steps[Sequence[NodeState]]:
        """Return which of some nodes pass all other filters."""
        ranking, demand = attempt.ranking, attempt.demand
        if demand.allocated:
            # As upstream: devices are searched for the other claims even where an allocated one
            # cannot be used. This ranking lacks such nodes.
            named = self._existing(demand.requirements.names)
            ranking = self._new_ranking(demand, named, self._affinity(demand))
            yield from ranking.update()
        return ranking.candidates(nodes)

    def _has_more_fits_than_sampled(self, attempt: _Attempt) -> Steps[bool]:
        """Return whether kube-scheduler could find enough nodes before it has seen all."""
        named = self._existing(attempt.demand.requirements.names)
        enough = sampling.nodes_to_find(len(self._state.nodes if named is None else named))
        candidates = attempt.ranking.candidates()
        # Without this look at their number, every decision would search all nodes.
        if len(candidates) <= enough:
            return False
        fits = 0
        for state in candidates:
            fits += isinstance((yield from self._fit_on(attempt, state)), NodeFit)
            if fits > enough:
                return True
            yield None
        return False

    def _fit_on(self, attempt: _Attempt, state: NodeState) -> Steps[NodeFit | Reasons | None]:
        """Return the fit or why there is none; None if the node is passed over."""
        try:
            return (yield from self._devices.fit_on(attempt.demand, state))
        except device_fit.SearchFailed:
            if not attempt.skips_errors:
                raise
            return None

    def _first_fit(self, attempt: _Attempt) -> Steps[NodeAssignment | None]:
        # Nodes are in order of their score, and devices do not change it: the first fit is the
        # best one. A node without a fit leaves the ranking until something changes there.
        ranking = attempt.ranking
        skipped: list[NodeState] = []
        try:
            while (state := ranking.best()) is not None:
                fit = yield from self._fit_on(attempt, state)
                if isinstance(fit, NodeFit):
                    return NodeAssignment(attempt.demand.pod, state.name, fit)
                if fit is None:
                    ranking.take()
                    skipped.append(state)
                else:
                    ranking.reject(state, fit)
                yield None
            return None
        finally:
            ranking.put_back(skipped)

    def _best_alternatives(self, attempt: _Attempt) -> Steps[NodeAssignment | None]:
        """Compare nodes by the alternatives they offer, as well as by everything else."""
        ranking = attempt.ranking
        enough = sampling.nodes_to_find(len(self._state.nodes))
        taken: list[NodeState] = []
        fits: list[tuple[NodeState, NodeFit]] = []
        try:
            while len(fits) < enough and (state := ranking.take()) is not None:
                taken.append(state)
                fit = yield from self._fit_on(attempt, state)
                if isinstance(fit, NodeFit):
                    fits.append((state, fit))
                elif fit is not None:
                    taken.pop()
                    ranking.reject(state, fit)
                yield None
        finally:
            ranking.put_back(taken)
        return _best(ranking, attempt.demand, fits)

    def _named(self, demand: PodDemand) -> list[NodeState] | None:
        """Return the only possible nodes, if the pod or its claims name them."""
        names = demand.requirements.names
        of_claims = demand.named_nodes()
        if of_claims is not None:
            names = of_claims if names is None else names & of_claims
        return self._existing(names)

    def _existing(self, names: frozenset[str] | None) -> list[NodeState] | None:
        if names is None:
            return None
        return [state for name in names if (state := self._state.nodes.get(name)) is not None]

    def _affinity(self, demand: PodDemand) -> Callable[[NodeState], Reasons] | None:
        return self._state.affinity.checks_for(demand.pod, demand.requirements)

    def _new_ranking(
        self,
        demand: PodDemand,
        among: Sequence[NodeState] | None = None,
        affinity: Callable[[NodeState], Reasons] | None = None,
    ) -> Ranking:
        return Ranking(
            self._state.nodes,
            self._state.inventory,
            demand.requirements,
            self._policy.rate(demand),
            demand.extended.__contains__,
            among,
            affinity,
        )

    def _no_fit(self, ranking: Ranking, demand: PodDemand) -> Unschedulable:
        reasons = ranking.reasons()
        others = len(self._state.nodes) - ranking.rejected_count()
        if others > 0 and (demand.requirements.names is not None or demand.allocated):
            # Nodes that are not named were never checked; their reason is that they are not.
            is_named_by_pod = bool(demand.requirements.names)
            reason = node_fit.NOT_NAMED if is_named_by_pod else device_fit.NOT_AVAILABLE
            reasons += Counter({reason: others})
        states = list(self._state.nodes) if demand.allocated else []
        return unschedulable.no_fit(
            reasons,
            len(self._state.nodes),
            demand.claims,
            self._devices.unusable_claims(demand, states),
            demand.shared_claims(),
        )


def _best(
    ranking: Ranking, demand: PodDemand, fits: Sequence[tuple[NodeState, NodeFit]]
) -> NodeAssignment | None:
    """Return the fit with the highest score; alternatives are scored relative to the best."""
    if not fits:
        return None
    scores = [scoring.alternatives(fit.allocations()) for _, fit in fits]
    highest = max(scores) or 1
    totals = [
        ranking.score(state) + scoring.ALTERNATIVES_WEIGHT * (score * scoring.HIGHEST // highest)
        for (state, _), score in zip(fits, scores, strict=True)
    ]
    state, fit = fits[totals.index(max(totals))]
    return NodeAssignment(demand.pod, state.name, fit)


def _search_failed(failed: device_fit.SearchFailed) -> Unschedulable:
    return Unschedulable(
        error=f'running "DynamicResources" filter plugin: {failed}',
        wake_events=_WAKE_EVENTS_OF_ERRORS,
        is_retried=failed.is_retriable,
    )

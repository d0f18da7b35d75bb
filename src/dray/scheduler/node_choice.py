"""Finds the node for one pod, with the devices it gets there."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Sequence

from dray.scheduler import queue, unschedulable
from dray.scheduler.binder import NodeAssignment
from dray.scheduler.claims import device_fit
from dray.scheduler.claims.device_fit import DeviceMatcher, NodeFit, PodDemand
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduler.unschedulable import Unschedulable
from dray.scheduling.nodes import node_fit, scoring
from dray.scheduling.nodes.node_fit import NodeState, Reasons
from dray.scheduling.nodes.scoring import Ranking, Rate

TURN_SECONDS = 0.005
"""How long to think before the rest of the process gets a turn."""
_RANKED_NODES_LIMIT = 200_000


class NodeChooser:
    """Remembers, for each question, which nodes may still be an answer."""

    def __init__(self, state: SchedulerState, finder: DeviceMatcher, rate: Rate) -> None:
        self._state, self._devices, self._rate = state, finder, rate
        self._rankings: OrderedDict[Hashable, Ranking] = OrderedDict()
        self._epoch = -1
        self._turn_began = 0.0
        self.latest: Ranking | None = None
        """What was found out about nodes for the last pod."""

    async def choose(
        self, demand: PodDemand, avoided: frozenset[str] = frozenset()
    ) -> NodeAssignment | Unschedulable:
        """The best node, or why there is none. `avoided` are kept for more important pods."""
        ranking = self.latest = self._ranking(demand)
        for _ in ranking.catch_up():
            await self.yield_to_loop()
        try:
            if scoring.have_alternatives(demand.claims):
                found = await self._best_alternatives(ranking, demand, avoided)
            else:
                found = await self._first_fit(ranking, demand, avoided)
        except device_fit.SearchFailed as failed:
            return _failure(failed)
        return found or self._refusal(ranking, demand)

    async def all_fits(self, demand: PodDemand) -> AsyncIterator[NodeAssignment]:
        """Every node that fits, the best first, as they are when it is their turn."""
        ranking = self._new_ranking(demand, self._named(demand), self._neighbours(demand))
        for _ in ranking.catch_up():
            await self.yield_to_loop()
        while (state := ranking.take()) is not None:
            try:
                answer = await self._devices.ask(demand, state)
            except device_fit.SearchFailed:
                return
            if isinstance(answer, NodeFit):
                yield NodeAssignment(demand.pod, state.name, answer)
            await self.yield_to_loop()

    def placement_key(self, demand: PodDemand) -> Hashable:
        """Equal for pods of which one finds a place as soon as the other does."""
        if self._neighbours(demand) is not None:
            return demand.pod.metadata.uid
        return demand.question(), demand.shared_claims()

    def _ranking(self, demand: PodDemand) -> Ranking:
        named, neighbours = self._named(demand), self._neighbours(demand)
        if named is not None or demand.fixed or neighbours is not None:
            return self._new_ranking(demand, named, neighbours)
        if self._epoch != self._state.fleet.epoch:
            self._rankings.clear()
            self._epoch = self._state.fleet.epoch
        question = demand.question()
        ranking = self._rankings.get(question)
        if ranking is None:
            ranking = self._rankings[question] = self._new_ranking(demand)
            while len(self._rankings) * len(self._state.nodes) > _RANKED_NODES_LIMIT:
                self._rankings.popitem(last=False)
        else:
            self._rankings.move_to_end(question)
        return ranking

    async def yield_to_loop(self) -> None:
        """Let others have a turn if ours has lasted long enough."""
        now = time.perf_counter()
        if now - self._turn_began > TURN_SECONDS:
            await asyncio.sleep(0)
            self._turn_began = time.perf_counter()

    async def _first_fit(
        self, ranking: Ranking, demand: PodDemand, avoided: frozenset[str]
    ) -> NodeAssignment | None:
        skipped: list[NodeState] = []
        try:
            while (state := ranking.best()) is not None:
                if state.name in avoided:
                    ranking.take()
                    skipped.append(state)
                    continue
                answer = await self._devices.ask(demand, state)
                if isinstance(answer, NodeFit):
                    return NodeAssignment(demand.pod, state.name, answer)
                ranking.refuse(state, answer)
                await self.yield_to_loop()
            return None
        finally:
            ranking.put_back(skipped)

    async def _best_alternatives(
        self, ranking: Ranking, demand: PodDemand, avoided: frozenset[str]
    ) -> NodeAssignment | None:
        """Compare nodes by the alternatives they offer, as well as by everything else."""
        wanted = scoring.enough_to_compare(len(self._state.nodes))
        looked_at: list[NodeState] = []
        fitting: list[tuple[NodeState, NodeFit]] = []
        try:
            while len(fitting) < wanted and (state := ranking.take()) is not None:
                if state.name not in avoided:
                    answer = await self._devices.ask(demand, state)
                    if not isinstance(answer, NodeFit):
                        ranking.refuse(state, answer)
                        continue
                    fitting.append((state, answer))
                looked_at.append(state)
                await self.yield_to_loop()
        finally:
            ranking.put_back(looked_at)
        return _best(ranking, demand, fitting)

    def _named(self, demand: PodDemand) -> list[NodeState] | None:
        """The only nodes that can be meant, where pod or claims name them."""
        names = demand.wanted.names
        fixed = demand.named_nodes()
        if fixed is not None:
            names = fixed if names is None else names & fixed
        if names is None:
            return None
        return [state for name in names if (state := self._state.nodes.get(name)) is not None]

    def _neighbours(self, demand: PodDemand) -> Callable[[NodeState], Reasons] | None:
        return self._state.neighbours.checks_for(demand.pod, demand.wanted)

    def _new_ranking(
        self,
        demand: PodDemand,
        among: Sequence[NodeState] | None = None,
        neighbours: Callable[[NodeState], Reasons] | None = None,
    ) -> Ranking:
        return Ranking(
            self._state.nodes,
            self._state.fleet,
            demand.wanted,
            self._rate,
            demand.extended.__contains__,
            among,
            neighbours,
        )

    def _refusal(self, ranking: Ranking, demand: PodDemand) -> Unschedulable:
        reasons = ranking.reasons()
        elsewhere = len(self._state.nodes) - sum(1 for _ in ranking.refused())
        if elsewhere > 0 and (demand.wanted.names is not None or demand.fixed):
            not_named = node_fit.NOT_NAMED if demand.wanted.names else device_fit.NOT_AVAILABLE
            reasons += Counter({not_named: elsewhere})
        states = list(self._state.nodes) if demand.fixed else []
        return unschedulable.no_fit(
            reasons,
            len(self._state.nodes),
            demand.claims,
            self._devices.in_the_way(demand, states),
            demand.shared_claims(),
        )


def _best(
    ranking: Ranking, demand: PodDemand, fitting: Sequence[tuple[NodeState, NodeFit]]
) -> NodeAssignment | None:
    """The highest sum of scores; that of alternatives counts relative to the best of them."""
    if not fitting:
        return None
    offered = [scoring.alternatives(answer.chosen()) for _, answer in fitting]
    most = max(offered) or 1
    totals = [
        ranking.score(state) + scoring.ALTERNATIVES_WEIGHT * (score * scoring.HIGHEST // most)
        for (state, _), score in zip(fitting, offered, strict=True)
    ]
    state, answer = fitting[totals.index(max(totals))]
    return NodeAssignment(demand.pod, state.name, answer)


def _failure(failed: device_fit.SearchFailed) -> Unschedulable:
    return Unschedulable(
        error=f'running "DynamicResources" filter plugin: {failed}',
        causes=frozenset({queue.DEVICES, queue.CLASSES, queue.NODES}),
        is_retried=failed.may_pass,
    )

"""Preemption for one pod at a time: the best node and victims, or why none help."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from dray.api.types.pods import Pod
from dray.scheduling.claims import device_fit
from dray.scheduling.claims.assignments import NodeAssignment, NodeFit
from dray.scheduling.claims.device_fit import DeviceMatcher
from dray.scheduling.claims.pod_demand import PodDemand
from dray.scheduling.nodes import node_fit, pod_affinity
from dray.scheduling.nodes.node_fit import NodeState, ReasonKind, Reasons
from dray.scheduling.nodes.scoring import Ranking
from dray.scheduling.preemption import leaving
from dray.scheduling.preemption.candidates import CandidateNode, CandidateReader
from dray.scheduling.preemption.nominations import Nomination, Nominations
from dray.scheduling.preemption.preemptor import Preemptor
from dray.scheduling.preemption.priorities import EvictionCost
from dray.scheduling.preemption.rechecks import Recheck
from dray.scheduling.preemption.simulation import RemovalSimulation
from dray.scheduling.preemption.victim_search import VictimSearch
from dray.scheduling.preemption.victims import Victims, pods_of
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import Steps
from dray.scheduling.unschedulable import NodeRefusal, PreemptionPlan, PreemptionRefusal

NEVER = "Never"
FORBIDDEN = "not eligible due to preemptionPolicy=Never."
VICTIMS_LEAVE = "not eligible due to a terminating pod on the nominated node."
_STEP = 32
"""Nodes to read before the caller may pause."""
FIRST_NODES = 1
"""How many nodes are read before victims are searched for the first time."""
_GROWTH = 4
"""How many times as many nodes are read next if those that were read do not decide."""
_RESOLVABLE_BY_TRIAL = frozenset(
    {
        pod_affinity.ANTI_AFFINITY_MATCHED,
        pod_affinity.EXISTING_ANTI_AFFINITY,
        pod_affinity.SKEW_TOO_HIGH,
    }
)


class Planned(NamedTuple):
    """A plan, and what the pods get without the victims."""

    plan: PreemptionPlan
    assignments: Sequence[NodeAssignment]


class _UnreadNode(NamedTuple):
    """A node that may have victims."""

    bound: tuple[EvictionCost, str]
    """What they cost at least, and the place of the node among equal ones."""
    state: NodeState


class PodPreemptionPlanner:
    """Searches victims for pods that do not fit."""

    def __init__(
        self,
        state: SchedulingState,
        devices: DeviceMatcher,
        victims: Victims,
        nominations: Nominations,
    ) -> None:
        self._state, self._devices = state, devices
        self._victims, self._nominations = victims, nominations

    def refusal(self, demand: PodDemand, now: datetime.datetime) -> Steps[PreemptionRefusal | None]:
        """Return why no pod may be evicted for this one, as kube-scheduler; None if one may.

        While victims of an earlier attempt are there, evicting more would be in vain.
        kube-scheduler asks only whether pods are being deleted on the nominated node, and finds
        none between its decision and the moment when the deletions show.
        """
        pod = demand.pod
        if pod.spec.preemption_policy == NEVER:
            return PreemptionRefusal(FORBIDDEN)
        found = self._nominations.leaving_for(pod.metadata.key)
        if leaving.are_there(found, self._state, now) or (yield from self._restore(demand, now)):
            return PreemptionRefusal(VICTIMS_LEAVE)
        return claim_refusal(Preemptor.of_pod(pod, self._state), self._nominations)

    def _restore(self, demand: PodDemand, now: datetime.datetime) -> Steps[bool]:
        """Nominate the node that an earlier scheduler has nominated, if that still helps."""
        pod = demand.pod
        preemptor = Preemptor.of_pod(pod, self._state)
        node = self._state.nodes.get(pod.status.nominated_node_name)
        if node is None or self._nominations.is_known(preemptor):
            return False
        found = leaving.on_nodes([node.name], preemptor.priority, self._state, now)
        if not (found.pods or found.claims):
            return False
        simulation = self._simulation(demand)
        try:
            simulation.set(found.pods)
            simulation.release(found.claims)
            fit = yield from self._fit_on(demand, node)
        finally:
            simulation.set(())
        if fit is not None:
            assignment = NodeAssignment(pod, node.name, fit)
            self._nominations.add(Nomination(preemptor, [assignment], found))
        return fit is not None

    def next_victim(
        self, demand: PodDemand, now: datetime.datetime, evicted: Collection[str]
    ) -> Steps[Pod | None]:
        """Return a pod that still has to be evicted for a nominated one; None if none has to.

        `evicted` are the uids of pods that are leaving, although the state may not show it yet.
        """
        key = demand.pod.metadata.key
        nomination = self._nominations.of(key)
        node = self._state.nodes.get(nomination.assignments[0].node) if nomination else None
        if node is None:
            return None
        self._victims.refresh(now, self._nominations.evicted_before(key))
        simulation = self._simulation(demand)

        def fits(pods: Collection[Pod]) -> Steps[Sequence[NodeAssignment] | None]:
            simulation.set(pods)
            fit = yield from self._fit_on(demand, node)
            return None if fit is None else [NodeAssignment(demand.pod, node.name, fit)]

        recheck = Recheck(self._state, self._nominations, self._victims, evicted)
        try:
            return (yield from recheck.next_victim(key, fits))
        finally:
            simulation.set(())

    def _simulation(self, demand: PodDemand) -> RemovalSimulation:
        kept = frozenset(claim.used.claim.key for claim in demand.allocated)
        return RemovalSimulation(self._state, kept)

    def nominated_fit(self, demand: PodDemand) -> Steps[NodeAssignment | None]:
        """Return what a pod gets on its nominated node; None if it does not fit or has none."""
        key = demand.pod.metadata.key
        nomination = self._nominations.of(key)
        node = self._state.nodes.get(nomination.assignments[0].node) if nomination else None
        if node is None:
            return None
        with self._nominations.before(key):
            fit = yield from self._fit_on(demand, node)
        return NodeAssignment(demand.pod, node.name, fit) if fit is not None else None

    def plan(
        self, demand: PodDemand, ranking: Ranking, now: datetime.datetime
    ) -> Steps[Planned | PreemptionRefusal]:
        """Return the best node and its victims, or why preemption does not help."""
        self._victims.refresh(now, self._nominations.evicted_before(demand.pod.metadata.key))
        simulation = self._simulation(demand)

        def fits(node: NodeState, victims: Sequence[Pod]) -> Steps[NodeFit | None]:
            simulation.set(victims)
            return (yield from self._fit_on(demand, node))

        reader = CandidateReader(self._state, self._devices, self._victims, demand)
        refused, unread = yield from self._unread(reader, ranking)
        candidates: list[CandidateNode] = []
        size = FIRST_NODES
        while True:
            for number, node in enumerate(unread[:size], 1):
                read = reader.read(node.state)
                refused[NodeRefusal.NOT_ENOUGH if read else NodeRefusal.NO_VICTIMS] += 1
                candidates += read
                if number % _STEP == 0:
                    yield None
            del unread[:size]
            end = unread[0].bound if unread else None
            search = VictimSearch(candidates, self._victims.allowed, fits, end)
            try:
                found = yield from search.run()
            finally:
                simulation.set(())
            if found is not None or not unread:
                break
            # Mostly, the first node has the cheapest victims, and the others need not be read.
            size = len(unread) if search.needs_all else size * _GROWTH
        if found is None:
            return PreemptionRefusal(nodes=dict(refused), is_exhaustive=search.is_exhaustive)
        violated = [budget.key for budget in self._victims.violated(found.victims)]
        name, pods = found.node.name, pods_of(found.victims)
        plan = PreemptionPlan(name, pods, violated, search.is_exhaustive)
        return Planned(plan, [NodeAssignment(demand.pod, name, found.fit)])

    def _unread(
        self, reader: CandidateReader, ranking: Ranking
    ) -> Steps[tuple[Counter[NodeRefusal], list[_UnreadNode]]]:
        """Return the nodes that may have victims, the cheapest first, and why others have none."""
        refused: Counter[NodeRefusal] = Counter()
        unread: list[_UnreadNode] = []
        for number, (state, reasons) in enumerate(list(ranking.rejected()), 1):
            if not _may_be_resolved(reasons):
                refused[NodeRefusal.NOT_RESOLVABLE] += 1
            elif (least := reader.least_cost(state)) is None:
                refused[NodeRefusal.NO_VICTIMS] += 1
            else:
                unread.append(_UnreadNode((least, state.order), state))
            if number % _STEP == 0:
                yield None
        unread.sort(key=lambda node: node.bound)
        return refused, unread

    def _fit_on(self, demand: PodDemand, node: NodeState) -> Steps[NodeFit | None]:
        requirements = demand.requirements
        if node_fit.reasons_against(node, requirements, demand.extended.__contains__):
            return None
        affinity = self._state.affinity.checks_for(demand.pod, requirements)
        if affinity is not None and affinity(node):
            return None
        try:
            fit = yield from self._devices.fit_on(demand, node)
        except device_fit.SearchFailed:
            return None
        return fit if isinstance(fit, NodeFit) else None


def _may_be_resolved(reasons: Reasons) -> bool:
    """Return whether fewer pods could remove all of the reasons against a node."""
    return all(
        reason.is_resolvable or reason.kind is ReasonKind.DEVICES or reason in _RESOLVABLE_BY_TRIAL
        for reason in reasons
    )


def claim_refusal(preemptor: Preemptor, nominations: Nominations) -> PreemptionRefusal | None:
    """Return that another preemptor is about to get the devices of a claim that both use."""
    keeper = nominations.keeper_of(preemptor)
    if keeper is None:
        return None
    return PreemptionRefusal(f"not eligible due to a claim that is being freed for {keeper}.")

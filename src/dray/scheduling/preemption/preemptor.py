"""Preemption for one pod at a time: the best node and victims, or why none help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from dray.api.ids import ObjectKey
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
from dray.scheduling.preemption.nominations import Nominations
from dray.scheduling.preemption.simulation import RemovalSimulation
from dray.scheduling.preemption.victim_search import FoundVictims, VictimSearch
from dray.scheduling.preemption.victims import Victim, Victims
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import Steps
from dray.scheduling.unschedulable import NodeRefusal, PreemptionPlan, PreemptionRefusal

NEVER = "Never"
VICTIMS_LEAVE = "not eligible due to a terminating pod on the nominated node."
_STEP = 32
"""Nodes to read before the caller may pause."""
_RESOLVABLE_BY_TRIAL = frozenset(
    {
        pod_affinity.ANTI_AFFINITY_MATCHED,
        pod_affinity.EXISTING_ANTI_AFFINITY,
        pod_affinity.SKEW_TOO_HIGH,
    }
)


class PlannedFit(NamedTuple):
    """A plan, and what the pod gets on the node without the victims."""

    plan: PreemptionPlan
    fit: NodeFit


class Preemption:
    """Searches victims for pods that do not fit."""

    def __init__(self, state: SchedulingState, devices: DeviceMatcher) -> None:
        self._state, self._devices = state, devices
        self._victims = Victims(state)
        self.nominations = Nominations(state)

    def refusal(self, demand: PodDemand) -> Steps[PreemptionRefusal | None]:
        """Return why no pod may be evicted for this one, as kube-scheduler; None if one may.

        While victims of an earlier attempt are there, evicting more would be in vain.
        kube-scheduler asks only whether pods are being deleted on the nominated node, and finds
        none between its decision and the moment when the deletions show.
        """
        pod = demand.pod
        if pod.spec.preemption_policy == NEVER:
            return PreemptionRefusal("not eligible due to preemptionPolicy=Never.")
        waiting_for = self.nominations.leaving_for(pod.metadata.key)
        if leaving.are_there(waiting_for, self._state) or (yield from self._restore(demand)):
            return PreemptionRefusal(VICTIMS_LEAVE)
        return None

    def _restore(self, demand: PodDemand) -> Steps[bool]:
        """Nominate the node that an earlier scheduler has nominated, if that still helps."""
        pod = demand.pod
        node = self._state.nodes.get(pod.status.nominated_node_name)
        if node is None or self.nominations.is_known(pod):
            return False
        found = leaving.on_node(node.name, pod, self._state)
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
            self.nominations.add(pod, node.name, fit, found)
        return fit is not None

    def next_victim(self, demand: PodDemand, evicted: Collection[str]) -> Steps[Pod | None]:
        """Return a pod that still has to be evicted for a nominated one; None if none has to.

        `evicted` are the uids of pods that are leaving, although the state may not show it yet.
        Victims that can be spared by now are left out of the nomination; it is dropped if the pod
        does not fit any more without all of them.
        """
        key, nominations = demand.pod.metadata.key, self.nominations
        node = self._state.nodes.get(nominations.node_of(key))
        if node is None:
            return None
        simulation = self._simulation(demand)
        with nominations.before(key):
            try:
                simulation.set(nominations.leaving_for(key).pods)
                fit = yield from self._fit_on(demand, node)
                if fit is None:
                    nominations.drop(key)
                    return None
                while True:
                    found = nominations.leaving_for(key)
                    nominations.revise(key, fit, found)
                    victim = self._to_evict(found.pods, evicted)
                    if victim is None:
                        return None
                    uid = victim.metadata.uid
                    others = [other for other in found.pods if other.metadata.uid != uid]
                    simulation.set(others)
                    fit = yield from self._fit_on(demand, node)
                    if fit is None:
                        return victim
                    nominations.revise(key, fit, found._replace(pods=others))
            finally:
                simulation.set(())

    def _to_evict(self, victims: Iterable[Pod], evicted: Collection[str]) -> Pod | None:
        for victim in victims:
            known = self._state.pods.get(victim.metadata.key)
            if (
                known is not None
                and known.metadata.uid == victim.metadata.uid
                and known.metadata.uid not in evicted
                and known.metadata.deletion_timestamp is None
            ):
                return known
        return None

    def _simulation(self, demand: PodDemand) -> RemovalSimulation:
        kept = frozenset(claim.used.claim.key for claim in demand.allocated)
        return RemovalSimulation(self._state, kept)

    def nominated_fit(self, demand: PodDemand) -> Steps[NodeAssignment | None]:
        """Return what a pod gets on its nominated node; None if it does not fit or has none."""
        key = demand.pod.metadata.key
        node = self._state.nodes.get(self.nominations.node_of(key))
        if node is None:
            return None
        with self.nominations.before(key):
            fit = yield from self._fit_on(demand, node)
        return NodeAssignment(demand.pod, node.name, fit) if fit is not None else None

    def plan(self, demand: PodDemand, ranking: Ranking) -> Steps[PlannedFit | PreemptionRefusal]:
        """Return the best node and its victims, or why preemption does not help."""
        self._victims.refresh()
        candidates, refused = yield from self._candidates(demand, ranking)
        allowed = [budget.allowed for budget in self._victims.budgets]
        simulation = self._simulation(demand)

        def fits(node: NodeState, victims: Sequence[Pod]) -> Steps[NodeFit | None]:
            simulation.set(victims)
            return (yield from self._fit_on(demand, node))

        search = VictimSearch(candidates, allowed, fits)
        try:
            found = yield from search.run()
        finally:
            simulation.set(())
        if found is not None:
            return PlannedFit(self._plan(found, search.is_exhaustive), found.fit)
        return PreemptionRefusal(nodes=dict(refused), is_exhaustive=search.is_exhaustive)

    def _candidates(
        self, demand: PodDemand, ranking: Ranking
    ) -> Steps[tuple[list[CandidateNode], Counter[NodeRefusal]]]:
        reader = CandidateReader(self._state, self._devices, self._victims, demand)
        candidates: list[CandidateNode] = []
        refused: Counter[NodeRefusal] = Counter()
        for number, (state, reasons) in enumerate(list(ranking.rejected()), 1):
            if not _may_be_resolved(reasons):
                refused[NodeRefusal.NOT_RESOLVABLE] += 1
            elif found := reader.read(state):
                candidates += found
                refused[NodeRefusal.NOT_ENOUGH] += 1
            else:
                refused[NodeRefusal.NO_VICTIMS] += 1
            if number % _STEP == 0:
                yield None
        return candidates, refused

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

    def _plan(self, found: FoundVictims, is_exhaustive: bool) -> PreemptionPlan:
        pods = [victim.pod for victim in found.victims]
        violated = self._violated(found.victims)
        return PreemptionPlan(found.node.name, pods, violated, is_exhaustive)

    def _violated(self, victims: Sequence[Victim]) -> list[ObjectKey]:
        """Return the budgets of which more pods are evicted than they allow."""
        used = Counter(
            number for victim in victims if not victim.is_leaving for number in victim.budgets
        )
        budgets = self._victims.budgets
        return [
            ObjectKey(budgets[number].namespace, budgets[number].name)
            for number, pods in sorted(used.items())
            if pods > max(budgets[number].allowed, 0)
        ]


def _may_be_resolved(reasons: Reasons) -> bool:
    """Return whether fewer pods could remove all of the reasons against a node."""
    return all(
        reason.is_resolvable or reason.kind is ReasonKind.DEVICES or reason in _RESOLVABLE_BY_TRIAL
        for reason in reasons
    )

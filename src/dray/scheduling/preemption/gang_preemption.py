"""Preemption for a gang: the victims without which all of its pods fit together."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence

from dray.api.semantics import pod_claims
from dray.api.types.pods import Pod
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.preemption import leaving
from dray.scheduling.preemption.gang_victims import GangVictimSearch, PlacementTrial
from dray.scheduling.preemption.nominations import Nomination, Nominations
from dray.scheduling.preemption.pod_preemption import (
    FORBIDDEN,
    NEVER,
    VICTIMS_LEAVE,
    Planned,
    claim_refusal,
)
from dray.scheduling.preemption.preemptor import Preemptor, needs_others
from dray.scheduling.preemption.rechecks import Recheck
from dray.scheduling.preemption.simulation import RemovalSimulation
from dray.scheduling.preemption.victims import Victims, pods_of
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import Steps
from dray.scheduling.unschedulable import NodeRefusal, PreemptionPlan, PreemptionRefusal


class GangPreemptionPlanner:
    """Searches victims for gangs that do not fit. The trial of a gang holds nothing before."""

    def __init__(self, state: SchedulingState, victims: Victims, nominations: Nominations) -> None:
        self._state, self._victims, self._nominations = state, victims, nominations

    def refusal(
        self, gang: Preemptor, trial: PlacementTrial, now: datetime.datetime
    ) -> Steps[PreemptionRefusal | None]:
        """Return why no pods may be evicted for a gang now; None if they may."""
        # As kube-scheduler without PodGroupPreemptionPolicy, with which dray has no such field.
        if any(pod.spec.preemption_policy == NEVER for pod in gang.pods):
            return PreemptionRefusal(FORBIDDEN)
        found = self._nominations.leaving_for(gang.key)
        is_waiting = leaving.are_there(found, self._state, now)
        if is_waiting or (yield from self._restore(gang, trial, now)):
            return PreemptionRefusal(VICTIMS_LEAVE)
        return claim_refusal(gang, self._nominations)

    def _restore(
        self, gang: Preemptor, trial: PlacementTrial, now: datetime.datetime
    ) -> Steps[bool]:
        """Nominate the nodes that an earlier scheduler has nominated, if that still helps."""
        names = {pod.status.nominated_node_name for pod in gang.pods} - {""}
        if not names or self._nominations.is_known(gang):
            return False
        found = leaving.on_nodes(sorted(names), gang.priority, self._state, now)
        if not (found.pods or found.claims):
            return False
        simulation = self._simulation(gang)
        try:
            simulation.set(found.pods)
            simulation.release(found.claims)
            assignments = yield from _placed(trial)
        finally:
            simulation.set(())
        if assignments is not None:
            self._nominations.add(Nomination(gang, assignments, found))
        return assignments is not None

    def next_victim(
        self,
        gang: Preemptor,
        trial: PlacementTrial,
        now: datetime.datetime,
        evicted: Collection[str],
    ) -> Steps[Pod | None]:
        """Return a pod that still has to be evicted for a nominated gang; None if none has to.

        `evicted` are the uids of pods that are leaving, although the state may not show it yet.
        """
        self._victims.refresh(now, self._nominations.evicted_before(gang.key))
        simulation = self._simulation(gang)

        def fits(pods: Collection[Pod]) -> Steps[Sequence[NodeAssignment] | None]:
            simulation.set(pods)
            return (yield from _placed(trial))

        recheck = Recheck(
            self._state, self._nominations, self._victims, evicted, lambda: trial.was_ended
        )
        try:
            return (yield from recheck.next_victim(gang.key, fits))
        finally:
            simulation.set(())

    def nominated_fit(self, gang: Preemptor, trial: PlacementTrial) -> Steps[bool]:
        """Place a gang that is nominated, as later plans do not count. Returns whether it fits."""
        if self._nominations.of(gang.key) is None:
            return False
        with self._nominations.before(gang.key):
            return (yield from trial.place())

    def plan(
        self, gang: Preemptor, trial: PlacementTrial, now: datetime.datetime
    ) -> Steps[Planned | PreemptionRefusal]:
        """Return nodes for the gang and the victims there, or why preemption does not help."""
        self._victims.refresh(now, self._nominations.evicted_before(gang.key))
        pods = (pod for pod in self._state.pods if pod.spec.node_name)
        victims = self._victims.below(gang.priority, pods)
        nodes = len(self._state.nodes)
        if not victims:
            return PreemptionRefusal(nodes={NodeRefusal.NO_VICTIMS: nodes} if nodes else {})
        simulation = self._simulation(gang)
        search = GangVictimSearch(
            self._state,
            victims,
            self._victims.allowed,
            simulation,
            trial,
            is_monotone=not any(map(needs_others, gang.pods)),
        )
        try:
            found = yield from search.run()
        finally:
            trial.clear()
            simulation.set(())
        if found is None:
            return PreemptionRefusal(
                nodes={NodeRefusal.NOT_ENOUGH: nodes}, is_exhaustive=search.is_exhaustive
            )
        violated = [budget.key for budget in self._victims.violated(found.victims)]
        names = {one.pod.metadata.key: one.node for one in found.assignments}
        first = found.assignments[0].node
        plan = PreemptionPlan(first, pods_of(found.victims), violated, search.is_exhaustive, names)
        return Planned(plan, found.assignments)

    def _simulation(self, gang: Preemptor) -> RemovalSimulation:
        kept = frozenset(key for pod in gang.pods for key in pod_claims.used_claims(pod))
        return RemovalSimulation(self._state, kept, is_logged=True)


def _placed(trial: PlacementTrial) -> Steps[Sequence[NodeAssignment] | None]:
    """Return what the pods of a gang get as the state is; None if they do not fit."""
    is_placed = yield from trial.place()
    assignments = tuple(trial.assignments)
    trial.clear()
    return assignments if is_placed else None

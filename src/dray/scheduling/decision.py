"""The scheduling decision: nodes and devices for pods, or why a pod has none.

`decide` answers at once. A `Decider` keeps its caches between decisions; the scheduler drives its
steps (`steps_for`) from an event loop, which bounds the time until other tasks run.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from dray.allocator.placement import Allocator
from dray.api.ids import ObjectKey
from dray.api.types.pods import Pod
from dray.scheduling import pod_index, podgroups, policies, steps
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.claims.device_fit import DeviceMatcher
from dray.scheduling.claims.pod_demand import DemandResolver, PodDemand
from dray.scheduling.gangs.gang_search import GangSearch
from dray.scheduling.node_choice import NodeChooser, NoNode
from dray.scheduling.nodes.scoring import Ranking
from dray.scheduling.podgroups import Gang, GangPlacement, GangPlacer, GangTrial
from dray.scheduling.preemption.gang_preemption import GangPreemptionPlanner
from dray.scheduling.preemption.leaving import Leaving
from dray.scheduling.preemption.nominations import Nomination, Nominations
from dray.scheduling.preemption.pod_preemption import Planned, PodPreemptionPlanner
from dray.scheduling.preemption.preemptor import GangKey, Preemptor, PreemptorKey
from dray.scheduling.preemption.victims import Victims
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import Steps
from dray.scheduling.unschedulable import PreemptionRefusal, Unschedulable

__all__ = ["Decider", "Decision", "decide"]

Decision = NodeAssignment | Unschedulable


def _never() -> bool:
    return False


def decide(
    state: SchedulingState,
    pods: Sequence[Pod],
    *,
    now: datetime.datetime,
    should_stop: Callable[[], bool] = _never,
    policy: str | None = None,
) -> list[Decision]:
    """Return the node and devices of each pod, or why it has none.

    Pods are decided in the given order, as the scheduler would; a pod of a gang together with its
    gang. Assignments are reserved in the state: a later decision counts with them, and
    `SchedulingState.release` takes one back. `policy` is one of `policies.NAMES`.

    When `should_stop` returns True, the pods that are left are Unschedulable with `is_retried`.
    Raises ValueError for a pod that has a node already, or no uid to tell it from others.
    """
    return Decider(state, policy=policy, should_stop=should_stop).decide(pods, now)


class Decider:
    """Decides for one state. What it caches follows the changes of the state.

    `should_stop` ends a search for devices; the pod is then unschedulable and worth a retry.
    """

    def __init__(
        self,
        state: SchedulingState,
        *,
        policy: str | None = None,
        should_stop: Callable[[], bool] = _never,
    ) -> None:
        self._state, self._should_stop = state, should_stop
        chosen = policies.policy(policy, state)
        allocator = Allocator(
            state.inventory,
            new_share_id=state.new_share_id,
            order=chosen.order,
            should_stop=should_stop,
        )
        features = state.features
        devices = DeviceMatcher(state.inventory, state.classes, features, allocator)
        self._demands = DemandResolver(state.inventory, state.claims, state.classes, features)
        self._chooser = NodeChooser(state, devices, chosen)
        search = None
        if features.gang_search:
            search = GangSearch(
                state, self._chooser, self._demands, devices, chosen.order, should_stop
            )
        self._gangs = GangPlacer(state, self._chooser, self._demands, search)
        self._preemption = _Preemption(state, devices) if features.preemption else None

    def decide(self, pods: Sequence[Pod], now: datetime.datetime) -> list[Decision]:
        """Decide at once. See the function `decide`."""
        for pod in pods:
            if not pod.metadata.uid:
                raise ValueError(f"pod {pod.metadata.key} has no uid")
            if self._state.is_placed(pod):
                raise ValueError(f"pod {pod.metadata.key} has a node already")
        for pod in pods:
            self._state.put_pod(pod)
        decisions: dict[ObjectKey, Decision] = {}
        for pod in pods:
            if pod.metadata.key in decisions:
                continue
            try:
                decisions |= steps.run(self.steps_for(pod, now), self._should_stop)
            except steps.Stopped:
                decisions[pod.metadata.key] = Unschedulable(
                    error="the decision was stopped before it was complete", is_retried=True
                )
        return [decisions[pod.metadata.key] for pod in pods]

    def steps_for(self, pod: Pod, now: datetime.datetime) -> Steps[Mapping[ObjectKey, Decision]]:
        """Return the decision for a pod, or for all pods of its gang."""
        key = pod.metadata.key
        gang = None if pod.spec.scheduling_gates else self.gang_of(pod)
        if isinstance(gang, Unschedulable):
            return {key: gang}
        if gang is None:
            return {key: (yield from self.place_pod(pod, now))}
        result = yield from self.place_gang(gang, now, self._should_stop)
        if isinstance(result, Unschedulable):
            return {member.metadata.key: result for member in gang.waiting}
        assigned = {assignment.pod.metadata.key: assignment for assignment in result.assignments}
        return {**assigned, **result.unplaced}

    def gang_of(self, pod: Pod) -> Gang | Unschedulable | None:
        """Return the gang that the pod is placed with, or what that waits for; None without one.

        With preemption, a pod that its gang does not need is on its own: it may evict others too.
        """
        gang = podgroups.gang_of(pod, self._state)
        if self._preemption is not None and isinstance(gang, Gang) and gang.lets_others_go_alone:
            return None
        return gang

    def place_gang(
        self, gang: Gang, now: datetime.datetime, should_stop: Callable[[], bool]
    ) -> Steps[GangPlacement | Unschedulable]:
        """Return and reserve nodes for enough pods of a gang, or return why they do not fit.

        `should_stop` limits the search for other nodes when the best ones do not suffice.
        """
        if self._preemption is None:
            result = yield from self._gangs.place(gang, now, should_stop)
        else:
            result = yield from self._preempting_gang(self._preemption, gang, now, should_stop)
        if isinstance(result, Unschedulable):
            return msgspec.structs.replace(result, placement_key=("gang", gang.key))
        return result

    def place_pod(self, pod: Pod, now: datetime.datetime) -> Steps[Decision]:
        """Return and reserve a node for a pod outside of gangs, or return why no node fits."""
        if pod.spec.scheduling_gates:
            return _gated(pod)
        demand = self._demands.demand_of(pod, self._state.group_of(pod), now)
        if isinstance(demand, Unschedulable):
            return demand
        if self._preemption is not None:
            return (yield from self._preempting_pod(self._preemption, demand))
        choice = yield from self._chooser.choose(demand)
        if isinstance(choice, NodeAssignment):
            self._state.reserve(choice)
            return choice
        return self._without_node(demand, choice)

    def next_victim(
        self,
        preemptor: Preemptor,
        now: datetime.datetime,
        evicted: Collection[str],
        should_stop: Callable[[], bool] = _never,
    ) -> Steps[Pod | None]:
        """Return a pod to evict for one or a gang with a plan, as the state is now; None without.

        `evicted` are the uids of pods that are leaving, although the state may not show it yet.
        `should_stop` limits the search for a gang. Raises SearchUnfinished if it ended that before
        it was known whether the plan holds.
        """
        assert self._preemption is not None
        nominations = self._preemption.nominations
        with nominations.counted_for(preemptor):
            if nominations.of(preemptor.key) is None:
                return None
            if preemptor.is_gang:
                gang = self.gang_of(preemptor.pods[0])
                if not isinstance(gang, Gang):
                    nominations.drop(preemptor.key)
                    return None
                trial = self._gangs.trial(gang, now, should_stop)
                current = Preemptor.of_gang(gang.group, gang.waiting)
                of_gangs = self._preemption.of_gangs
                return (yield from of_gangs.next_victim(current, trial, now, evicted))
            [pod] = preemptor.pods
            demand = self._demands.demand_of(pod, self._state.group_of(pod), now)
            if isinstance(demand, Unschedulable):
                nominations.drop(preemptor.key)
                return None
            return (yield from self._preemption.of_pods.next_victim(demand, now, evicted))

    def take_dropped_nominations(self) -> Sequence[PreemptorKey]:
        """Return the preemptors for which nothing is kept any more since the last call.

        They have to be tried again, and so have pods that wait for what was kept.
        """
        return self._preemption.nominations.take_dropped() if self._preemption else ()

    @property
    def nominations(self) -> Nominations | None:
        """Return what is kept for pods that others make room for; None without preemption."""
        return self._preemption.nominations if self._preemption else None

    def _preempting_gang(
        self,
        preemption: _Preemption,
        gang: Gang,
        now: datetime.datetime,
        should_stop: Callable[[], bool],
    ) -> Steps[GangPlacement | Unschedulable]:
        preemptor = Preemptor.of_gang(gang.group, gang.waiting)
        nominations = preemption.nominations
        for pod in gang.waiting:
            # It may have been on its own before, when its gang did not need it.
            nominations.drop(pod.metadata.key)
        with nominations.counted_for(preemptor):
            result: GangPlacement | Unschedulable | None = None
            if nominations.have_lower(preemptor):
                with nominations.with_lower(preemptor):
                    # Only one pod after the other: the time for more is not spent on this.
                    result = yield from self._gangs.place(gang, now, lambda: True)
            if not isinstance(result, GangPlacement):
                result = yield from self._gangs.place(gang, now, should_stop)
            if isinstance(result, Unschedulable):
                trial = self._gangs.trial(gang, now, should_stop, was_ended=result.is_ended)
                result = yield from preemption.for_gang(preemptor, trial, result, now)
            if isinstance(result, GangPlacement):
                preemption.placed(preemptor, result.assignments)
                return self._with_retries(result)
            return result

    def _with_retries(self, placement: GangPlacement) -> GangPlacement:
        """Return the placement with another attempt for pods that are on their own from now on."""
        unplaced = {
            key: msgspec.structs.replace(result, is_retried=True)
            if (pod := self._state.pods.get(key)) is not None and self.gang_of(pod) is None
            else result
            for key, result in placement.unplaced.items()
        }
        return placement._replace(unplaced=unplaced)

    def _preempting_pod(self, preemption: _Preemption, demand: PodDemand) -> Steps[Decision]:
        preemptor = Preemptor.of_pod(demand.pod, self._state)
        nominations = preemption.nominations
        group = pod_index.group_key(demand.pod)
        if group is not None:
            # Its gang does not need it any more.
            nominations.drop(GangKey(group))
        with nominations.counted_for(preemptor):
            choice: NodeAssignment | NoNode | None = None
            if nominations.have_lower(preemptor):
                with nominations.with_lower(preemptor):
                    choice = yield from self._chooser.choose(demand)
            if not isinstance(choice, NodeAssignment):
                choice = yield from self._chooser.choose(demand)
            if isinstance(choice, NoNode):
                choice = (yield from preemption.of_pods.nominated_fit(demand)) or choice
            if isinstance(choice, NodeAssignment):
                self._state.reserve(choice)
                preemption.placed(preemptor, [choice])
                return choice
            result = self._without_node(demand, choice)
            return (yield from preemption.for_pod(preemptor, demand, choice.ranking, result))

    def _without_node(self, demand: PodDemand, choice: NoNode) -> Unschedulable:
        key = self._chooser.placement_key(demand)
        return msgspec.structs.replace(choice.result, placement_key=key)


class _Preemption:
    """Preemption for one state."""

    def __init__(self, state: SchedulingState, devices: DeviceMatcher) -> None:
        self.nominations, victims = Nominations(state), Victims(state)
        self.of_pods = PodPreemptionPlanner(state, devices, victims, self.nominations)
        self.of_gangs = GangPreemptionPlanner(state, victims, self.nominations)

    def for_pod(
        self, preemptor: Preemptor, demand: PodDemand, ranking: Ranking, result: Unschedulable
    ) -> Steps[Unschedulable]:
        """Return whom preemption evicts for a pod without a node, or why it does not help."""
        # As upstream: an error ends the attempt, and no pod is evicted for it.
        if result.error:
            return result
        refusal = yield from self.of_pods.refusal(demand, demand.now)
        if refusal is not None:
            return msgspec.structs.replace(result, preemption_refusal=refusal)
        planned = yield from self.of_pods.plan(demand, ranking, demand.now)
        return self._decided(preemptor, planned, result)

    def for_gang(
        self,
        preemptor: Preemptor,
        trial: GangTrial,
        result: Unschedulable,
        now: datetime.datetime,
    ) -> Steps[GangPlacement | Unschedulable]:
        """Return the placement of a gang that is nominated, or whom preemption evicts for it."""
        if not trial.is_ready:
            return result
        if (yield from self.of_gangs.nominated_fit(preemptor, trial)):
            return (yield from trial.completed())
        refusal = yield from self.of_gangs.refusal(preemptor, trial, now)
        if refusal is not None:
            return msgspec.structs.replace(result, preemption_refusal=refusal)
        if trial.was_ended and self.nominations.of(preemptor.key) is not None:
            # What is kept for it may suffice, and another plan would evict others for nothing.
            return msgspec.structs.replace(result, is_retried=True)
        planned = yield from self.of_gangs.plan(preemptor, trial, now)
        return self._decided(preemptor, planned, result)

    def placed(self, preemptor: Preemptor, assignments: Sequence[NodeAssignment]) -> None:
        """Keep nothing any more for a preemptor with nodes, nor for others what it has got."""
        self.nominations.remove(preemptor.key)
        self.nominations.displace(preemptor, assignments)

    def _decided(
        self, preemptor: Preemptor, planned: Planned | PreemptionRefusal, result: Unschedulable
    ) -> Unschedulable:
        """Return the result with what was planned, which is kept for the preemptor from now on."""
        if isinstance(planned, PreemptionRefusal):
            self.nominations.drop(preemptor.key)
            return msgspec.structs.replace(result, preemption_refusal=planned)
        plan, assignments = planned
        self.nominations.displace(preemptor, assignments)
        leaving = Leaving(plan.victims)
        self.nominations.add(Nomination(preemptor, assignments, leaving, plan.violated_budgets))
        return msgspec.structs.replace(result, preemption=plan)


def _gated(pod: Pod) -> Unschedulable:
    # https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go
    # (PreEnqueue)
    names = " ".join(gate.name for gate in pod.spec.scheduling_gates)
    return Unschedulable(before_nodes=f"waiting for scheduling gates: [{names}]", is_gated=True)

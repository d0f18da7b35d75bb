"""Preemption: the pods to evict so that a pod with a higher priority fits.

Works for devices as well as for node resources. Candidates are removed from the state, the pod is
tried, and as many as possible are restored. A disruption budget is never exceeded.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from dray.api.ids import ClaimKey, ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import AllocationResult
from dray.api.types.pods import Pod
from dray.scheduling.claims import device_fit
from dray.scheduling.claims.assignments import NodeFit
from dray.scheduling.claims.device_fit import DeviceMatcher
from dray.scheduling.claims.pod_demand import PodDemand
from dray.scheduling.disruption_budgets import DisruptionBudget
from dray.scheduling.nodes import node_fit
from dray.scheduling.nodes.node_fit import NodeState, ReasonKind
from dray.scheduling.nodes.pod_requirements import PodUsage
from dray.scheduling.nodes.scoring import Ranking
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import Steps
from dray.scheduling.unschedulable import PreemptionPlan

NEVER = "Never"
CANDIDATES_LIMIT = 100
"""Nodes on which preemption is tried (minCandidateNodesAbsolute of kube-scheduler)."""
COMBINATIONS_LIMIT = 200
_PRIORITY_OFFSET = 1 << 31
"""Makes priorities positive, so that a further victim always costs more (as kube-scheduler)."""


def priority_of(pod: Pod) -> int:
    return pod.spec.priority or 0


class Nominations:
    """Nodes that are being cleared for a pod, which pods of lower priority must not take."""

    def __init__(self, state: SchedulingState) -> None:
        self._state = state
        self._nominated: dict[ObjectKey, tuple[str, int]] = {}

    def add(self, pod: Pod, node: str) -> None:
        """Keep a node for a pod."""
        self._nominated[pod.metadata.key] = (node, priority_of(pod))

    def remove(self, key: ObjectKey) -> None:
        """Stop keeping a node for a pod; nothing happens if none is kept."""
        self._nominated.pop(key, None)

    def node_of(self, key: ObjectKey) -> str:
        """Return the node that is kept for a pod; empty without one."""
        return self._nominated[key][0] if key in self._nominated else ""

    def kept_from(self, pod: Pod) -> frozenset[str]:
        """Return the nodes that are kept for other pods of at least the same priority."""
        if not self._nominated:
            return frozenset()
        for key in [key for key in self._nominated if not self._is_pending(key)]:
            del self._nominated[key]
        own = pod.metadata.key
        return frozenset(
            node
            for key, (node, priority) in self._nominated.items()
            if key != own and priority >= priority_of(pod)
        )

    def _is_pending(self, key: ObjectKey) -> bool:
        pod = self._state.pods.get(key)
        return pod is not None and self._state.is_pending(pod)


class _RemovalSimulation:
    """Pods removed from the state for a trial, with the devices that only they use.

    Removals bypass the log of changed nodes: everything is restored before anyone else reads the
    nodes, so cached rankings stay valid.
    """

    def __init__(self, state: SchedulingState) -> None:
        self._state = state
        self._usages: dict[str, tuple[NodeState, PodUsage]] = {}
        self._removed: dict[str, Pod] = {}
        self._released: dict[ClaimKey, AllocationResult] = {}

    def remove(self, pod: Pod) -> None:
        uid, node = pod.metadata.uid, self._state.nodes.get(pod.spec.node_name)
        self._removed[uid] = pod
        if node is not None and uid in node.usages:
            self._usages[uid] = (node, node.remove(uid))
        removed = frozenset(self._removed)
        for key in pod_claims.used_claims(pod):
            claim = self._state.claims.get(key)
            if claim is None or claim.status.allocation is None:
                continue
            # A shared claim frees its devices only with the last of its consumers.
            if pod_claims.is_reserved_only_for(claim, removed):
                self._released[key] = claim.status.allocation
                self._state.inventory.release(key)

    def restore(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        del self._removed[uid]
        if uid in self._usages:
            node, usage = self._usages.pop(uid)
            node.add(uid, usage)
        for key in pod_claims.used_claims(pod):
            if key in self._released:
                self._state.inventory.record_allocation(key, self._released.pop(key))

    def set(self, pods: Iterable[Pod]) -> None:
        """Remove exactly these pods, and restore all others."""
        target = {pod.metadata.uid: pod for pod in pods}
        for uid, pod in list(self._removed.items()):
            if uid not in target:
                self.restore(pod)
        for uid, pod in target.items():
            if uid not in self._removed:
                self.remove(pod)


class Preemption:
    """Searches victims for pods that do not fit."""

    def __init__(self, state: SchedulingState, devices: DeviceMatcher) -> None:
        self._state, self._devices = state, devices
        self._budgets: Sequence[DisruptionBudget] = ()
        self.nominations = Nominations(state)

    def ineligible(self, pod: Pod) -> str:
        """Return why no pod may be evicted for this one, as kube-scheduler; empty if one may."""
        if pod.spec.preemption_policy == NEVER:
            return "not eligible due to preemptionPolicy=Never."
        node = self.nominations.node_of(pod.metadata.key)
        # Victims of an earlier attempt are still leaving: evicting more would be in vain.
        if any(
            other.metadata.deletion_timestamp is not None and priority_of(other) < priority_of(pod)
            for other in self._state.pods.on_node(node)
        ):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def plan(self, demand: PodDemand, ranking: Ranking) -> Steps[PreemptionPlan | None]:
        """Return the best node and its victims; None if preemption does not help."""
        best: PreemptionPlan | None = None
        self._budgets = [DisruptionBudget.of(budget) for budget in self._state.budgets.values()]
        lowest = min(map(priority_of, self._state.pods), default=0)
        candidates = self._candidates(demand.pod, ranking)
        for state, removable in itertools.islice(candidates, CANDIDATES_LIMIT):
            victims = yield from self._victims_on(state, demand, removable)
            plan = PreemptionPlan(state.name, victims)
            if victims and (best is None or _cost(plan) < _cost(best)):
                best = plan
                # No other node can cost less than one pod of the lowest priority there is.
                if len(victims) == 1 and priority_of(victims[0]) == lowest:
                    break
            yield None
        return best

    def _candidates(self, pod: Pod, ranking: Ranking) -> Iterator[tuple[NodeState, Sequence[Pod]]]:
        """Yield the nodes on which fewer pods could help, with the pods that may be removed."""
        elsewhere = list(self._holders_of_shared_devices(pod))
        for state, reasons in list(ranking.rejected()):
            if all(reason.is_resolvable or reason.kind is ReasonKind.DEVICES for reason in reasons):
                lower = [
                    other
                    for other in self._state.pods.on_node(state.name)
                    if priority_of(other) < priority_of(pod)
                ]
                lower += [other for other in elsewhere if other.spec.node_name != state.name]
                removable = self._removable(lower)
                if removable:
                    yield state, removable

    def _removable(self, pods: list[Pod]) -> list[Pod]:
        """Return the pods that budgets allow to evict, highest priority first."""
        allowed = [pod for pod in pods if self._within_budgets([pod])]
        allowed.sort(key=lambda pod: (priority_of(pod), _reversed_start(pod)), reverse=True)
        return allowed

    def _within_budgets(self, pods: Sequence[Pod]) -> bool:
        """Return whether evicting all of these together exceeds no disruption budget."""
        evicted = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        return all(budget.allows(evicted) for budget in self._budgets)

    def _holders_of_shared_devices(self, pod: Pod) -> Iterator[Pod]:
        """Yield pods of lower priority with devices that other nodes can use as well."""
        for other in self._state.pods:
            if priority_of(other) >= priority_of(pod) or not other.spec.node_name:
                continue
            for key in pod_claims.used_claims(other):
                claim = self._state.claims.get(key)
                allocation = claim.status.allocation if claim else None
                if allocation is not None and allocation.node_selector is None:
                    yield other
                    break

    def _victims_on(
        self, state: NodeState, demand: PodDemand, removable: Sequence[Pod]
    ) -> Steps[Sequence[Pod]]:
        simulation = _RemovalSimulation(self._state)
        try:
            simulation.set(removable)
            if not (yield from self._fits(state, demand)):
                return ()
            # As kube-scheduler: restore pods from the highest priority down while the pod fits.
            victims: list[Pod] = []
            for pod in removable:
                simulation.restore(pod)
                if not (yield from self._fits(state, demand)):
                    simulation.remove(pod)
                    victims.append(pod)
            return (yield from self._fewest(state, demand, removable, victims, simulation))
        except device_fit.SearchFailed:
            return ()
        finally:
            simulation.set(())

    def _fewest(
        self,
        state: NodeState,
        demand: PodDemand,
        removable: Sequence[Pod],
        victims: Sequence[Pod],
        simulation: _RemovalSimulation,
    ) -> Steps[Sequence[Pod]]:
        """Return fewer victims of no higher priority if there are any; none if budgets forbid all.

        Restoring one by one can end with two small victims where one larger one would do: devices
        do not add up as cpu does. Small sets are therefore tried as well.
        """
        is_allowed = self._within_budgets(victims)
        highest = max(map(priority_of, victims if is_allowed else removable), default=0)
        lower = [pod for pod in reversed(removable) if priority_of(pod) <= highest]
        sizes = range(1, len(victims if is_allowed else removable))
        combinations = itertools.chain.from_iterable(
            itertools.combinations(lower, size) for size in sizes
        )
        for pods in itertools.islice(combinations, COMBINATIONS_LIMIT):
            if self._within_budgets(pods):
                simulation.set(pods)
                if (yield from self._fits(state, demand)):
                    return pods
        return victims if is_allowed else ()

    def _fits(self, state: NodeState, demand: PodDemand) -> Steps[bool]:
        if node_fit.reasons_against(state, demand.requirements, demand.extended.__contains__):
            return False
        return isinstance((yield from self._devices.fit_on(demand, state)), NodeFit)


def _cost(plan: PreemptionPlan) -> tuple[int, int, int]:
    """Return the order of plans: lowest highest priority, then lowest sum, then fewest pods."""
    priorities = [priority_of(pod) for pod in plan.victims]
    total = sum(priority + _PRIORITY_OFFSET for priority in priorities)
    return max(priorities), total, len(priorities)


def _reversed_start(pod: Pod) -> tuple[int, ...]:
    """Return a sort key by which pods that started later come first."""
    return tuple(-ord(letter) for letter in pod.status.start_time or "")

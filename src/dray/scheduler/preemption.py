"""Makes room for an important pod: which less important ones have to go, and no more than those.

Works on devices as well as on the resources of a node. Pods are taken off their nodes in thought,
the pod is tried, and as many as possible are put back. A disruption budget is never overdrawn.
"""

from __future__ import annotations

import datetime
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dray.api import errors, http_messages, kinds
from dray.api.formats import gotime
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.selectors import label_selectors
from dray.api.semantics import pod_claims
from dray.api.types.core import PodDisruptionBudget
from dray.api.types.dra import AllocationResult
from dray.api.types.pods import Pod
from dray.client import events
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.scheduler.claims import device_fit
from dray.scheduler.claims.device_fit import DeviceMatcher, NodeFit, PodDemand
from dray.scheduler.cluster_state import ON_NODE, SchedulerState
from dray.scheduling.nodes import node_fit
from dray.scheduling.nodes.node_fit import NodeState, ReasonKind
from dray.scheduling.nodes.pod_requirements import PodUsage
from dray.scheduling.nodes.scoring import Ranking

log = logging.getLogger(__name__)

NEVER = "Never"
CANDIDATES_LIMIT = 100
"""Nodes on which a preemption is thought through (minCandidateNodesAbsolute)."""
COMBINATIONS_LIMIT = 200
_PRIORITY_OFFSET = 1 << 31


class PreemptionPlan(NamedTuple):
    """A node, and the pods that have to leave it."""

    node: str
    victims: Sequence[Pod]

    def cost(self) -> tuple[int, int, int]:
        """The less important the victims and the fewer, the better."""
        priorities = [priority_of(pod) for pod in self.victims]
        total = sum(priority + _PRIORITY_OFFSET for priority in priorities)
        return max(priorities), total, len(priorities)

    def __str__(self) -> str:
        return (
            f"found a potential placement for pod on node {self.node}, "
            f"preempting {len(self.victims)} victims"
        )


def priority_of(pod: Pod) -> int:
    return pod.spec.priority or 0


class Nominations:
    """Nodes that are being cleared for a pod, and not to be taken by lesser ones meanwhile."""

    def __init__(self, find: Callable[[ObjectKey], Pod | None]) -> None:
        self._find = find
        self._nominated: dict[ObjectKey, tuple[str, int]] = {}

    def add(self, key: ObjectKey, node: str, priority: int) -> None:
        self._nominated[key] = (node, priority)

    def remove(self, key: ObjectKey) -> None:
        self._nominated.pop(key, None)

    def node_of(self, key: ObjectKey) -> str:
        return self._nominated[key][0] if key in self._nominated else ""

    def kept_from(self, key: ObjectKey, pod: Pod) -> frozenset[str]:
        """The nodes that are kept for others that are at least as important as the pod."""
        if not self._nominated:
            return frozenset()
        for other in [each for each in self._nominated if self._find(each) is None]:
            del self._nominated[other]
        return frozenset(
            node
            for other, (node, priority) in self._nominated.items()
            if other != key and priority >= priority_of(pod)
        )


class _RemovalSimulation:
    """Pods taken off their nodes in thought, with the devices that nobody uses without them."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._charges: dict[str, tuple[NodeState, PodUsage]] = {}
        self._absent: dict[str, Pod] = {}
        self._released: dict[ClaimKey, AllocationResult] = {}

    def remove(self, pod: Pod) -> None:
        uid, state = pod.metadata.uid, self._state.nodes.get(pod.spec.node_name)
        self._absent[uid] = pod
        if state is not None and uid in state.charges:
            self._charges[uid] = (state, state.remove(uid))
        gone = frozenset(self._absent)
        for key in pod_claims.used_claims(pod):
            claim = self._state.claim(key)
            if claim is None or claim.status.allocation is None:
                continue
            if pod_claims.is_reserved_only_for(claim, gone):
                self._released[key] = claim.status.allocation
                self._state.fleet.release(key)

    def restore(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        del self._absent[uid]
        if uid in self._charges:
            state, charge = self._charges.pop(uid)
            state.add(uid, charge)
        for key in pod_claims.used_claims(pod):
            if key in self._released:
                self._state.fleet.record_allocation(key, self._released.pop(key))

    def set(self, absent: Iterable[Pod]) -> None:
        """Exactly these are away."""
        wanted = {pod.metadata.uid: pod for pod in absent}
        for uid, pod in list(self._absent.items()):
            if uid not in wanted:
                self.restore(pod)
        for uid, pod in wanted.items():
            if uid not in self._absent:
                self.remove(pod)


class Preemption:
    def __init__(
        self,
        state: SchedulerState,
        finder: DeviceMatcher,
        yield_to_loop: Callable[[], Awaitable[None]],
    ) -> None:
        self._state, self._devices, self._breathe = state, finder, yield_to_loop
        self._budgets: Sequence[_Budget] = ()
        self.nominations = Nominations(self._pending)

    def ineligible(self, key: ObjectKey, pod: Pod) -> str:
        """Why nobody is to go for the pod, in upstream's words; empty if somebody may."""
        if pod.spec.preemption_policy == NEVER:
            return "not eligible due to preemptionPolicy=Never."
        node = self.nominations.node_of(key)
        if any(
            other.metadata.deletion_timestamp is not None and priority_of(other) < priority_of(pod)
            for other in self._state.pods.find(ON_NODE, node)
        ):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    async def plan(self, demand: PodDemand, ranking: Ranking) -> PreemptionPlan | None:
        """The best way to make room, if there is one."""
        best: PreemptionPlan | None = None
        self._budgets = [_Budget.of(budget) for budget in self._state.budgets or ()]
        lowest = min(map(priority_of, self._state.pods), default=0)
        candidates = self._candidates(demand.pod, ranking)
        for state, possible in itertools.islice(candidates, CANDIDATES_LIMIT):
            victims = await self._victims_on(state, demand, possible)
            plan = PreemptionPlan(state.name, victims)
            if victims and (best is None or plan.cost() < best.cost()):
                best = plan
                if len(victims) == 1 and priority_of(victims[0]) == lowest:
                    break
            await self._breathe()
        return best

    def _candidates(self, pod: Pod, ranking: Ranking) -> Iterator[tuple[NodeState, Sequence[Pod]]]:
        """The nodes on which fewer pods could help, and which pods those are."""
        elsewhere = list(self._holders_of_shared_devices(pod))
        for state, reasons in list(ranking.refused()):
            if all(reason.is_resolvable or reason.sort is ReasonKind.DEVICES for reason in reasons):
                on_node = self._state.pods.find(ON_NODE, state.name)
                lesser = [each for each in on_node if priority_of(each) < priority_of(pod)]
                lesser += [each for each in elsewhere if each.spec.node_name != state.name]
                possible = self._most_important_first(lesser)
                if possible:
                    yield state, possible

    def _most_important_first(self, pods: list[Pod]) -> list[Pod]:
        """Those that no disruption budget keeps."""
        allowed = [pod for pod in pods if self._may_go([pod])]
        allowed.sort(key=lambda each: (priority_of(each), _reversed_start(each)), reverse=True)
        return allowed

    def _may_go(self, pods: Sequence[Pod]) -> bool:
        """Whether all of these together overdraw no disruption budget."""
        leaving = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        return all(budget.allows(leaving) for budget in self._budgets)

    def _holders_of_shared_devices(self, pod: Pod) -> Iterator[Pod]:
        """Less important pods that hold devices which could be used on other nodes as well."""
        for other in self._state.pods:
            if priority_of(other) >= priority_of(pod) or not other.spec.node_name:
                continue
            for key in pod_claims.used_claims(other):
                claim = self._state.claim(key)
                allocation = claim.status.allocation if claim else None
                if allocation is not None and allocation.node_selector is None:
                    yield other
                    break

    async def _victims_on(
        self, state: NodeState, demand: PodDemand, possible: Sequence[Pod]
    ) -> Sequence[Pod]:
        what_if = _RemovalSimulation(self._state)
        try:
            what_if.set(possible)
            if not await self._fits(state, demand):
                return ()
            victims: list[Pod] = []
            for pod in possible:
                what_if.restore(pod)
                if not await self._fits(state, demand):
                    what_if.remove(pod)
                    victims.append(pod)
            return await self._fewest(state, demand, possible, victims, what_if)
        except device_fit.SearchFailed:
            return ()
        finally:
            what_if.set(())

    async def _fewest(
        self,
        state: NodeState,
        demand: PodDemand,
        possible: Sequence[Pod],
        victims: Sequence[Pod],
        what_if: _RemovalSimulation,
    ) -> Sequence[Pod]:
        """Fewer victims that are no more important, if there are any; none that must not go."""
        may_go = self._may_go(victims)
        highest = max(map(priority_of, victims if may_go else possible), default=0)
        lesser = [pod for pod in reversed(possible) if priority_of(pod) <= highest]
        sizes = range(1, len(victims if may_go else possible))
        combinations = itertools.chain.from_iterable(
            itertools.combinations(lesser, size) for size in sizes
        )
        for some in itertools.islice(combinations, COMBINATIONS_LIMIT):
            if self._may_go(some):
                what_if.set(some)
                if await self._fits(state, demand):
                    return some
        return victims if may_go else ()

    async def _fits(self, state: NodeState, demand: PodDemand) -> bool:
        if node_fit.reasons_against(state, demand.wanted, demand.extended.__contains__):
            return False
        return isinstance(await self._devices.ask(demand, state), NodeFit)

    def _pending(self, key: ObjectKey) -> Pod | None:
        pod = self._state.pod(key)
        return pod if pod is not None and self._state.is_ours(pod) else None


def _reversed_start(pod: Pod) -> tuple[int, ...]:
    """Pods that started later are less important."""
    return tuple(-ord(letter) for letter in pod.status.start_time or "")


class _Budget(NamedTuple):
    """How many of which pods may go."""

    namespace: str
    selector: label_selectors.Selector
    allowed: int

    @classmethod
    def of(cls, budget: PodDisruptionBudget) -> _Budget:
        try:
            selector = label_selectors.label_selector(budget.spec.selector)
        except label_selectors.SelectorError:
            selector = label_selectors.NOTHING
        return cls(budget.metadata.namespace, selector, budget.status.disruptions_allowed)

    def allows(self, leaving: Sequence[Pod]) -> bool:
        return sum(map(self._covers, leaving)) <= self.allowed

    def _covers(self, pod: Pod) -> bool:
        metadata = pod.metadata
        return metadata.namespace == self.namespace and self.selector.matches(metadata.labels)


class Evictor:
    """Sends victims away, and says so."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        name: str,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._client, self._recorder, self._name, self._now = client, recorder, name, now

    async def carry_out(self, plan: PreemptionPlan, pod: Pod) -> None:
        """Nominate the node for the pod, then delete the victims."""
        await self._patch(pod, {"nominatedNodeName": plan.node})
        for victim in plan.victims:
            if victim.metadata.deletion_timestamp is None:
                await self._evict(victim, pod, plan.node)

    async def _evict(self, victim: Pod, pod: Pod, node: str) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{self._name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": gotime.write(self._now()),
        }
        await self._patch(victim, {"conditions": [condition]})
        metadata = victim.metadata
        options = {"preconditions": {"uid": metadata.uid}}
        try:
            await self._client.delete(kinds.POD, metadata.name, metadata.namespace, options)
        except errors.StatusError as error:
            log.warning("pod %s/%s stays: %s", metadata.namespace, metadata.name, error)
            return
        note = f"Preempted by pod {pod.metadata.uid} on node {node}"
        about = events.reference(kinds.POD, metadata)
        self._recorder.record(about, events.NORMAL, "Preempted", note, action="Preempting")

    async def _patch(self, pod: Pod, status: dict[str, object]) -> None:
        metadata = pod.metadata
        try:
            await self._client.patch(
                kinds.POD,
                metadata.name,
                {"metadata": {"uid": metadata.uid}, "status": status},
                metadata.namespace,
                subresource="status",
                patch_type=http_messages.STRATEGIC_MERGE_PATCH,
            )
        except errors.StatusError as error:
            log.warning("status of pod %s/%s: %s", metadata.namespace, metadata.name, error)

"""Finds whom the scheduler would evict for a waiting pod, by the scheduling decision itself."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from dray.api.admission import priorities
from dray.api.admission.refusals import Refused
from dray.api.ids import ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.core import Namespace, PriorityClass
from dray.api.types.meta import OwnerReference
from dray.api.types.pods import Pod, PodResourceClaimStatus
from dray.api.types.workloads import PodGroup
from dray.explain.pod.pod_context import DEFAULT_NAMESPACE, PodContext, claims_of
from dray.explain.preemption import pod_preemption
from dray.explain.preemption.pod_preemption import PodPreemption, PreemptionOutcome
from dray.scheduling import steps
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider, Decision
from dray.scheduling.preemption.pod_preemption import FORBIDDEN
from dray.scheduling.preemption.priorities import effective_priority
from dray.scheduling.state import SchedulingObject, SchedulingState
from dray.scheduling.unschedulable import PreemptionPlan, PreemptionRefusal, Unschedulable

_NOW = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_encode = msgspec.msgpack.encode
Ranked = TypeVar("Ranked", Pod, PodGroup)
_EFFORT = 2_000_000
"""How often a decision may ask whether to stop."""


class PreemptionExplainer:
    """Explains preemption for the pods of one cluster.

    `others` are the objects of `FURTHER_TYPES`. Nothing of what is decided stays decided.
    """

    def __init__(self, context: PodContext, others: Iterable[Any]) -> None:
        self._context = context
        self._classes: dict[str, PriorityClass] = {}
        self._found: dict[bytes, PodPreemption] = {}
        self._has_budgets = "PodDisruptionBudget" not in context.unread | context.partly_read
        self._is_on = context.features.preemption
        features = msgspec.structs.replace(context.features, preemption=True)
        self._state = SchedulingState(features, scheduler_name="")
        shared: tuple[SchedulingObject, ...] = (
            *context.nodes.values(),
            *context.slices,
            *context.classes,
            *context.taint_rules,
        )
        groups: list[PodGroup] = []
        for item in shared:
            self._state.put(item)
        for claim in context.claims.values():
            self._state.put(_in_namespace(claim))
        for other in others:
            match other:
                case PriorityClass():
                    self._classes[other.metadata.name] = other
                case PodGroup():
                    groups.append(_in_namespace(other))
                case Namespace():
                    self._state.put(other)
                case _:
                    self._state.put(_in_namespace(other))
        for group in groups:
            with contextlib.suppress(Refused):
                self._state.put(self._with_priority(group))
        for pod in context.pods:
            with contextlib.suppress(Refused):
                self._state.put_pod(self._stored(pod))

    def explain(self, pod: Pod) -> PodPreemption | None:
        """Return what preemption does for a pod; None if it does not wait for a node."""
        if not pod_preemption.waits(pod):
            return None
        try:
            pod = self._stored(pod)
        except Refused as refused:
            return self._answer(pod, PreemptionOutcome.UNDECIDED, message=str(refused))
        if pod.status.nominated_node_name:
            on_node = self._state.pods.on_node(pod.status.nominated_node_name)
            leaving = pod_preemption.under_way(
                pod, on_node, is_on=self._is_on, priority_of=self._priority_of
            )
            return leaving or self._decide(pod)
        key = self._key(pod)
        known = self._found.get(key)
        if known is None:
            known = self._decide(pod)
            # A message may name the pod and its claims.
            if not known.message:
                self._found[key] = known
        return msgspec.structs.replace(known, pod=str(pod.metadata.key))

    def _key(self, pod: Pod) -> bytes:
        """Return a key that is equal for pods without nominations to which the same happens."""
        claims = [self._state.claims.get(key) for key in pod_claims.used_claims(pod)]
        specs = [
            claim and (claim.spec if claim.status.allocation is None else claim.key)
            for claim in claims
        ]
        return _encode((pod.metadata.namespace, pod.metadata.labels, pod.spec, specs))

    def _decide(self, pod: Pod) -> PodPreemption:
        try:
            decision = self._decided(pod)
        except steps.Stopped:
            message = "the search was ended before it had a result"
            return self._answer(pod, PreemptionOutcome.UNDECIDED, message=message)
        if isinstance(decision, NodeAssignment):
            return self._answer(pod, PreemptionOutcome.FITS, node=decision.node)
        return self._unschedulable(pod, decision)

    def _unschedulable(self, pod: Pod, result: Unschedulable) -> PodPreemption:
        if result.preemption is not None:
            return self._planned(pod, result.preemption, result.group_message)
        refusal = result.preemption_refusal
        if refusal is not None and refusal.message == FORBIDDEN:
            return self._answer(pod, PreemptionOutcome.NEVER, message=refusal.message)
        if result.group_message:
            why = refusal or PreemptionRefusal()
            return self._answer(
                pod,
                PreemptionOutcome.GROUP,
                message=result.group_message,
                nodes=why.nodes,
                is_exhaustive=why.is_exhaustive,
            )
        if refusal is not None:
            return self._answer(
                pod,
                PreemptionOutcome.NOT_HELPFUL,
                message=refusal.message,
                nodes=refusal.nodes,
                is_exhaustive=refusal.is_exhaustive,
            )
        message = result.error or result.before_nodes or "the cluster has no nodes"
        return self._answer(pod, PreemptionOutcome.UNDECIDED, message=message)

    def _planned(self, pod: Pod, plan: PreemptionPlan, message: str) -> PodPreemption:
        victims = tuple(
            pod_preemption.evicted(victim, self._priority_of(victim)) for victim in plan.victims
        )
        is_under_way = all(victim.is_leaving for victim in victims)
        return self._answer(
            pod,
            PreemptionOutcome.UNDER_WAY if is_under_way else PreemptionOutcome.EVICTS,
            node=plan.nodes.get(pod.metadata.key, plan.node),
            group_nodes=tuple(sorted(set(plan.nodes.values()))),
            message=message,
            victims=victims,
            violated_budgets=tuple(map(str, plan.violated_budgets)),
            has_budgets=self._has_budgets,
            is_exhaustive=plan.is_exhaustive,
        )

    def _answer(self, pod: Pod, outcome: PreemptionOutcome, **found: Any) -> PodPreemption:
        return PodPreemption(
            pod=str(pod.metadata.key),
            priority=self._priority_of(pod),
            is_on=self._is_on,
            outcome=outcome,
            group=self._gang_of(pod),
            **found,
        )

    def _priority_of(self, pod: Pod) -> int:
        return effective_priority(pod, self._state)

    def _gang_of(self, pod: Pod) -> str:
        """Return the PodGroup that is placed as a whole with a pod; empty without one."""
        group = self._state.group_of(pod) if self._state.features.generic_workload else None
        is_gang = group is not None and group.spec.scheduling_policy.gang is not None
        return str(group.metadata.key) if group is not None and is_gang else ""

    def _decided(self, pod: Pod) -> Decision:
        """Return the decision for a pod. Raises Stopped if it takes too long."""
        key, should_stop = pod.metadata.key, _Effort(_EFFORT)
        decider = Decider(self._state, should_stop=should_stop)
        self._state.put_pod(pod)
        decisions: dict[ObjectKey, Decision] = {}
        try:
            # What is freed for others is kept for them; their gangs may have the pod as a member.
            for waiting in (*self._nominated_before(pod), pod):
                if waiting.metadata.key not in decisions:
                    found = decider.steps_for(waiting, _NOW)
                    decisions |= steps.run(found, should_stop)
            decision = decisions[key]
            if isinstance(decision, Unschedulable) and decision.is_retried:
                # Its gang has nodes without it.
                decisions |= steps.run(decider.steps_for(pod, _NOW), should_stop)
            if should_stop():
                # A search that was ended may have passed for one without a result.
                raise steps.Stopped
            return decisions[key]
        finally:
            for decision in decisions.values():
                if isinstance(decision, NodeAssignment):
                    self._state.release(decision)

    def _nominated_before(self, pod: Pod) -> list[Pod]:
        return [
            other
            for other in self._state.pods
            if other.status.nominated_node_name
            and other.metadata.key != pod.metadata.key
            and pod_preemption.waits(other)
            and self._priority_of(other) >= self._priority_of(pod)
        ]

    def _stored(self, pod: Pod) -> Pod:
        """Return a pod as the API server and the controllers complete it. Raises Refused."""
        pod = _in_namespace(pod)
        if not pod.metadata.uid:
            metadata = msgspec.structs.replace(pod.metadata, uid=str(pod.metadata.key))
            pod = msgspec.structs.replace(pod, metadata=metadata)
        pod = self._with_priority(pod)
        return self._with_claims(pod) if pod_preemption.waits(pod) else pod

    def _with_priority(self, item: Ranked) -> Ranked:
        """Return a pod or PodGroup with the priority of its class. Raises Refused."""
        if item.spec.priority is not None:
            return item
        name = item.spec.priority_class_name
        default = priorities.default_of(self._classes.values())
        found = priorities.class_of({"priorityClassName": name}, self._classes.get(name), default)
        changes: dict[str, Any] = {"priority": found.value}
        if isinstance(item, Pod):
            changes["preemption_policy"] = item.spec.preemption_policy or found.preemption_policy
        return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, **changes))

    def _with_claims(self, pod: Pod) -> Pod:
        """Return the pod with the claims that will be made from its templates."""
        metadata = pod.metadata
        owner = OwnerReference("v1", "Pod", metadata.name, metadata.uid, controller=True)
        statuses = list(pod.status.resource_claim_statuses)
        found = claims_of(pod, self._context)
        for source in pod.spec.resource_claims:
            if source.name in found and not pod_claims.claim_of(pod, source).is_made:
                made = found[source.name].metadata
                owned = msgspec.structs.replace(made, owner_references=(owner,))
                self._state.put(msgspec.structs.replace(found[source.name], metadata=owned))
                statuses.append(PodResourceClaimStatus(source.name, made.name))
        status = msgspec.structs.replace(pod.status, resource_claim_statuses=tuple(statuses))
        return msgspec.structs.replace(pod, status=status)


class _Effort:
    """Stops a decision that takes too long."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0


def _in_namespace(item: Any) -> Any:
    """Return an object with its namespace; those of files may leave it out."""
    if item.metadata.namespace:
        return item
    metadata = msgspec.structs.replace(item.metadata, namespace=DEFAULT_NAMESPACE)
    return msgspec.structs.replace(item, metadata=metadata)

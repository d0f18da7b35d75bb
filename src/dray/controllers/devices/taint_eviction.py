"""Evicts pods from devices with NoExecute taints, when their tolerations end.

Behaviour of pkg/controller/devicetainteviction; also for claims of extended resources, which
upstream leaves out. The status of each DeviceTaintRule reports the progress of its evictions.
"""

from __future__ import annotations

import enum
import logging
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

import msgspec

from dray.api import kinds, well_known
from dray.api.formats import gotime
from dray.api.ids import ObjectKey
from dray.api.semantics import pod_claims, pod_status
from dray.api.types.dra import DeviceTaint, DeviceTaintRule, DeviceTaintRuleStatus, ResourceClaim
from dray.api.types.meta import Condition
from dray.api.types.pods import Pod
from dray.client import events
from dray.client.cache import ObjectChange
from dray.controllers import caches, status_patches
from dray.controllers.devices import eviction_times, taint_rule_status
from dray.controllers.devices.eviction_times import Eviction
from dray.controllers.devices.taint_rule_status import Effects
from dray.controllers.loops import Context, Loop
from dray.controllers.nodes import pod_disruption
from dray.controllers.slim_types import TaintedSlice

log = logging.getLogger(__name__)

COMPONENT = "device-taint-eviction-controller"
STATUS_PERIOD_SECONDS = 10.0


class EvictionSubject(enum.Enum):
    POD = "pod"
    RULE = "rule"


class EvictionWork(NamedTuple):
    subject: EvictionSubject
    key: ObjectKey

    def __str__(self) -> str:
        return f"{self.subject.value} {self.key}"


class TaintEviction(Loop[EvictionWork]):
    def __init__(self, context: Context) -> None:
        super().__init__("taints", context)
        shared = context.caches
        self._pods, self._claims, self._slices = shared.pods, shared.claims, shared.tainted_slices
        self._rules = shared.taint_rules if context.features.device_taint_rules else None
        self._accept_groups = context.features.workload_resource_claims
        self._recorder = context.recorder(COMPONENT)
        self._scheduled: set[str] = set()
        self._evicted: Counter[str] = Counter()
        self.follow(self._pods, self._pod_changed)
        self.follow(self._claims, self._claim_changed)
        self.follow(self._slices, self._slice_changed)
        if self._rules is not None:
            self.follow(self._rules, self._rule_changed)

    def resync(self) -> None:
        for rule in self._rules or ():
            self._add_rule(rule.metadata.name)
        for claim in self._claims:
            self._add_users(claim)

    def _add_rule(self, name: str) -> None:
        self.queue.add(EvictionWork(EvictionSubject.RULE, ObjectKey("", name)))

    def _add_pod(self, pod: Pod) -> None:
        self.queue.add(EvictionWork(EvictionSubject.POD, pod.metadata.key))

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        old, new = change.old, change.new
        if new is None:
            if old is not None:
                self._scheduled.discard(old.metadata.uid)
            return
        has_moved = old is None or (
            old.spec.node_name != new.spec.node_name
            or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        )
        if has_moved and self._of_pod(new, self._evicting_rules()):
            self._add_pod(new)

    def _claim_changed(self, change: ObjectChange[ResourceClaim]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or new.status != old.status:
            for claim in filter(None, (old, new)):
                self._add_users(claim)

    def _add_users(self, claim: ResourceClaim) -> None:
        """Queue the pods of a claim that has, or had until now, to do with taints."""
        users = list(self._users(claim))
        if any(pod.metadata.uid in self._scheduled for pod in users) or self._of_claim(
            claim, self._evicting_rules()
        ):
            for pod in users:
                self._add_pod(pod)

    def _users(self, claim: ResourceClaim) -> Iterator[Pod]:
        namespace = claim.metadata.namespace
        for consumer in claim.status.reserved_for:
            if pod_claims.is_pod(consumer):
                pod = self._pods.get(consumer.name, namespace)
                if pod is not None and pod.metadata.uid == consumer.uid:
                    yield pod
            elif pod_claims.is_group(consumer) and self._accept_groups:
                yield from self._pods.find(caches.GROUP, ObjectKey(namespace, consumer.name))

    def _slice_changed(self, change: ObjectChange[TaintedSlice]) -> None:
        if _evicting(change.old) == _evicting(change.new):
            return
        for resource_slice in filter(None, (change.old, change.new)):
            for claim in self._claims.find(caches.POOL, resource_slice.pool_id):
                self._add_users(claim)

    def _rule_changed(self, change: ObjectChange[DeviceTaintRule]) -> None:
        old, new = change.old, change.new
        if new is None:
            if old is not None:
                del self._evicted[old.metadata.uid]
        elif old is None or old.spec != new.spec or old.metadata.uid != new.metadata.uid:
            self._add_rule(change.key.name)
        if old is None or new is None or old.spec != new.spec:
            rules = [rule for rule in (old, new) if rule is not None]
            for claim in self._claims:
                if any(_concerns(rule, claim) for rule in rules):
                    self._add_users(claim)

    def _evicting_rules(self) -> list[DeviceTaintRule]:
        return [rule for rule in self._rules or () if eviction_times.evicts(rule.spec.taint)]

    def _of_claim(self, claim: ResourceClaim, rules: Sequence[DeviceTaintRule]) -> Eviction | None:
        pools = caches.pools_of(claim)
        slices = [item for pool in pools for item in self._slices.find(caches.POOL, pool)]
        return eviction_times.of_claim(claim, slices, rules)

    def _of_pod(self, pod: Pod, rules: Sequence[DeviceTaintRule]) -> Eviction | None:
        """Return when the pod is evicted because of a claim that it uses, or None."""
        if not pod.spec.node_name:
            return None
        used = (self._claims.get(key.name, key.namespace) for key in pod_claims.used_claims(pod))
        return eviction_times.soonest(
            self._of_claim(claim, rules)
            for claim in used
            if claim is not None and pod_claims.is_reserved_for(claim, pod, self._accept_groups)
        )

    async def reconcile(self, key: EvictionWork) -> float | None:
        if key.subject is EvictionSubject.RULE:
            return await self._report(key.key.name)
        return await self._evict(key.key)

    async def _evict(self, key: ObjectKey) -> float | None:
        pod = self._pods.get(key.name, key.namespace)
        if pod is None or not pod_status.is_active(pod):
            return None
        eviction = self._of_pod(pod, self._evicting_rules())
        if eviction is None:
            if pod.metadata.uid in self._scheduled:
                self._scheduled.discard(pod.metadata.uid)
                self._record_event(pod, "Cancelling deletion")
            return None
        self._scheduled.add(pod.metadata.uid)
        self._report_later(eviction.rules)
        left = (eviction.when - self.now()).total_seconds()
        if left > 0:
            return left
        self._record_event(pod, "Marking for deletion")
        claims = ", ".join(map(str, pod_claims.used_claims(pod)))
        log.info("pod %s is evicted: a device of claim %s is tainted", pod.metadata.key, claims)
        reason = "DeletionByDeviceTaintManager"
        message = "Device Taint manager: deleting due to NoExecute taint"
        await pod_disruption.end(self.client, pod, self.now(), reason, message)
        self._scheduled.discard(pod.metadata.uid)
        self._evicted.update(eviction.rules)
        return None

    def _report_later(self, uids: Set[str]) -> None:
        for rule in self._rules or ():
            if rule.metadata.uid in uids:
                work = EvictionWork(EvictionSubject.RULE, ObjectKey("", rule.metadata.name))
                self.queue.add_after(work, STATUS_PERIOD_SECONDS)

    def _record_event(self, pod: Pod, note: str) -> None:
        reference = events.reference(kinds.POD, pod.metadata)
        self._recorder.record(reference, events.NORMAL, "DeviceTaintManagerEviction", note)

    async def _report(self, name: str) -> float | None:
        """Update the status of a rule, at most every ten seconds."""
        rule = self._rules.get(name) if self._rules is not None else None
        if rule is None:
            return None
        before = taint_rule_status.condition_of(rule)
        if before is not None and before.observed_generation == rule.metadata.generation:
            last = gotime.parse(before.last_transition_time or "")
            left = STATUS_PERIOD_SECONDS - (self.now() - last).total_seconds()
            if left > 0:
                return min(left, STATUS_PERIOD_SECONDS)
        new = taint_rule_status.condition(rule, self._effects(rule))
        if before is not None and _is_same(before, new):
            return None
        new = msgspec.structs.replace(new, last_transition_time=gotime.write(self.now()))
        others = (condition for condition in rule.status.conditions if condition.type != new.type)
        status = DeviceTaintRuleStatus(conditions=(*others, new))
        await status_patches.patch_status(
            self.client, kinds.DEVICE_TAINT_RULE, rule.metadata, rule.status, status
        )
        return None

    def _effects(self, rule: DeviceTaintRule) -> Effects:
        effects = Effects(evicted_pods=self._evicted[rule.metadata.uid])
        if rule.spec.taint.effect == "None":
            published, allocated = self._selected_devices(rule)
            effects = effects._replace(published_devices=published, allocated_devices=allocated)
            rules = [_evicting_rule(rule)]
        elif eviction_times.evicts(rule.spec.taint):
            rules = self._evicting_rules()
        else:
            return effects
        namespaces = self._pending(rule, rules)
        return effects._replace(
            pending_pods=len(namespaces), pending_namespaces=len(set(namespaces))
        )

    def _pending(self, rule: DeviceTaintRule, rules: Sequence[DeviceTaintRule]) -> list[str]:
        """Return the namespace of each pod that the rule evicts."""
        pods = {
            pod.metadata.uid: pod
            for claim in self._claims
            if _concerns(rule, claim)
            for pod in self._users(claim)
            if not pod_status.is_deleted(pod)
        }
        return [
            pod.metadata.namespace
            for pod in pods.values()
            if (eviction := self._of_pod(pod, rules)) and rule.metadata.uid in eviction.rules
        ]

    def _selected_devices(self, rule: DeviceTaintRule) -> tuple[int, int]:
        """Return how many published and how many allocated devices the rule selects."""
        pool_ids = {resource_slice.pool_id for resource_slice in self._slices}
        published = sum(
            eviction_times.selects(rule, pool.driver, pool.pool, device.name)
            for pool in pool_ids
            for device in eviction_times.current_devices(
                pool.driver, pool.pool, self._slices.find(caches.POOL, pool)
            )
        )
        return published, sum(_selected_results(rule, claim) for claim in self._claims)


def _selected_results(rule: DeviceTaintRule, claim: ResourceClaim) -> int:
    if claim.status.allocation is None:
        return 0
    return sum(
        eviction_times.selects(rule, result.driver, result.pool, result.device)
        for result in claim.status.allocation.devices.results
    )


def _concerns(rule: DeviceTaintRule, claim: ResourceClaim) -> bool:
    return _selected_results(rule, claim) > 0


def _evicting(published: TaintedSlice | None) -> tuple[int, dict[str, list[DeviceTaint]]]:
    """Return the generation of a slice and the evicting taints of its devices."""
    if published is None:
        return 0, {}
    tainted = {
        device.name: [taint for taint in device.taints if eviction_times.evicts(taint)]
        for device in published.spec.devices
        if any(map(eviction_times.evicts, device.taints))
    }
    return published.spec.pool.generation, tainted


def _evicting_rule(rule: DeviceTaintRule) -> DeviceTaintRule:
    taint = msgspec.structs.replace(rule.spec.taint, effect=well_known.NO_EXECUTE)
    return msgspec.structs.replace(rule, spec=msgspec.structs.replace(rule.spec, taint=taint))


def _is_same(before: Condition, after: Condition) -> bool:
    return msgspec.structs.replace(before, last_transition_time=None) == after

"""A cluster on which pods are moved one after the other, with a way back to earlier states."""

from __future__ import annotations

import datetime
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from dray.api.ids import ClaimKey, DeviceId, ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod, PodExtendedResourceClaimStatus
from dray.planner.cluster_model import ClusterModel
from dray.planner.defragmentation import movable_pods
from dray.planner.defragmentation.movable_pods import Movability, MoveUnit
from dray.planner.placement.place import NOW
from dray.scheduling.claims.assignments import ClaimAssignment, NodeAssignment
from dray.scheduling.decision import Decider
from dray.scheduling.preemption import priority_of
from dray.scheduling.state import SchedulingState


class Place(NamedTuple):
    """The node of a pod, and the devices of its claims."""

    node: str
    devices: tuple[DeviceId, ...]


class _Waiting(NamedTuple):
    pod: Pod
    turn: int
    """Grows with every pod."""


class Simulation:
    """Deletes and submits pods; all that wait are placed as the scheduler would place them.

    Nothing is evicted for a pod that does not fit: a move that needs that is no move.
    """

    def __init__(
        self,
        cluster: ClusterModel,
        movability: Movability,
        *,
        policy: str | None = None,
        now: datetime.datetime = NOW,
    ) -> None:
        features = msgspec.structs.replace(cluster.features, preemption=False)
        self.state = ClusterModel(cluster.objects, features).state()
        self.movability = movability
        self.decisions = 0
        """The number of decisions so far, as a measure of effort."""
        self.lost: list[Pod] = []
        """Pods that were deleted and that nothing makes again."""
        self._decider, self._now = Decider(self.state, policy=policy), now
        self._undo: list[Callable[[], object]] = []
        self._cordoned: frozenset[str] = frozenset()
        self._moved: Counter[object] = Counter()
        """How many more or fewer pods of each kind are at each place than at the start."""
        self._kinds: dict[ObjectKey, object] = {}
        waiting = [pod for pod in self.state.pods if self.state.is_pending(pod)]
        waiting.sort(key=lambda pod: pod.metadata.creation_timestamp or "")
        self._turns = itertools.count()
        self._waiting = {pod.metadata.key: _Waiting(pod, next(self._turns)) for pod in waiting}
        self.settle()

    # Going back.

    def mark(self) -> int:
        """Return a point to go back to."""
        return len(self._undo)

    def back_to(self, mark: int) -> None:
        """Undo everything since `mark`."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def fingerprint(self) -> frozenset[tuple[object, int]]:
        """Return a value that is equal for states in which alike pods have the same places."""
        return frozenset(item for item in self._moved.items() if item[1])

    # What is where.

    def place_of(self, pod: Pod) -> Place:
        """Return the node of a pod and the devices of its claims."""
        devices = []
        for key in pod_claims.used_claims(pod):
            claim = self.state.claims.get(key)
            if claim is not None and claim.status.allocation is not None:
                devices += [
                    DeviceId(result.driver, result.pool, result.device)
                    for result in claim.status.allocation.devices.results
                ]
        return Place(pod.spec.node_name, tuple(devices))

    def pods_of(self, unit: MoveUnit) -> list[Pod]:
        """Return the pods of a unit that have a node."""
        found = (self.state.pods.get(key) for key in unit.keys)
        return [pod for pod in found if pod is not None and pod.spec.node_name]

    def is_waiting(self, key: ObjectKey) -> bool:
        return key in self._waiting

    # Changes.

    def cordon(self, names: frozenset[str]) -> None:
        """Make these nodes unschedulable, and none else that an earlier call made so."""
        for name in names ^ self._cordoned:
            node = self.state.nodes.get(name)
            if node is None or node.node is None:
                continue
            old = node.node
            spec = msgspec.structs.replace(old.spec, unschedulable=name in names)
            self.state.put_node(msgspec.structs.replace(old, spec=spec))
            self._undo.append(functools.partial(self.state.put_node, old))
        before = self._cordoned
        self._undo.append(lambda: setattr(self, "_cordoned", before))
        self._cordoned = names

    def remove(self, pods: Iterable[Pod]) -> None:
        """Delete pods, with the claims made for them; other claims lose them as consumers."""
        for pod in pods:
            self._count(pod, -1)
            for key in pod_claims.used_claims(pod):
                claim = self.state.claims.get(key)
                if claim is not None:
                    self._release(claim, pod)
            self._drop_pod(pod.metadata.key)

    def forget_waiting(self) -> None:
        """Remove the pods that wait."""
        for key in list(self._waiting):
            self._drop_pod(key)
            self._end_waiting(key)

    def submit(self, pod: Pod, claims: Iterable[ResourceClaim] = ()) -> None:
        """Let a pod wait for a node."""
        for claim in claims:
            self._put_claim(claim)
        self._put_pod(pod)
        key = pod.metadata.key
        self._waiting[key] = _Waiting(pod, next(self._turns))
        self._undo.append(functools.partial(self._waiting.pop, key))

    def settle(self) -> None:
        """Place the pods that wait, in the scheduler's order, until no further one fits."""
        while self._waiting:
            # Of equal priority, the one that has waited longest is first.
            ordered = sorted(
                self._waiting.values(), key=lambda each: (-priority_of(each.pod), each.turn)
            )
            pods = [each.pod for each in ordered]
            self.decisions += len(pods)
            decisions = self._decider.decide(pods, self._now)
            assigned = [each for each in decisions if isinstance(each, NodeAssignment)]
            for assignment in assigned:
                self._bind(assignment)
            if not assigned:
                break

    def move(self, unit: MoveUnit, cordoned: frozenset[str]) -> bool:
        """Delete the pods of a unit while some nodes are cordoned, and place their replacements.

        Returns False if one of them gets no node. A pod without a controller is lost.
        """
        self.cordon(cordoned)
        self.settle()
        pods = self.pods_of(unit)
        bare = [pod for pod in pods if movable_pods.is_bare(pod)]
        made = [
            self.movability.replacement(pod, self.state.claims) for pod in pods if pod not in bare
        ]
        self.remove(pods)
        self._lose(bare)
        for replacement in made:
            self.submit(*replacement)
        self.settle()
        return not any(self.is_waiting(replacement.pod.metadata.key) for replacement in made)

    def places_beside(self, pods: Sequence[Pod], cordoned: frozenset[str]) -> list[Place | None]:
        """Return the places of replacements that are made before their pods are gone.

        None for a pod without such a place, or whose replacement is only made later or never.
        """
        mark = self.mark()
        self.cordon(cordoned)
        self.settle()
        keys: list[ObjectKey | None] = []
        for pod in pods:
            if movable_pods.is_replaced_early(pod):
                made = self.movability.replacement(pod, self.state.claims, "-new")
                self.submit(*made)
                keys.append(made.pod.metadata.key)
            else:
                keys.append(None)
        self.settle()
        found = [self.state.pods.get(key) if key else None for key in keys]
        places = [self.place_of(pod) if pod and pod.spec.node_name else None for pod in found]
        self.back_to(mark)
        return places

    def _lose(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            self.lost.append(pod)
            self._undo.append(self.lost.pop)

    def _bind(self, assignment: NodeAssignment) -> None:
        """Write what the scheduler would write for an assignment."""
        for assigned in assignment.fit.claims:
            self._allocate(assigned, assignment.pod.metadata.uid)
        pod, extended = assignment.pod, assignment.fit.extended
        status = msgspec.structs.replace(
            pod.status, node_allocatable_resource_claim_statuses=assignment.fit.node_resources
        )
        if extended is not None:
            name = extended.claim.metadata.name
            made = PodExtendedResourceClaimStatus(extended.mappings, name)
            status = msgspec.structs.replace(status, extended_resource_claim_status=made)
        spec = msgspec.structs.replace(pod.spec, node_name=assignment.node)
        bound = msgspec.structs.replace(pod, spec=spec, status=status)
        key = pod.metadata.key
        self._end_waiting(key)
        self._put_pod(bound)
        self._count(bound, 1)

    def _allocate(self, assigned: ClaimAssignment, pod_uid: str) -> None:
        claim = self.state.claims.get(assigned.claim.key) or assigned.claim
        status = claim.status
        reserved = status.reserved_for
        if not pod_claims.has_consumer(claim, assigned.consumer):
            reserved = (*reserved, assigned.consumer)
        allocation = status.allocation or assigned.allocation
        status = msgspec.structs.replace(status, allocation=allocation, reserved_for=reserved)
        self.state.claims.release(claim.key, pod_uid)
        self._put_claim(msgspec.structs.replace(claim, status=status))

    def _release(self, claim: ResourceClaim, pod: Pod) -> None:
        if movable_pods.is_owned(claim, pod):
            self._put_claim(None, claim.key)
            return
        status = claim.status
        left = tuple(user for user in status.reserved_for if user.uid != pod.metadata.uid)
        if len(left) < len(status.reserved_for):
            allocation = status.allocation if left else None
            status = msgspec.structs.replace(status, allocation=allocation, reserved_for=left)
            self._put_claim(msgspec.structs.replace(claim, status=status))

    # Writes that can be undone.

    def _end_waiting(self, key: ObjectKey) -> None:
        waiting = self._waiting.pop(key)
        self._undo.append(functools.partial(self._waiting.__setitem__, key, waiting))

    def _put_claim(self, claim: ResourceClaim | None, key: ClaimKey | None = None) -> None:
        key = claim.key if claim is not None else key
        assert key is not None
        old = self.state.claims.get(key)
        _write_claim(self.state, key, claim)
        self._undo.append(lambda: _write_claim(self.state, key, old))

    def _put_pod(self, pod: Pod) -> None:
        key = pod.metadata.key
        old = self.state.pods.get(key)
        self.state.put_pod(pod)

        def undo() -> None:
            self.state.drop_pod(key)
            if old is not None:
                self.state.put_pod(old)

        self._undo.append(undo)

    def _drop_pod(self, key: ObjectKey) -> None:
        old = self.state.pods.get(key)
        self.state.drop_pod(key)
        if old is not None:
            self._undo.append(lambda: self.state.put_pod(old))

    def _count(self, pod: Pod, change: int) -> None:
        key = pod.metadata.key
        if key not in self._kinds:
            self._kinds[key] = movable_pods.kind_of(pod)
        counted = (self._kinds[key], self.place_of(pod))
        self._moved[counted] += change
        self._undo.append(lambda: self._moved.update({counted: -change}))


def _write_claim(state: SchedulingState, key: ClaimKey, claim: ResourceClaim | None) -> None:
    if claim is None:
        state.claims.drop(key)
    else:
        state.claims.put(claim)

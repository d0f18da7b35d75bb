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
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.defragmentation import movable_pods
from dray.planner.defragmentation.movable_pods import Movability, MoveUnit
from dray.planner.placement import binding
from dray.planner.placement.place import NOW
from dray.planner.submission import submitted_pods
from dray.planner.what_if.compare import PodPosition
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider
from dray.scheduling.preemption.priorities import priority_of


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
        self.unschedulable = frozenset(
            node.metadata.name for node in cluster.of(Node) if node.spec.unschedulable
        )
        """Nodes that were cordoned before; they stay so."""
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
        self._turns = itertools.count()
        self._waiting = {
            item.pod.metadata.key: _Waiting(item.pod, next(self._turns))
            for item in submitted_pods.waiting(cluster)
        }
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

    def place_of(self, pod: Pod) -> PodPosition:
        """Return the node of a pod and the devices of its claims."""
        devices = []
        for key in pod_claims.used_claims(pod):
            claim = self.state.claims.get(key)
            if claim is not None and claim.status.allocation is not None:
                devices += [
                    DeviceId(result.driver, result.pool, result.device)
                    for result in claim.status.allocation.devices.results
                ]
        return PodPosition(pod.spec.node_name, tuple(devices))

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
            is_cordoned = name in names or name in self.unschedulable
            spec = msgspec.structs.replace(old.spec, unschedulable=is_cordoned)
            self.state.put_node(msgspec.structs.replace(old, spec=spec))
            self._undo.append(functools.partial(self.state.put_node, old))
        before = self._cordoned
        self._undo.append(lambda: setattr(self, "_cordoned", before))
        self._cordoned = names

    def remove(self, pods: Iterable[Pod]) -> None:
        """Delete pods, with the claims made for them; other claims lose them as consumers."""
        for pod in pods:
            self._count(pod, -1)
            self._keep([pod.metadata.key], pod_claims.used_claims(pod))
            binding.evict(self.state, pod)

    def forget_waiting(self) -> None:
        """Remove the pods that wait."""
        for key in list(self._waiting):
            self._keep([key])
            self.state.drop_pod(key)
            self._end_waiting(key)

    def submit(self, pod: Pod, claims: Sequence[ResourceClaim] = ()) -> None:
        """Let a pod wait for a node."""
        key = pod.metadata.key
        self._keep([key], [claim.key for claim in claims])
        for claim in claims:
            self.state.put(claim)
        self.state.put_pod(pod)
        self._waiting[key] = _Waiting(pod, next(self._turns))
        self._undo.append(functools.partial(self._waiting.pop, key))

    def settle(self) -> None:
        """Place the pods that wait, in the scheduler's order, until no further one fits."""
        while self._waiting:
            # Of equal priority, the one that has waited longest is first.
            ordered = sorted(
                self._waiting.values(), key=lambda item: (-priority_of(item.pod), item.turn)
            )
            pods = [item.pod for item in ordered]
            self.decisions += len(pods)
            decisions = self._decider.decide(pods, self._now)
            assigned = [found for found in decisions if isinstance(found, NodeAssignment)]
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
        made = [self.movability.replacement(pod) for pod in pods if pod not in bare]
        self.remove(pods)
        self._lose(bare)
        for replacement in made:
            self.submit(replacement.pod, replacement.claims)
        self.settle()
        return not any(self.is_waiting(replacement.pod.metadata.key) for replacement in made)

    def places_beside(
        self, pods: Sequence[Pod], cordoned: frozenset[str]
    ) -> list[PodPosition | None]:
        """Return the places of replacements that are made before their pods are gone.

        None for a pod without such a place, or whose replacement is only made later or never.
        """
        mark = self.mark()
        self.cordon(cordoned)
        self.settle()
        keys: list[ObjectKey | None] = []
        for pod in pods:
            if movable_pods.is_replaced_early(pod):
                made = movable_pods.renamed(self.movability.replacement(pod))
                self.submit(made.pod, made.claims)
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
        key = assignment.pod.metadata.key
        self._end_waiting(key)
        self._keep([key], [assigned.claim.key for assigned in assignment.fit.claims])
        binding.bind(self.state, assignment)
        bound = self.state.pods.get(key)
        assert bound is not None
        self._count(bound, 1)

    # Writes that can be undone.

    def _end_waiting(self, key: ObjectKey) -> None:
        waiting = self._waiting.pop(key)
        self._undo.append(functools.partial(self._waiting.__setitem__, key, waiting))

    def _keep(self, pods: Iterable[ObjectKey], claims: Iterable[ClaimKey] = ()) -> None:
        """Keep objects as they are now, to put them back."""
        old_pods = [(key, self.state.pods.get(key)) for key in pods]
        old_claims = [(key, self.state.claims.get(key)) for key in claims]

        def put_back() -> None:
            for key, pod in old_pods:
                self.state.drop_pod(key)
                if pod is not None:
                    self.state.put_pod(pod)
            for claim_key, claim in old_claims:
                if claim is None:
                    self.state.claims.drop(claim_key)
                else:
                    self.state.claims.put(claim)

        self._undo.append(put_back)

    def _count(self, pod: Pod, change: int) -> None:
        key = pod.metadata.key
        if key not in self._kinds:
            self._kinds[key] = movable_pods.kind_of(pod)
        counted = (self._kinds[key], self.place_of(pod))
        self._moved[counted] += change
        self._undo.append(lambda: self._moved.update({counted: -change}))

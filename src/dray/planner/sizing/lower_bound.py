"""The least that machines have to provide, to leave out numbers of them that cannot suffice.

A sum never says that machines suffice; only the scheduler's decision does. It relies on this: what
does not fit while nothing else is submitted does not fit after other pods were placed, wherever
these are (see `trials.may_fit_among_others`). More machines are not assumed to be better: they
change scores and topology domains, so pods may end up elsewhere and in the way of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from dray.allocator.model import requests
from dray.allocator.model.rejections import AllocationError
from dray.allocator.placement import Allocator
from dray.api.types.dra import ResourceClaim, ResourceSlice
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement.place import PlannedPod
from dray.planner.sizing import machine_types, trials
from dray.planner.sizing.machine_types import MachineType
from dray.planner.sizing.trials import Counts
from dray.planner.submission.submitted_pods import Submission, SubmittedPod
from dray.scheduling.nodes import pod_requirements
from dray.scheduling.nodes.node_fit import PODS
from dray.scheduling.state import SchedulingState

_RESOURCES = ("cpu", "memory", "ephemeral-storage", PODS)
_SHAREABLE = -1
"""Instead of devices: there are some among them that several claims can have."""


class _Sum(NamedTuple):
    """The amount that pods need, and the amount that one machine of each type has."""

    needed: int
    provided: Sequence[int]


class _NewcomerPod(NamedTuple):
    """A pod that does not fit in the cluster as it is, and the types of machines that have room."""

    item: SubmittedPod
    types: frozenset[int]


class _Place(NamedTuple):
    """A node that claims may get devices of."""

    allocator: Allocator
    node: str


_Accepted = tuple[int, ...]
"""The devices that a request accepts at each of several places."""


class LowerBound:
    """Excludes numbers of machines that have too little in sum."""

    def __init__(self, submission: Submission, types: Sequence[MachineType]) -> None:
        self._cluster, self._types = submission.cluster, types
        self._states = [self._state_with_only(type_) for type_ in types]
        pods = submission.pods
        rejected = {
            planned.submitted.pod.metadata.uid
            for planned in trials.alone(self._cluster, pods)
            if not trials.may_fit_among_others(planned)
        }
        # A machine that takes a pod of the cluster that waits leaves more of the others.
        placed = [*submission.waiting, *pods]
        hosted = [set(self._fitting_on(type_, placed)) for type_ in types]
        self.useful = [
            bool(uids) or any(_has_neighbour_rules(item.pod) for item in placed) for uids in hosted
        ]
        """Whether a machine of each type can make a difference."""
        self.newcomers = [
            _NewcomerPod(item, _types_for(item, hosted))
            for item in pods
            if item.pod.metadata.uid in rejected
        ]
        state = self._cluster.state()
        self._sums = [*self._of_everything(pods, state), *self._of_newcomers()]
        self._sums += self._of_devices(newcomer.item for newcomer in self.newcomers)
        self._sums += self._of_devices(pods, _places(state))

    def excludes(self, counts: Counts) -> bool:
        return any(
            sum(count * provided for count, provided in zip(counts, total.provided, strict=True))
            < total.needed
            for total in self._sums
        )

    def hopeless(self) -> list[PlannedPod]:
        """Return the pods that no machine of these types helps, with the reasons against each."""
        pods = [newcomer.item for newcomer in self.newcomers if not newcomer.types]
        cluster = machine_types.with_machines(self._cluster, self._types, [1] * len(self._types))
        return list(trials.alone(cluster, pods)) if pods else []

    def _alone_on(self, type_: MachineType) -> ClusterModel:
        """Return the cluster with one machine of a type instead of its nodes."""
        empty = self._cluster.without(Node, lambda _: True)
        return machine_types.with_machines(empty, [type_], [1])

    def _state_with_only(self, type_: MachineType) -> SchedulingState:
        return self._alone_on(type_).state()

    def _fitting_on(self, type_: MachineType, pods: Iterable[SubmittedPod]) -> Iterator[str]:
        for planned in trials.alone(self._alone_on(type_), pods):
            if trials.may_fit_among_others(planned):
                yield planned.submitted.pod.metadata.uid

    def _of_everything(
        self, pods: Sequence[SubmittedPod], state: SchedulingState
    ) -> Iterator[_Sum]:
        """Yield what all pods need beyond that which the nodes have left."""
        left: Counter[str] = Counter()
        for node in state.nodes:
            for name in _RESOURCES:
                used = len(node.usages) if name == PODS else node.requested.get(name, 0)
                left[name] += max(0, node.allocatable.get(name, 0) - used)
        needed = _needs(pods)
        for name in _RESOURCES:
            yield _Sum(needed[name] - left[name], self._allocatable(name))

    def _of_newcomers(self) -> Iterator[_Sum]:
        """Yield what pods need that have to be on machines of some types."""
        for types in {newcomer.types for newcomer in self.newcomers}:
            pods = [item for item, suitable in self.newcomers if suitable <= types]
            needed = _needs(pods)
            for name in _RESOURCES:
                allocatable = enumerate(self._allocatable(name))
                yield _Sum(
                    needed[name], [value if number in types else 0 for number, value in allocatable]
                )

    def _allocatable(self, name: str) -> list[int]:
        return [
            sum(node.allocatable.get(name, 0) for node in state.nodes) for state in self._states
        ]

    def _of_devices(
        self, pods: Iterable[SubmittedPod], existing: Sequence[_Place] = ()
    ) -> Iterator[_Sum]:
        """Yield how many devices requests need that accept the same ones, beyond the free ones.

        `existing` are all nodes on which pods may be that are not on new machines.
        """
        if any(not item.spec.node_name for item in self._cluster.of(ResourceSlice)):
            return  # Devices that belong to no node would be counted for each of them.
        places = [*map(_only_place, self._states), *existing]
        needed: Counter[_Accepted] = Counter()
        known: dict[requests.Signature, Counter[_Accepted]] = {}
        claims = {claim.key: claim for item in pods for claim in item.claims}
        for claim in claims.values():
            signature = requests.signature([claim])
            if signature not in known:
                known[signature] = _devices_for(claim, places)
            needed.update(known[signature])
        for accepted, number in needed.items():
            devices = [mask.bit_count() for mask in accepted]
            new, free = devices[: len(self._types)], devices[len(self._types) :]
            yield _Sum(number - sum(free), new)


def _only_place(state: SchedulingState) -> _Place:
    (node,) = state.nodes
    return _Place(Allocator(state.inventory, new_share_id=state.new_share_id), node.name)


def _places(state: SchedulingState) -> list[_Place]:
    allocator = Allocator(state.inventory, new_share_id=state.new_share_id)
    return [_Place(allocator, node.name) for node in state.nodes]


def _devices_for(claim: ResourceClaim, places: Iterable[_Place]) -> Counter[_Accepted]:
    """Return how many devices a claim needs, by the free ones that it accepts at each place.

    Requests that may get devices which others have as well are left out.
    """
    parsed = requests.parse_claim(claim.spec.devices)
    accepted: list[list[int]] = [[] for _ in parsed.requests]
    for place in places:
        try:
            problem = place.allocator.problem([claim], place.node)
        except AllocationError:
            return Counter()
        inventory = problem.inventory
        for devices, request in zip(accepted, problem.requests, strict=True):
            union = 0
            for alternative in request.alternatives:
                union |= alternative.eligible | alternative.failing
            free = union & ~inventory.taken
            devices.append(_SHAREABLE if union & inventory.shareable else free)
    needed: Counter[_Accepted] = Counter()
    for masks, written in zip(accepted, parsed.requests, strict=True):
        if _SHAREABLE not in masks:
            needed[tuple(masks)] += min(_least(item) for item in written.alternatives)
    return needed


def _types_for(item: SubmittedPod, hosted: Sequence[Container[str]]) -> frozenset[int]:
    return frozenset(number for number, uids in enumerate(hosted) if item.pod.metadata.uid in uids)


def _has_neighbour_rules(pod: Pod) -> bool:
    """Return whether nodes on which the pod does not fit may count for it."""
    affinity = pod.spec.affinity
    return bool(
        pod.spec.topology_spread_constraints
        or (affinity and (affinity.pod_affinity or affinity.pod_anti_affinity))
    )


def _least(alternative: requests.Alternative) -> int:
    """Return the devices that an alternative takes from others at least."""
    return 0 if alternative.is_all or alternative.admin_access else alternative.count


def _needs(pods: Iterable[SubmittedPod]) -> Counter[str]:
    """Return the resources that pods request in sum."""
    needed: Counter[str] = Counter()
    for item in pods:
        amounts = pod_requirements.requirements_of(item.pod).usage.amounts
        for name in _RESOURCES:
            needed[name] += 1 if name == PODS else amounts.get(name, 0)
    return needed

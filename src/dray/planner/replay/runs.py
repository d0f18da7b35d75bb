"""One run: the pods of a trace are placed one by one under one policy."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from dray.planner.policies.by_name import POLICIES
from dray.planner.policies.interface import PlacementPolicy, Ties
from dray.planner.policies.rooms import NodeRoom, PodRequest
from dray.planner.replay.ranking import Rankings
from dray.planner.traces import arrivals
from dray.planner.traces.openb import Trace, TracePod

Progress = Callable[[int, int], None]
"""Receives the number of pods that were placed or dropped, and of all pods."""


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """A point of a run, in percent of the capacity of all GPUs."""

    at: float
    """The demand so far; with departures, the time in seconds."""
    allocated: float
    demand: float
    """What is requested now; with departures, without the pods that have left."""


class PodPlacement(NamedTuple):
    """The node and GPUs of one pod; a pod that fits nowhere has no node."""

    pod: str
    node: str | None
    gpus: Sequence[int]


class Run(msgspec.Struct, kw_only=True):
    """The result of one run."""

    policy: str
    seed: int
    pods: int
    dropped: int
    samples: list[Sample]
    placements: list[PodPlacement] = []

    def allocated_at(self, demand: float) -> float:
        """Return how much was allocated when the demand reached some percent."""
        return next((s.allocated for s in self.samples if s.at >= demand), self.final)

    @property
    def final(self) -> float:
        """Return how much was allocated at the end."""
        return self.samples[-1].allocated

    @property
    def peak(self) -> float:
        """Return the highest allocation."""
        return max(sample.allocated for sample in self.samples)


def replay(
    trace: Trace,
    policy: str | PlacementPolicy,
    seed: int,
    *,
    demand: float = 1.3,
    has_departures: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Place the pods of a trace under a policy: a name of `by_name.POLICIES`, or one of your own.

    Pods arrive in an order that the seed decides until their requests reach `demand` times the
    capacity, and nothing leaves. With departures, they come and leave at the times of the trace.
    A pod that fits nowhere when it arrives is dropped. Raises ValueError if the trace has no pod
    with a GPU, or no times for departures.
    """
    name = policy if isinstance(policy, str) else type(policy).__name__
    if isinstance(policy, str):
        policy = POLICIES[policy](trace.requests())
    cluster = ReplayedCluster(trace, policy, seed)
    if has_departures:
        steps = _timed(trace, cluster)
        total = len(trace.pods)
    else:
        pods = arrivals.shuffled(trace, demand, seed)
        steps, total = _arriving(pods, cluster), len(pods)
    sample = Sample(0.0, 0.0, 0.0)
    samples = [sample]
    """The first at each whole percent, and the last; all of them with departures."""
    placements: list[PodPlacement] = []
    for at, placement in steps:
        if placement is not None:
            placements.append(placement)
            if progress is not None:
                progress(len(placements), total)
        sample = Sample(at, cluster.percent(cluster.allocated), cluster.percent(cluster.requested))
        if int(at) > int(samples[-1].at) or has_departures:
            samples.append(sample)
    if samples[-1] != sample:
        samples.append(sample)
    return Run(
        policy=name,
        seed=seed,
        pods=len(placements),
        dropped=sum(placement.node is None for placement in placements),
        samples=samples,
        placements=placements,
    )


_Step = tuple[float, PodPlacement | None]


def _arriving(pods: Sequence[TracePod], cluster: ReplayedCluster) -> Iterator[_Step]:
    for pod in pods:
        placement = cluster.place(pod)
        yield cluster.percent(cluster.requested), placement


def _timed(trace: Trace, cluster: ReplayedCluster) -> Iterator[_Step]:
    running: dict[int, PodPlacement] = {}
    for event in arrivals.by_time(trace.pods):
        pod = trace.pods[event.number]
        if event.is_arrival:
            running[event.number] = cluster.place(pod)
            yield float(event.time), running[event.number]
        else:
            cluster.remove(pod.request, running.pop(event.number))
            yield float(event.time), None


class ReplayedCluster:
    """The nodes of a trace with the pods that are on them."""

    def __init__(self, trace: Trace, policy: PlacementPolicy, seed: int) -> None:
        # Apart from the order of the pods, so that all policies get the same pods.
        self._draw = random.Random(f"{seed} nodes")
        nodes = list(trace.nodes)
        if policy.ties is Ties.SHUFFLED:
            self._draw.shuffle(nodes)
        self.nodes = [
            NodeRoom(index, n.name, cpu=n.cpu, memory=n.memory, gpus=n.gpus, model=n.model)
            for index, n in enumerate(nodes)
        ]
        self._by_name = {node.name: node for node in self.nodes}
        self._policy, self._capacity = policy, trace.capacity
        self._rankings = Rankings(self.nodes, policy, self._draw)
        self.requested = self.allocated = 0

    def percent(self, parts: int) -> float:
        """Return parts of GPUs in percent of the capacity."""
        return 100 * parts / self._capacity

    def place(self, pod: TracePod) -> PodPlacement:
        """Give a pod its node and GPUs, if it fits anywhere."""
        request = pod.request
        self.requested += request.parts
        node = self._rankings.best(request)
        if node is None:
            return PodPlacement(pod.name, None, ())
        gpus = self._policy.gpus(node, request, self._draw)
        node.take(request, gpus)
        self._rankings.changed(node)
        self.allocated += request.parts
        return PodPlacement(pod.name, node.name, tuple(gpus))

    def remove(self, request: PodRequest, placement: PodPlacement) -> None:
        """Free what a pod had that leaves."""
        self.requested -= request.parts
        if placement.node is None:
            return
        node = self._by_name[placement.node]
        node.release(request, placement.gpus)
        self._rankings.changed(node)
        self.allocated -= request.parts

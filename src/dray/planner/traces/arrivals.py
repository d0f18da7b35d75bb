"""In which order the pods of a trace arrive and leave."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from dray.planner.traces.openb import Trace, TracePod


class Event(NamedTuple):
    """A pod arrives or leaves; `number` tells pods with one name apart."""

    time: int
    is_arrival: bool
    number: int


def shuffled(trace: Trace, demand: float, seed: int) -> list[TracePod]:
    """Return pods whose requests for GPUs add up to `demand` times the capacity.

    Every pod of the trace is there once, in an order that the seed decides, and then pods drawn
    from it. Where the trace has more than that, pods are left out at random. Raises ValueError if
    no pod requests a GPU.
    """
    if not any(pod.request.parts for pod in trace.pods):
        raise ValueError("no pod of the trace requests a GPU")
    draw = random.Random(seed)
    pods = list(trace.pods)
    draw.shuffle(pods)
    limit = demand * trace.capacity
    requested = sum(pod.request.parts for pod in pods)
    while requested > limit:
        requested -= pods.pop(draw.randrange(len(pods))).request.parts
    while True:
        pod = draw.choice(trace.pods)
        if requested + pod.request.parts > limit:
            return pods
        requested += pod.request.parts
        pods.append(pod)


def by_time(pods: Sequence[TracePod]) -> list[Event]:
    """Return arrivals and departures in their order; at equal times departures come first.

    Raises ValueError if the trace has no times.
    """
    events = []
    for number, pod in enumerate(pods):
        if pod.arrives is None:
            raise ValueError(f"pod {pod.name} has no creation_time, which departures need")
        events.append(Event(pod.arrives, True, number))
        if pod.leaves is not None:
            # A pod that leaves at once still arrives before that.
            events.append(Event(max(pod.leaves, pod.arrives + 1), False, number))
    return sorted(events)

"""Runs with several seeds, as one line for each policy and as curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

import msgspec

from dray.planner.replay.runs import Run, Sample


class PolicySummary(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """The results of one policy over all seeds; shares are percent of the capacity."""

    policy: str
    seeds: list[int]
    pods: float
    dropped: float
    """Pods that fit nowhere when they arrived."""
    mean: float
    """At the end; with departures, over the time."""
    lowest: float
    highest: float
    mean_at_100: float | None = None
    """When as much had been requested as there is."""
    peak: float | None = None
    """The highest allocation at any time, with departures."""


def summaries(runs: Sequence[Run], *, has_departures: bool = False) -> list[PolicySummary]:
    """Return one line for each policy, in the order of the runs."""
    return [_summary(group, has_departures) for group in _by_policy(runs).values()]


def mean_curves(runs: Sequence[Run]) -> dict[str, list[Sample]]:
    """Return for each policy the mean over its runs, at each whole percent of the demand."""
    curves: dict[str, list[Sample]] = {}
    for policy, group in _by_policy(runs).items():
        last = round(min(run.samples[-1].at for run in group))
        curves[policy] = [
            Sample(float(at), fmean(run.allocated_at(at) for run in group), float(at))
            for at in range(last + 1)
        ]
    return curves


def _by_policy(runs: Sequence[Run]) -> Mapping[str, list[Run]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.policy, []).append(run)
    return groups


def _summary(runs: Sequence[Run], has_departures: bool) -> PolicySummary:
    reached = [_mean_over_time(run) if has_departures else run.final for run in runs]
    reaches_100 = not has_departures and all(run.samples[-1].at >= 100 for run in runs)
    return PolicySummary(
        policy=runs[0].policy,
        seeds=[run.seed for run in runs],
        pods=fmean(run.pods for run in runs),
        dropped=fmean(run.dropped for run in runs),
        mean=fmean(reached),
        lowest=min(reached),
        highest=max(reached),
        mean_at_100=fmean(run.allocated_at(100) for run in runs) if reaches_100 else None,
        peak=fmean(run.peak for run in runs) if has_departures else None,
    )


def _mean_over_time(run: Run) -> float:
    """Return the mean allocation between the first and the last event."""
    samples = run.samples[1:]
    duration = samples[-1].at - samples[0].at
    if not duration:
        return samples[-1].allocated
    area = sum(now.allocated * (later.at - now.at) for now, later in pairwise(samples))
    return area / duration

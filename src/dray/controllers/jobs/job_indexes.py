"""Completion indexes of Indexed jobs: as text, of pods, and the next ones to start."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable

from dray.api import well_known
from dray.api.types.pods import Pod

FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"

Indexes = frozenset[int]


def parse(text: str | None, completions: int) -> Indexes:
    """Return the indexes of a text such as "0-2,5" below `completions`; skips the rest."""
    indexes: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            indexes.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return frozenset(indexes)


def render(indexes: Iterable[int]) -> str:
    """Return the indexes as text, with three or more in a row as a range."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(_render_run(run) for run in runs)


def _render_run(run: list[int]) -> str:
    return ",".join(map(str, run)) if len(run) < 3 else f"{run[0]}-{run[-1]}"


def of_pod(pod: Pod) -> int | None:
    return _number(pod, well_known.COMPLETION_INDEX)


def of_pods(pods: Iterable[Pod]) -> set[int]:
    return {index for index in map(of_pod, pods) if index is not None}


def failures(pod: Pod) -> int:
    """Return how often the pod's index failed before, as far as that counts."""
    return _number(pod, FAILURE_COUNT) or 0


def ignored_failures(pod: Pod) -> int:
    return _number(pod, IGNORED_FAILURE_COUNT) or 0


def _number(pod: Pod, annotation: str) -> int | None:
    text = pod.metadata.annotations.get(annotation, "")
    return int(text) if text.isdigit() else None


def first_pending(taken: Collection[int], count: int, completions: int) -> list[int]:
    """Return the lowest indexes that are neither done nor running."""
    pending = (index for index in range(completions) if index not in taken)
    return list(itertools.islice(pending, max(count, 0)))

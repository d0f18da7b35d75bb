"""Completion indexes of Indexed jobs: as text, on pods, and which come next."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dray.api.types.pods import Pod

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"

Indexes = frozenset[int]


def parse(text: str | None, completions: int) -> Indexes:
    """The indexes of "0-2,5" below `completions`; what is not a number is left out."""
    found: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return frozenset(found)


def render(indexes: Iterable[int]) -> str:
    """Three or more in a row are written as a range."""
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
    return _number(pod, COMPLETION_INDEX)


def of_pods(pods: Iterable[Pod]) -> set[int]:
    return {index for index in map(of_pod, pods) if index is not None}


def failures(pod: Pod) -> int:
    """How often the pod's index had failed before it, as far as that counts."""
    return _number(pod, FAILURE_COUNT) or 0


def ignored_failures(pod: Pod) -> int:
    return _number(pod, IGNORED_FAILURE_COUNT) or 0


def _number(pod: Pod, annotation: str) -> int | None:
    text = pod.metadata.annotations.get(annotation, "")
    return int(text) if text.isdigit() else None


def first_pending(taken: Collection[int], count: int, completions: int) -> list[int]:
    """The lowest indexes that are neither done nor running."""
    pending: list[int] = []
    for index in range(completions):
        if len(pending) >= count:
            break
        if index not in taken:
            pending.append(index)
    return pending

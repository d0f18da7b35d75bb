"""Simulated containers: nothing is started; annotations of the pod say what would happen.

A pod that restarts its containers runs until it is deleted. Any other ends by itself: at once, or
after the seconds in `dray.dev/run-seconds`, with the code in `dray.dev/exit-code`. Where the policy
says so, containers that have ended run again after a back-off. A pod that is deleted takes the
seconds in `dray.dev/stop-seconds` to stop, but no longer than its grace period.
All state is in the pod, so that a restarted agent goes on where the last one stopped.
"""

from __future__ import annotations

import datetime
from typing import Final

from dray.api.formats import gotime
from dray.api.types.pods import Pod

NAME: Final = "none"
RUN_SECONDS, STOP_SECONDS = "dray.dev/run-seconds", "dray.dev/stop-seconds"
EXIT_CODE: Final = "dray.dev/exit-code"
FOREVER: Final = float("inf")
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 10.0, 300.0


def seconds_left(pod: Pod, now: datetime.datetime) -> float:
    """Return the seconds until the containers of a started pod end by themselves."""
    total = run_seconds(pod)
    if total == FOREVER or pod.status.start_time is None:
        return total
    started = gotime.parse(pod.status.start_time)
    return total - (now - started).total_seconds()


def run_seconds(pod: Pod) -> float:
    asked = _number(pod, RUN_SECONDS)
    if asked is not None:
        return asked
    return FOREVER if pod.spec.restart_policy in ("", "Always") else 0.0


def restarts(pod: Pod) -> bool:
    """Whether containers that have ended are started again."""
    policy = pod.spec.restart_policy or "Always"
    return policy == "Always" or (policy == "OnFailure" and exit_code(pod) != 0)


def backoff_seconds(pod: Pod) -> float:
    """Return the back-off before the next start: 0, then 10 s, 20 s … as a kubelet."""
    count = max((status.restart_count for status in pod.status.container_statuses), default=0)
    return (
        min(FIRST_BACKOFF_SECONDS * 2.0 ** min(count - 1, 8), MAX_BACKOFF_SECONDS) if count else 0
    )


def stop_seconds(pod: Pod) -> float:
    """Return the seconds that a deleted pod takes to stop."""
    grace = pod.metadata.deletion_grace_period_seconds or 0
    return min(_number(pod, STOP_SECONDS) or 0.0, grace)


def exit_code(pod: Pod) -> int:
    return int(_number(pod, EXIT_CODE) or 0) & 0xFF


def _number(pod: Pod, annotation: str) -> float | None:
    """Return the value of an annotation, or None where it is not a number."""
    try:
        return max(float(pod.metadata.annotations[annotation]), 0.0)
    except (KeyError, ValueError):
        return None

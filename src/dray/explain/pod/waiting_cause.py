"""The cause for which a pod waits, in a few words for a table."""

from __future__ import annotations

from dray.explain.pod import obstacles, pod_progress_text
from dray.explain.pod.pod_explanation import PodExplanation
from dray.explain.text import explanation_text

NO_POD = "no pod uses it"
"""What a claim without devices waits for that no pod names."""


def short(explained: PodExplanation) -> str:
    """Return in a few words why a pod waits, or "" if nothing is in its way."""
    blocked = explained.progress.blocked
    if blocked is None:
        return ""
    first = blocked.obstacles[0]
    if isinstance(first, obstacles.ClaimsDoNotFit) and explained.explanation is not None:
        return explanation_text.short(explained.explanation)
    return pod_progress_text.sentence(first)

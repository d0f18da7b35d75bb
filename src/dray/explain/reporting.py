"""Explanations as `dray explain` prints them: as lines of text, and as data."""

from __future__ import annotations

from typing import Any

from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.pod import pod_fix_text, pod_progress_text
from dray.explain.pod.pod_explanation import PodExplanation
from dray.explain.preemption import preemption_text
from dray.explain.preemption.pod_preemption import PodPreemption
from dray.explain.report import Report, ReportForm, ReportText
from dray.explain.text import explanation_text

Reported = PodExplanation | Explanation
"""What is explained: a pod with its claims, or claims by themselves."""


def is_good(explained: Reported) -> bool:
    """Return whether a pod goes its way, or claims are or can be allocated."""
    if isinstance(explained, PodExplanation):
        if explained.progress.blocked is not None:
            return False
        if explained.explanation is None:
            return True
        explained = explained.explanation
    return explained.outcome in (Outcome.ALLOCATED, Outcome.FITS)


def text(
    explained: Reported, preemption: PodPreemption | None = None, *, bars: bool = False
) -> ReportText:
    """Return the lines to print; `bars` adds charts."""
    if isinstance(explained, Explanation):
        return ReportText(tuple(explanation_text.text(explained, bars=bars).splitlines()))
    stages = pod_progress_text.lines(explained.progress, pod_fix_text.fixes(explained))
    evicting = preemption_text.lines(preemption) if preemption is not None else ()
    devices = pod_fix_text.device_lines(explained, bars=bars)
    return ReportText(tuple(stages), (*(f"  {line}" for line in evicting), *devices))


def document(
    title: str, explained: Reported | None, preemption: PodPreemption | None = None
) -> dict[str, Any]:
    """Return an explanation as data; it is None where rights do not allow one."""
    about: dict[str, Any] = {"about": title}
    if preemption is not None:
        about["preemption"] = preemption_text.as_json(preemption)
    if isinstance(explained, PodExplanation):
        return {**about, **pod_fix_text.document(explained)}
    return {**about, **(explanation_text.as_json(explained) if explained else {})}


def report(title: str, explained: Reported, form: ReportForm) -> Report:
    """Return an explanation in one form."""
    if form is ReportForm.DATA:
        return Report(is_good(explained), document=document(title, explained))
    return Report(is_good(explained), text(explained, bars=form is ReportForm.WIDE))

"""The explanation of a pod or a claim, as `dray explain` prints it and as data for charts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dray.api import errors, kinds
from dray.api.ids import ObjectKey
from dray.api.types.core import Namespace, PodDisruptionBudget, PriorityClass
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.client.api_client import Client
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.pod import pod_fix_text, pod_progress_text
from dray.explain.pod.pod_context import PodContext
from dray.explain.pod.pod_explanation import PodExplanation
from dray.explain.pod.pod_progress import PodProgress, StageState, StageStatus
from dray.explain.preemption import pod_preemption, preemption_text
from dray.explain.preemption.preemption_explainer import PreemptionExplainer
from dray.explain.text import explanation_text
from dray.ui.model.explained_cluster import ExplainedCluster, Unexplained
from dray.ui.model.explainer import first_fix
from dray.ui.pages.page_errors import PageError
from dray.ui.pages.viewer import Viewer

_PASSED = {StageState.PASSED: True, StageState.WARNING: True, StageState.BLOCKED: False}
_FURTHER = (
    (kinds.NAMESPACE, Namespace),
    (kinds.served("policy", "PodDisruptionBudget"), PodDisruptionBudget),
    (kinds.POD_GROUP, PodGroup),
    (kinds.served("scheduling.k8s.io", "PriorityClass"), PriorityClass),
)
"""What preemption depends on besides what the dashboard follows."""


class FunnelStep(msgspec.Struct, frozen=True):
    label: str
    left: int
    of: int


class CheckLine(msgspec.Struct, frozen=True):
    """A stage of a pod; `passed` is null for one that is not reached, or not known."""

    text: str
    passed: bool | None


class FixText(msgspec.Struct, frozen=True):
    text: str
    command: str | None


class ExplanationPage(msgspec.Struct, frozen=True):
    """An explanation as it is on the wire."""

    headline: str
    text: str
    funnel: Sequence[FunnelStep]
    checks: Sequence[CheckLine]
    fix: FixText | None


async def of_pod(viewer: Viewer, namespace: str, name: str) -> ExplanationPage:
    """Return why a pod waits or fails, and what would help."""
    key = ObjectKey(namespace, name)
    about = await viewer.explainer.events_of(key, viewer.person.client)
    further: Sequence[Any] | None = None
    if pod_preemption.is_explained(viewer.model.features):
        further = await _further_objects(viewer.person.client)

    def explained(cluster: ExplainedCluster) -> ExplanationPage:
        pod, found, context = cluster.explain_pod(key, about.events, may_read_events=about.may_read)
        return _pod_page(pod, found, list(_preemption_lines(pod, context, further)))

    try:
        return await viewer.explainer.ask(explained)
    except Unexplained as error:
        advice = "Has it ended, or was it deleted? Its events remain for a while."
        raise PageError(404, str(error), advice) from error


async def of_claim(viewer: Viewer, namespace: str, name: str) -> ExplanationPage:
    """Return whether a claim can be allocated by itself, and what would help."""
    key = ObjectKey(namespace, name)
    try:
        found = await viewer.explainer.ask(lambda cluster: cluster.explain_claim(key))
    except Unexplained as error:
        raise PageError(404, str(error)) from error
    return _claim_page(found, key)


def _pod_page(pod: Pod, found: PodExplanation, evicting: Sequence[str]) -> ExplanationPage:
    fixes = pod_fix_text.fixes(found)
    lines = [
        *pod_progress_text.lines(found.progress, fixes),
        *(f"  {line}" for line in evicting),
        *pod_fix_text.device_lines(found),
    ]
    command = next((line for line in map(str.strip, fixes) if line.startswith("dray ")), None)
    if command is None and first_fix(fixes):
        command = f"dray explain pod/{pod.metadata.name} -n {pod.metadata.namespace} --fix"
    return ExplanationPage(
        pod_progress_text.headline(found.progress),
        "\n".join(filter(None, lines)),
        _funnel(found.explanation),
        _checks(found.progress),
        _fix(fixes, command),
    )


def _claim_page(found: Explanation, key: ObjectKey) -> ExplanationPage:
    fixes = explanation_text.fixes(found)
    command = f"dray explain claim/{key.name} -n {key.namespace} --fix"
    is_allocated = found.outcome is Outcome.ALLOCATED
    fits = found.outcome in (Outcome.FITS, Outcome.ALLOCATED)
    return ExplanationPage(
        explanation_text.headline(found),
        explanation_text.text(found).rstrip(),
        _funnel(found),
        [CheckLine("is allocated" if is_allocated else "fits", fits)],
        _fix(fixes, command),
    )


def _fix(lines: list[str], command: str | None) -> FixText | None:
    text = first_fix(lines)
    return FixText(text, command) if text else None


def _funnel(explanation: Explanation | None) -> list[FunnelStep]:
    rows = list(explanation_text.funnel_rows(explanation)) if explanation is not None else []
    several = len({row.request for row in rows}) > 1
    return [
        FunnelStep(f"{row.request}: {row.label}" if several else row.label, row.left, row.of)
        for row in rows
    ]


def _checks(progress: PodProgress) -> list[CheckLine]:
    return [CheckLine(_check(step), _PASSED.get(step.state)) for step in progress.steps]


def _check(step: StageStatus) -> str:
    words = [pod_progress_text.sentence(found) for found in step.obstacles[:1]]
    return f"{step.stage}: {words[0]}" if words else str(step.stage)


def _preemption_lines(
    pod: Pod, context: PodContext, further: Sequence[Any] | None
) -> Iterable[str]:
    """Return what the scheduler evicts for a pod, where the cluster has preemption."""
    if further is None:
        found = pod_preemption.under_way(pod, context.pods, is_on=False)
    elif pod_preemption.NEEDED & {*context.unread, *context.partly_read}:
        return ()
    else:
        found = PreemptionExplainer(context, list(further)).explain(pod)
    return preemption_text.lines(found) if found is not None else ()


async def _further_objects(client: Client) -> list[Any]:
    found: list[Any] = []
    for kind, type_ in _FURTHER:
        try:
            page = await client.list(kind)
        except (errors.Forbidden, errors.NotFound):
            continue
        found += [msgspec.json.decode(item, type=type_) for item in page.items]
    return found

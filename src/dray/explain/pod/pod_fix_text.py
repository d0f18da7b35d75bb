"""Changes of pods and nodes as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dray.explain.claim_explanation import Outcome
from dray.explain.pod import pod_changes, pod_progress_text
from dray.explain.pod.obstacles import ClaimsDoNotFit
from dray.explain.pod.pod_changes import FIELD_OF, Change, NodeChange
from dray.explain.pod.pod_explanation import PodExplanation, PodFix
from dray.explain.text import explanation_text, phrases


def fixes(explained: PodExplanation) -> list[str]:
    """Return what would help the pod, in one line each, the best first."""
    words = [text(fix) for fix in explained.fixes]
    commands = {text(fix): list(commands_of(fix)) for fix in explained.fixes}
    if explained.explanation is not None and is_about_devices(explained):
        of_claims = explanation_text.fixes(explained.explanation)
        if not explained.explanation.changes and words:
            of_claims = []
        words += [line.partition(": ")[2] if ": " in line else line for line in of_claims]
    lines: list[str] = []
    for number, line in enumerate(words):
        lines.append(line if line.startswith("No ") else f"{'or' if number else 'fix'}: {line}")
        lines += [f"  {command}" for command in commands.get(line, ())]
    return lines


def lines(explained: PodExplanation) -> Iterator[str]:
    """Yield the explanation of a pod: verdict and fixes, stages, devices."""
    yield from pod_progress_text.lines(explained.progress, fixes(explained))
    yield from device_lines(explained)


def device_lines(explained: PodExplanation, *, bars: bool = False) -> Iterator[str]:
    """Yield what there is to say about devices, below the stages of the pod."""
    explanation = explained.explanation
    if explanation is None:
        return
    if explanation.outcome not in (Outcome.ALLOCATED, Outcome.FITS):
        yield from explanation_text.details(explanation, bars=bars)
    elif explanation.outcome is Outcome.ALLOCATED or explained.progress.blocked is None:
        # A pod that waits for another reason does not fit on the node with the devices.
        yield explanation_text.headline(explanation)


def commands_of(fix: PodFix) -> Iterator[str]:
    """Yield the commands that change nodes."""
    for part in fix.changes:
        if isinstance(part, NodeChange):
            yield f"dray patch node {part.node} -p '{json.dumps(part.patch())}'"


def is_about_devices(explained: PodExplanation) -> bool:
    """Return whether devices are what the pod waits for first."""
    blocked = explained.progress.blocked
    return blocked is not None and isinstance(blocked.obstacles[0], ClaimsDoNotFit)


def text(fix: PodFix) -> str:
    """Return what to change, and what follows."""
    words = changes(fix)
    if fix.explanation is not None and fix.explanation.changes:
        further = fix.explanation.changes[0]
        more = explanation_text.change_text(fix.explanation, further)
        return f"{words}, and {more}; it fits on {further.node}"
    if fix.next is not None and fix.next.blocked is not None:
        return f"{words}; then {pod_progress_text.sentence(fix.next.blocked.obstacles[0])}"
    return f"{words}; it fits on {fix.node}" if fix.node else words


def changes(fix: PodFix) -> str:
    """Return what to change in the pod and in nodes."""
    return ", and ".join(map(change, fix.changes))


def change(changed: Change) -> str:
    """Return what to change."""
    match changed:
        case pod_changes.SelectNodes(replacement=""):
            label = phrases.code(f"{changed.label}: {changed.asked}")
            return f"remove {label} from the pod's nodeSelector"
        case pod_changes.SelectNodes():
            old = phrases.code(f"{changed.label}: {changed.asked}")
            new = phrases.code(f"{changed.replacement}: {changed.value}")
            return f"write {new} instead of {old} in the pod's nodeSelector"
        case pod_changes.DropNodeAffinity():
            return "remove the required node affinity from the pod"
        case pod_changes.TolerateNodeTaint():
            return f"add to the pod's tolerations: {phrases.code(_flow(changed.toleration()))}"
        case pod_changes.ReferTo(pod_claim=pod_claim, kind=kind, name=name):
            return (
                f"write {phrases.code(f'{FIELD_OF[kind]}: {name}')} for the pod's claim {pod_claim}"
            )
        case pod_changes.UseClaim(pod_claim=pod_claim, container=container):
            field = phrases.code(f"resources: {{claims: [{{name: {pod_claim}}}]}}")
            return f"add {field} to container {container}"
        case pod_changes.RenameRequest():
            new, old = phrases.code(changed.replacement), phrases.code(changed.request)
            return f"write request {new} instead of {old} in container {changed.container}"
        case pod_changes.RenameResource(resource=resource, replacement=replacement):
            return f"write {phrases.code(replacement)} instead of {phrases.code(resource)}"
        case pod_changes.CopyObject(kind=kind, name=name):
            return f"copy {kind} {name} from namespace {changed.source} to {changed.namespace}"
    assert isinstance(changed, NodeChange)
    if isinstance(changed, pod_changes.RemoveTaint):
        return f"remove the taint {changed.key}:{changed.effect} from node {changed.node}"
    return f"uncordon node {changed.node}"


def _flow(fields: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in fields.items()) + "}"


def document(explained: PodExplanation) -> dict[str, Any]:
    """Return the explanation of a pod as data."""
    way = pod_progress_text.as_json(explained.progress)
    of_pod = [{"text": text(fix), "node": fix.node} for fix in explained.fixes]
    explanation = explained.explanation
    words = explanation_text.as_json(explanation) if explanation else {}
    return {"way": {**way, "fixes": of_pod}, **words}

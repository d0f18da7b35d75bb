"""Changes of files with which pods and claims could be scheduled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dray.api.types import dra
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.cli.lint import field_changes
from dray.cli.lint.checks import pod_specs
from dray.cli.lint.checks.scheduling_subjects import SchedulingSubject
from dray.cli.lint.field_changes import FieldChange, RemoveField, RenameField, SetField
from dray.cli.lint.findings import Suggestion
from dray.cli.lint.source_documents import Document
from dray.explain.claim_explanation import Explanation
from dray.explain.selectors import spelling
from dray.explain.text import phrases
from dray.scheduling.nodes import node_fit
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable

_SHOWN = 4


def for_devices(subject: SchedulingSubject, explanation: Explanation) -> Iterator[Suggestion]:
    """Yield the changes of the explanation as changes of the files, others in words."""
    in_words: list[str] = []
    for change in explanation.changes:
        words = phrases.change(change, explanation.claims)
        changed = change.applied_to(subject.claims)
        target, edits = _edits(subject, changed)
        if target is None:
            in_words.append(words)
            continue
        lines = "\n".join(map(_shown, edits))
        advice = f"Would fit on {change.node}: {words}\n{lines}"
        yield Suggestion(advice, tuple(edits), is_correction=False, target=target)
    if in_words:
        yield Suggestion(f"Would fit: {in_words[0]}")


def _edits(
    subject: SchedulingSubject, changed: Sequence[dra.ResourceClaim]
) -> tuple[Document | None, list[FieldChange]]:
    """Return the document of the changed claim, and the changes of its fields."""
    if len(changed) != len(subject.claims):
        return None, []
    for before, after, document in zip(subject.claims, changed, subject.sources, strict=True):
        if before.spec == after.spec or document is None:
            continue
        root = pod_specs.DEVICES[document.kind]
        old, new = (_plain(claim.spec.devices) for claim in (before, after))
        return document, list(_differences(old, new, root))
    return None, []


def _plain(devices: dra.DeviceClaim) -> Any:
    return msgspec.json.decode(msgspec.json.encode(devices))


def _differences(old: Any, new: Any, path: str) -> Iterator[FieldChange]:
    """Yield the changes that make one value of another, as few as possible."""
    if isinstance(old, dict) and isinstance(new, dict):
        lost, gained = [*old.keys() - new.keys()], [*new.keys() - old.keys()]
        if len(lost) == len(gained) == 1 and old[lost[0]] == new[gained[0]]:
            yield RenameField(f"{path}[{lost[0]}]", gained[0])
            return
        for name in old.keys() | new.keys():
            below = f"{path}.{name}" if name.isalnum() else f"{path}[{name}]"
            if name not in new or new[name] in ([], None):
                if old[name] not in ([], None):
                    yield RemoveField(below)
            elif name not in old or old[name] in ([], None):
                yield SetField(below, new[name])
            else:
                yield from _differences(old[name], new[name], below)
    elif isinstance(old, list) and isinstance(new, list) and len(old) >= len(new):
        removed = next((at for at, item in enumerate(old) if item not in new), len(old))
        if len(old) > len(new):
            yield RemoveField(f"{path}[{removed}]")
        else:
            for number, (before, after) in enumerate(zip(old, new, strict=True)):
                yield from _differences(before, after, f"{path}[{number}]")
    elif isinstance(old, list) and isinstance(new, list):
        for number in range(len(old), len(new)):
            yield SetField(f"{path}[{number}]", new[number])
    elif old != new:
        yield SetField(path, new)


def _shown(change: FieldChange) -> str:
    """Return a change as a line for the user."""
    match change:
        case SetField(path=path, value=value):
            return f"{path}: {field_changes.flow(value)}"
        case RemoveField(path=path):
            return f"remove {path}"
        case RenameField(path=path, name=name):
            return f"{path}: write {name} instead"
    return str(change)


def for_nodes(
    pod: Pod, root: str, state: SchedulingState, result: Unschedulable
) -> Iterator[Suggestion]:
    """Yield changes of a pod that no node can run. `root` is the path of its spec."""
    nodes = [node.node for node in state.nodes if node.node is not None]
    if pod.spec.node_selector:
        yield from _label_suggestions(pod.spec.node_selector, f"{root}.nodeSelector", nodes)
    if node_fit.NOT_SELECTED in result.reasons and pod.spec.affinity is not None:
        words = "Would fit without the node affinity: remove affinity.nodeAffinity"
        removal = RemoveField(f"{root}.affinity.nodeAffinity")
        yield Suggestion(words, (removal,), is_correction=False)
    if node_fit.HAD_TAINTS in result.reasons:
        yield from _taint_suggestions(pod, root, nodes)
    if node_fit.WERE_UNSCHEDULABLE in result.reasons:
        cordoned = [node.metadata.name for node in nodes if node.spec.unschedulable]
        names = ", ".join(cordoned[:_SHOWN])
        yield Suggestion(
            f"The nodes are cordoned: {names}. Uncordon one: kubectl uncordon {cordoned[0]}"
        )
    yield from _amounts(result, state)


def _label_suggestions(
    selector: Mapping[str, str], path: str, nodes: Sequence[Node]
) -> Iterator[Suggestion]:
    """Suggest other keys and values of a node selector, then to do without it."""
    labels: dict[str, set[str]] = {}
    for node in nodes:
        for key, value in node.metadata.labels.items():
            labels.setdefault(key, set()).add(value)
    for key, value in selector.items():
        field = f"{path}[{key}]"
        if value in labels.get(key, ()):
            continue
        values = labels.get(key, set())
        close = spelling.same_but_spelling(value, values) or spelling.similar(value, values)
        for other in close:
            yield Suggestion(f"Did you mean {key}: {other}?", (SetField(field, other),))
        for other in spelling.similar(key, labels):
            changes = (RemoveField(field), SetField(f"{path}[{other}]", value))
            yield Suggestion(f"Did you mean {other}: {value}?", changes)
    for key, value in selector.items():
        there = sorted(labels.get(key, ()))
        if value in there:
            continue
        has = f"nodes have {key}: {', '.join(there[:_SHOWN])}" if there else f"no node has {key}"
        words = f"Would fit without it ({has}): remove nodeSelector {key}"
        yield Suggestion(words, (RemoveField(f"{path}[{key}]"),), is_correction=False)
    words = "Would fit without nodeSelector: remove it"
    yield Suggestion(words, (RemoveField(path),), is_correction=False)


def _taint_suggestions(pod: Pod, root: str, nodes: Sequence[Node]) -> Iterator[Suggestion]:
    taints = {
        taint for node in nodes for taint in node.spec.taints if taint.effect != "PreferNoSchedule"
    }
    count = len(pod.spec.tolerations)
    for taint in sorted(taints, key=str):
        value = {"value": taint.value} if taint.value else {}
        toleration = {
            "key": taint.key,
            "operator": "Equal" if taint.value else "Exists",
            **value,
            "effect": taint.effect,
        }
        path = f"{root}.tolerations"
        change = SetField(f"{path}[{count}]", toleration) if count else SetField(path, [toleration])
        yield Suggestion(
            f"Would fit: tolerate the taint.\n{_shown(change)}", (change,), is_correction=False
        )


def _amounts(result: Unschedulable, state: SchedulingState) -> Iterator[Suggestion]:
    for reason in result.reasons:
        _, _, name = reason.text.partition("Insufficient ")
        if name:
            most = max((node.allocatable.get(name, 0) for node in state.nodes), default=0)
            shown = most / 1000 if name == "cpu" else most
            has = f"the most on one node is {shown:g}" if most else "no node has any"
            yield Suggestion(f"Request less {name}: {has}.")

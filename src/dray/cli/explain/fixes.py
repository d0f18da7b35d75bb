"""`dray explain --fix`: the changed manifests, ready to be applied."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from dray.api import kinds
from dray.api.conversion import canonical, versions
from dray.api.formats import serialization
from dray.api.ids import ClaimKey
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import JsonObject
from dray.cli.explain.documents import Documents
from dray.cli.explain.names import POD_SPECS, WORKLOADS
from dray.cli.explain.targets import ExplainTarget
from dray.explain.claim_explanation import Explanation
from dray.explain.pod import pod_fix_text
from dray.explain.pod.pod_changes import Change, CopyObject, NodeChange, PodChange
from dray.explain.pod.pod_explanation import PodExplanation, PodFix
from dray.explain.suggestions import changes
from dray.explain.suggestions.changes import SuggestedChange
from dray.explain.text import explanation_text

_CHANGEABLE = frozenset({"Deployment", "StatefulSet", "DaemonSet", "CronJob", "DeviceClass"})
"""Kinds whose objects can be changed in place; others have to be replaced."""
_SET_BY_SERVER = (
    *("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "generateName"),
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Fix(NamedTuple):
    """A fix: what to change, in words, and the changed objects."""

    words: str
    documents: list[JsonObject]
    pods: tuple[str, ...] = ()
    """Pods to delete, so that their owner makes new ones."""
    commands: tuple[str, ...] = ()
    """Commands that change nodes."""
    created: int = 0
    """How many of the documents do not exist yet."""


def text(fix: Fix) -> str:
    """Return the manifests with comments that say how to apply them."""
    if not fix.documents:
        how = "\n".join(f"#   {command}" for command in fix.commands)
        return f"# {fix.words}\n{how or '# No manifest has to be changed.'}\n"
    lines = [f"# {fix.words}"]
    replaced = [item for item in fix.documents if item["kind"] not in _CHANGEABLE]
    if len(replaced) > fix.created:
        missing = " --ignore-not-found" if fix.created else ""
        lines.append(
            "# These objects cannot be changed in place. Save this as fix.yaml, then replace them:"
        )
        lines.append(f"#   dray delete -f fix.yaml{missing} && dray apply -f fix.yaml")
    else:
        lines.append("# Save this as fix.yaml, then: dray apply -f fix.yaml")
    if fix.pods:
        lines.append(f"#   dray delete pod {' '.join(fix.pods)}")
    bodies = [serialization.write_yaml(document, in_order=True) for document in fix.documents]
    return "\n".join(lines) + "\n" + "---\n".join(bodies)


def of_pod(target: ExplainTarget, explained: PodExplanation, source: Documents) -> Fix | None:
    """Return the best fix of a pod, or None if nothing is known that helps."""
    for fix in explained.fixes:
        if not isinstance(fix.changes[0], NodeChange):
            return _of_manifests(target, fix, source)
    is_about_devices = pod_fix_text.is_about_devices(explained)
    if is_about_devices and explained.explanation is not None and explained.explanation.changes:
        return _of_claims(target, explained.explanation, source)
    for fix in explained.fixes:
        commands = tuple(pod_fix_text.commands_of(fix))
        return Fix(f"{target.title}: {pod_fix_text.text(fix)}", [], commands=commands)
    return None


def of_claims(target: ExplainTarget, explanation: Explanation, source: Documents) -> Fix | None:
    """Return the best fix of claims without a pod, or None."""
    return _of_claims(target, explanation, source) if explanation.changes else None


def _of_manifests(target: ExplainTarget, fix: PodFix, source: Documents) -> Fix:
    """Return the copied objects, the changed pod and what else its claims need."""
    copies = [item for item in fix.changes if isinstance(item, CopyObject)]
    found = [document for item in copies if (document := _copied(item, source)) is not None]
    if len(copies) < len(fix.changes):
        found += _changed_pod(target, fix.changes, source)
    if fix.explanation is not None and fix.explanation.changes:
        for document in found:
            source.add(document)
        changed = _of_claims(target, fix.explanation, source, with_pod=False).documents
        names = {_name(document) for document in changed}
        found = [*(item for item in found if _name(item) not in names), *changed]
    words = f"{target.title}: {pod_fix_text.text(fix)}"
    return Fix(words, found, created=len(copies))


def _name(document: JsonObject) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def _copied(change: CopyObject, source: Documents) -> JsonObject | None:
    kind = kinds.by_name(change.kind)
    document = source.find(kind, change.name, change.source) if kind is not None else None
    if document is None:
        return None
    copied = _clean(document)
    copied["metadata"]["namespace"] = change.namespace
    return copied


def _changed_pod(
    target: ExplainTarget, found: Sequence[Change], source: Documents
) -> Iterator[JsonObject]:
    document = _pod_or_owner(target, source)
    if document is None:
        return
    changed = _clean(document)
    path = POD_SPECS[changed["kind"]]
    parent: Any = changed
    for step in path[:-1]:
        parent = parent[step]
    for change in found:
        if isinstance(change, PodChange):
            parent[path[-1]] = change.applied_to_spec(parent[path[-1]])
    yield changed


def _pod_or_owner(target: ExplainTarget, source: Documents) -> JsonObject | None:
    """Return the pod, or the workload that makes it: its pods are made again from the template."""
    if target.owner is not None:
        return target.owner
    assert target.pod is not None
    metadata = target.pod.metadata
    document = source.find(kinds.POD, metadata.name, metadata.namespace)
    while document is not None:
        owner = _controller(document)
        kind = kinds.by_name(str(owner.get("kind"))) if owner else None
        if owner is None or kind is None or kind.kind not in WORKLOADS:
            return document
        above = source.find(kind, owner["name"], metadata.namespace)
        if above is None:
            return document
        document = above
    return None


def _controller(document: JsonObject) -> JsonObject | None:
    owners = (document.get("metadata") or {}).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _of_claims(
    target: ExplainTarget, explanation: Explanation, source: Documents, *, with_pod: bool = True
) -> Fix:
    change = explanation.changes[0]
    words = f"{target.title}: {explanation_text.change_text(explanation, change)}"
    found = [
        *_changed_classes(change, source),
        *_changed_claims(target, explanation, change, source),
    ]
    pods: tuple[str, ...] = ()
    if not with_pod:
        return Fix(words, found)
    if found and target.pod is not None and target.pod.metadata.owner_references:
        pods = (f"{target.pod.metadata.name} -n {target.pod.metadata.namespace}",)
    elif found and target.pod is not None and target.owner is None:
        # The claims of a waiting pod are made anew only with the pod.
        pod = source.find(kinds.POD, target.pod.metadata.name, target.pod.metadata.namespace)
        found += [_clean(pod)] if pod is not None else []
    return Fix(words, found, pods)


def _changed_classes(change: SuggestedChange, source: Documents) -> Iterator[JsonObject]:
    for part in _parts(change):
        if isinstance(part, changes.ReplaceClassSelector | changes.DropClassSelector):
            document = source.find(kinds.DEVICE_CLASS, part.device_class, "default")
            if document is None:
                continue
            changed = _clean(versions.to_storage(copy.deepcopy(document)))
            selectors = changed["spec"]["selectors"]
            if isinstance(part, changes.ReplaceClassSelector):
                selectors[part.index] = {"cel": {"expression": part.replacement}}
            else:
                del selectors[part.index]
            yield changed


def _parts(change: SuggestedChange) -> Sequence[SuggestedChange]:
    return change.parts if isinstance(change, changes.Combined) else (change,)


def _changed_claims(
    target: ExplainTarget, explanation: Explanation, change: SuggestedChange, source: Documents
) -> Iterator[JsonObject]:
    """Yield the claims or templates whose spec changes."""
    claims = [explanation.specs[key] for key in explanation.claims]
    if any(isinstance(part, changes.DropClaim) for part in _parts(change)):
        return
    for before, after in zip(claims, change.applied_to(claims), strict=True):
        if after.spec != before.spec:
            document = _source_of(target, before.key, source)
            if document is not None:
                yield _with_devices(_clean(versions.to_storage(copy.deepcopy(document))), after)


def _with_devices(document: JsonObject, claim: ResourceClaim) -> JsonObject:
    kind = kinds.by_name(document["kind"])
    assert kind is not None
    devices = msgspec.to_builtins(claim.spec.devices)
    spec = document["spec"] if kind == kinds.RESOURCE_CLAIM else document["spec"]["spec"]
    spec["devices"] = canonical.prune_nulls(devices)
    return document


def _source_of(target: ExplainTarget, key: ClaimKey, source: Documents) -> JsonObject | None:
    """Return the claim, or the template that it is made from."""
    type_name, _, name = target.title.partition("/")
    if type_name == "template":
        return source.find(kinds.RESOURCE_CLAIM_TEMPLATE, name, key.namespace)
    for entry in target.pod.spec.resource_claims if target.pod else ():
        template = entry.resource_claim_template_name
        statuses = target.pod.status.resource_claim_statuses if target.pod else ()
        made = {status.resource_claim_name for status in statuses if status.name == entry.name}
        expected = f"{target.pod.metadata.name}-{entry.name}" if target.pod else ""
        if template and key.name in {*made, expected}:
            return source.find(kinds.RESOURCE_CLAIM_TEMPLATE, template, key.namespace)
    return source.find(kinds.RESOURCE_CLAIM, key.name, key.namespace)


def _clean(document: JsonObject) -> JsonObject:
    """Return the object without what the server set, so that it can be created again."""
    cleaned = copy.deepcopy({key: value for key, value in document.items() if key != "status"})
    metadata = cleaned.get("metadata") or {}
    for name in _SET_BY_SERVER:
        metadata.pop(name, None)
    annotations = metadata.get("annotations") or {}
    annotations.pop(_LAST_APPLIED, None)
    if not annotations:
        metadata.pop("annotations", None)
    order = ("apiVersion", "kind", "metadata")
    return {**{key: cleaned[key] for key in order if key in cleaned}, **cleaned}

"""Targets of `dray explain`: pods, claims and templates, by name, owner, namespace or file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from dray.api.kinds import Kind
from dray.api.selectors import label_selectors
from dray.api.selectors.label_selectors import ParsedSelector
from dray.api.types import dra
from dray.api.types.dra import ResourceClaim, ResourceClaimTemplate
from dray.api.types.meta import JsonObject, LabelSelector, ObjectMeta
from dray.api.types.pods import Pod
from dray.cli.command_errors import CommandError, ObjectNotFound
from dray.cli.explain import documents
from dray.cli.explain.documents import DEFAULT_NAMESPACE, Documents
from dray.cli.explain.names import WORKLOADS, ObjectName
from dray.cli.inputs import cluster_objects
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.explain.selectors import spelling

Named = ResourceClaim | ResourceClaimTemplate | Pod
T = TypeVar("T", bound=Named)

_TYPES: dict[str, type[Any]] = {
    "ResourceClaim": dra.ResourceClaim,
    "ResourceClaimTemplate": dra.ResourceClaimTemplate,
    "Pod": Pod,
}


@dataclass(slots=True)
class ExplainTarget:
    """One pod, or claims to explain together."""

    title: str
    """TYPE/NAME of the object."""
    claims: list[ResourceClaim] = field(default_factory=list)
    """Claims without a pod."""
    pod: Pod | None = None
    owner: JsonObject | None = None
    """The workload whose pod template the pod was made from, if it is known."""


@dataclass(slots=True)
class TargetGroup:
    """Targets that belong together: the pods of a workload or a namespace."""

    title: str
    targets: list[ExplainTarget]
    is_single: bool = True
    """Whether the user named the one object."""


def named(
    names: Iterable[ObjectName], objects: ClusterObjects, namespace: str, source: Documents
) -> Iterator[TargetGroup]:
    for kind, name in names:
        if kind.kind == "Namespace":
            yield in_namespace(objects, name)
        elif kind.kind in WORKLOADS:
            yield _of_workload(kind, name, objects, namespace, source)
        else:
            value = find(objects.of(_TYPES[kind.kind]), name, namespace)
            if value is None:
                raise _not_found(kind, name, objects, namespace, source)
            target = _target_of(value)
            yield TargetGroup(target.title, [target])


def _not_found(
    kind: Kind, name: str, objects: ClusterObjects, namespace: str, source: Documents
) -> CommandError:
    if kind.kind in objects.unread:
        return CommandError(f"not allowed: {objects.unread[kind.kind]}")
    message = f"there is no {kind.singular} {name} in namespace {namespace} of {objects.source}"
    everything = objects.of(_TYPES[kind.kind]) if kind.kind in _TYPES else []
    elsewhere = [namespace_of(item) for item in everything if item.metadata.name == name]
    here = [item.metadata.name for item in everything if namespace_of(item) == namespace]
    advice = []
    if elsewhere:
        advice.append(f"There is one in namespace {elsewhere[0]}: use -n {elsewhere[0]}")
    elif close := spelling.similar(name, here):
        advice.append(f"Did you mean {close[0]}?")
    if source.is_live:
        about = f"dray events --for {kind.singular}/{name} -n {namespace}{source.options}"
        advice.append(f"If it is gone, its events remain for a while: {about}")
    return ObjectNotFound(message, "\n".join(advice))


def _of_workload(
    kind: Kind, name: str, objects: ClusterObjects, namespace: str, source: Documents
) -> TargetGroup:
    """Return the pods of a workload, or one made from its template if it has none."""
    document = source.find(kind, name, namespace)
    title = f"{kind.singular}/{name}"
    pods = [
        pod
        for pod in objects.of(Pod)
        if namespace_of(pod) == namespace and _belongs(pod, kind, name, document)
    ]
    if document is None and not pods:
        raise _not_found(kind, name, objects, namespace, source)
    if pods or document is None:
        targets = [_target_of(pod) for pod in pods]
        for target in targets:
            target.owner, target.title = document, title
        return TargetGroup(title, targets, is_single=len(targets) == 1)
    (made,) = documents.pods_in([document])
    decoded = cluster_objects.decode(made, objects.source)
    assert isinstance(decoded, Pod)
    target = _target_of(decoded)
    target.title, target.owner = title, document
    return TargetGroup(title, [target])


def _belongs(pod: Pod, kind: Kind, name: str, document: JsonObject | None) -> bool:
    """Return whether a pod belongs to a workload, by labels or, without a document, by names."""
    owner = next((item for item in pod.metadata.owner_references if item.controller), None)
    if owner is None:
        return False
    if document is not None:
        return _selector(document).matches(pod.metadata.labels)
    if (owner.kind, owner.name) == (kind.kind, name):
        return True
    # The ReplicaSets of a Deployment have its name and a hash.
    made = {"Deployment": "ReplicaSet", "CronJob": "Job"}.get(kind.kind)
    return owner.kind == made and owner.name.rpartition("-")[0] == name


def _selector(document: JsonObject) -> ParsedSelector:
    selector = (document.get("spec") or {}).get("selector")
    parsed = msgspec.convert(selector, LabelSelector) if selector else None
    return label_selectors.label_selector(parsed)


def in_namespace(objects: ClusterObjects, namespace: str) -> TargetGroup:
    """Return everything of a namespace, or of all namespaces without one."""
    own = ClusterObjects(objects.source)
    for type_ in _TYPES.values():
        for value in objects.of(type_):
            if namespace in ("", namespace_of(value)):
                own.add(value)
    title = f"namespace {namespace}" if namespace else "all namespaces"
    return TargetGroup(title, list(in_files(own)), is_single=False)


def in_files(own: ClusterObjects, owners: Sequence[JsonObject] = ()) -> Iterator[ExplainTarget]:
    """Yield every pod, and the claims that none of these pods uses."""
    used = set()
    by_name = {_name(owner): owner for owner in owners}
    for pod in own.of(Pod):
        for source in pod.spec.resource_claims:
            name = source.resource_claim_name or source.resource_claim_template_name
            used.add((namespace_of(pod), name))
        target = _target_of(pod)
        owner = by_name.get((namespace_of(pod), pod.metadata.name))
        if owner is not None and not pod.metadata.uid:
            target.owner = owner
            target.title = f"{str(owner['kind']).lower()}/{pod.metadata.name}"
        yield target
    others: list[Any] = [*own.of(dra.ResourceClaim), *own.of(dra.ResourceClaimTemplate)]
    for value in others:
        is_made = bool(value.metadata.owner_references)
        if not is_made and (namespace_of(value), value.metadata.name) not in used:
            yield _target_of(value)


def _name(document: JsonObject) -> tuple[str, str]:
    metadata = document.get("metadata") or {}
    return metadata.get("namespace") or DEFAULT_NAMESPACE, str(metadata.get("name", ""))


def _target_of(value: Named) -> ExplainTarget:
    name = value.metadata.name
    metadata = msgspec.structs.replace(value.metadata, namespace=namespace_of(value))
    if isinstance(value, Pod):
        return ExplainTarget(f"pod/{name}", pod=msgspec.structs.replace(value, metadata=metadata))
    if isinstance(value, ResourceClaimTemplate):
        made = ObjectMeta(name=f"{name}-claim", namespace=metadata.namespace)
        claim = ResourceClaim(metadata=made, spec=value.spec.spec)
        return ExplainTarget(f"template/{name}", [claim])
    return ExplainTarget(f"claim/{name}", [msgspec.structs.replace(value, metadata=metadata)])


def namespace_of(named: Named) -> str:
    return named.metadata.namespace or DEFAULT_NAMESPACE


def find(among: Iterable[T], name: str, namespace: str) -> T | None:
    for candidate in among:
        if candidate.metadata.name == name and namespace_of(candidate) == namespace:
            return candidate
    return None

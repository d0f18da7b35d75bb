"""Pods and claims of files as they would be in a cluster, for the scheduling decision."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from dray.api import kinds
from dray.api.types import dra
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.api.types.pods import Pod, PodResourceClaimStatus
from dray.cli.command_errors import CommandError
from dray.cli.inputs import cluster_objects
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.lint.checks import pod_specs
from dray.cli.lint.source_documents import DEFAULT_NAMESPACE, Document

_CLAIMS: tuple[type[Any], ...] = (dra.ResourceClaim, dra.ResourceClaimTemplate)


class SchedulingSubject(NamedTuple):
    """A pod with its claims, or a claim that no pod of the files uses."""

    document: Document
    """The object to report at."""
    pod: Pod | None
    claims: list[dra.ResourceClaim]
    sources: list[Document | None]
    """For each claim the claim or template in the files, or None."""

    @property
    def classes(self) -> set[str]:
        """The device classes that the claims request."""
        requests = [request for claim in self.claims for request in claim.spec.devices.requests]
        exact = {request.exactly.device_class_name for request in requests if request.exactly}
        return exact | {
            item.device_class_name for request in requests for item in request.first_available
        }


class FileObjects(NamedTuple):
    """The objects of files, and the documents they are from."""

    objects: ClusterObjects
    documents: dict[int, Document]
    """By id of the object."""


def decoded(documents: Iterable[Document]) -> FileObjects:
    """Decode the objects of files, workloads as their pods; skips what cannot be decoded."""
    own = FileObjects(ClusterObjects("files"), {})
    for document in documents:
        if not isinstance(document.value, dict):
            continue
        path = pod_specs.POD_SPECS.get(document.kind)
        value: dict[str, Any] = copy.deepcopy(dict(document.value))
        if path is not None:
            spec = pod_specs.at(value, path)
            value = {**kinds.POD.type_meta, "metadata": document.metadata, "spec": spec or {}}
        try:
            found = cluster_objects.decode(value, document.file)
        except CommandError:
            continue
        if found is not None:
            own.objects.add(found)
            own.documents[id(found)] = document
    return own


def subjects_in(own: FileObjects, objects: ClusterObjects) -> Iterator[SchedulingSubject]:
    """Yield every pod, and the claims that no pod uses. `objects` are those of the cluster."""
    merged = own.objects.merged(objects)
    used: set[tuple[str, str]] = set()
    for number, pod in enumerate(own.objects.of(Pod)):
        document = own.documents[id(pod)]
        subject = _pod_subject(pod, number, document, merged, own)
        names = [
            source.resource_claim_name or source.resource_claim_template_name or ""
            for source in pod.spec.resource_claims
        ]
        used |= {(document.namespace, name) for name in names}
        if subject is not None:
            yield subject
    for type_ in _CLAIMS:
        for value in own.objects.of(type_):
            document = own.documents[id(value)]
            if (document.namespace, document.name) not in used:
                yield SchedulingSubject(document, None, [_claim(value, document)], [document])


def _claim(
    value: dra.ResourceClaim | dra.ResourceClaimTemplate, document: Document
) -> dra.ResourceClaim:
    """Return a claim with nothing allocated, or the one that a template gives."""
    spec = value.spec.spec if isinstance(value, dra.ResourceClaimTemplate) else value.spec
    metadata = ObjectMeta(name=document.name, namespace=document.namespace)
    return dra.ResourceClaim(metadata=metadata, spec=spec)


def _pod_subject(
    pod: Pod, number: int, document: Document, merged: ClusterObjects, own: FileObjects
) -> SchedulingSubject | None:
    """Return a pod as it would be after its claims are created.

    None if a claim is missing, or the pod names its node itself.
    """
    if pod.spec.node_name:
        return None
    metadata = msgspec.structs.replace(
        pod.metadata, namespace=document.namespace, uid=f"lint-{number}", name=document.name
    )
    spec = msgspec.structs.replace(pod.spec, scheduling_gates=(), scheduling_group=None)
    pod = msgspec.structs.replace(pod, metadata=metadata, spec=spec)
    claims: list[dra.ResourceClaim] = []
    sources: list[Document | None] = []
    statuses: list[PodResourceClaimStatus] = []
    owner = OwnerReference("v1", "Pod", document.name, metadata.uid, controller=True)
    for source in spec.resource_claims:
        name = source.resource_claim_name or source.resource_claim_template_name or ""
        type_ = dra.ResourceClaim if source.resource_claim_name else dra.ResourceClaimTemplate
        found: Any = _find(merged.of(type_), name, document.namespace)
        if found is None:
            return None
        sources.append(own.documents.get(id(found)))
        spec_of_claim = found.spec
        made = name
        if isinstance(found, dra.ResourceClaimTemplate):
            spec_of_claim, made = found.spec.spec, f"{document.name}-{source.name}"
            statuses.append(PodResourceClaimStatus(source.name, made))
        owners = (owner,) if made != name else ()
        of_claim = ObjectMeta(name=made, namespace=document.namespace, owner_references=owners)
        claims.append(dra.ResourceClaim(metadata=of_claim, spec=spec_of_claim))
    status = msgspec.structs.replace(pod.status, resource_claim_statuses=tuple(statuses))
    return SchedulingSubject(document, msgspec.structs.replace(pod, status=status), claims, sources)


def _find(values: Iterable[Any], name: str, namespace: str) -> Any | None:
    for value in values:
        metadata = value.metadata
        if metadata.name == name and (metadata.namespace or DEFAULT_NAMESPACE) == namespace:
            return value
    return None


def without_defined(objects: ClusterObjects, documents: Iterable[Document]) -> ClusterObjects:
    """Return the claims and templates of a cluster that the files do not define themselves."""
    defined = {(document.kind, document.namespace, document.name) for document in documents}
    kept = ClusterObjects(objects.source)
    for type_ in _CLAIMS:
        for value in objects.of(type_):
            space = value.metadata.namespace or DEFAULT_NAMESPACE
            if (type_.__name__, space, value.metadata.name) not in defined:
                kept.add(value)
    return kept

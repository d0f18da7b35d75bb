"""Checks how containers use the claims of their pod: missing requests, unused claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dray.api.types.dra import ResourceClaim, ResourceClaimTemplate
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.lint import pod_specs
from dray.cli.lint.findings import Finding
from dray.cli.lint.source_documents import Document
from dray.explain.selectors import spelling

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
SOURCES = {CLAIM: "resourceClaimName", TEMPLATE: "resourceClaimTemplateName"}
"""The field of a pod's claim that names an object of each kind."""

Requests = dict[tuple[str, str, str], set[str]]
"""The names of the requests of claims and templates, by kind, namespace and name."""


def requests(documents: Iterable[Document], objects: ClusterObjects | None) -> Requests:
    by_object: Requests = {}
    for claim in objects.of(ResourceClaim) if objects else ():
        key = (CLAIM, claim.metadata.namespace or "default", claim.metadata.name)
        by_object[key] = {request.name for request in claim.spec.devices.requests}
    for template in objects.of(ResourceClaimTemplate) if objects else ():
        key = (TEMPLATE, template.metadata.namespace or "default", template.metadata.name)
        by_object[key] = {request.name for request in template.spec.spec.devices.requests}
    for document in documents:
        if document.kind in SOURCES:
            path = f"{pod_specs.DEVICES[document.kind]}.requests"
            names = {str(request.get("name")) for request in _objects(document.value, path)}
            by_object[document.kind, document.namespace, document.name] = names
    return by_object


def check(document: Document, by_object: Requests) -> Iterator[Finding]:
    """Yield the findings about one pod or workload."""
    path = pod_specs.POD_SPECS[document.kind]
    spec = pod_specs.at(document.value, path)
    offered = {
        str(entry.get("name")): _requests_of(document, entry, by_object)
        for entry in _objects(spec, "resourceClaims")
    }
    used = set()
    for where, container in pod_specs.containers(spec):
        for number, entry in enumerate(_objects(container, "resources.claims")):
            used.add(str(entry.get("name")))
            place = f"{path}.{where}.resources.claims[{number}].request"
            yield from _request(document, place, entry, offered)
    for number, name in enumerate(offered):
        if name not in used:
            message = f"no container uses the claim {name}; its devices would be held for nothing"
            field = f"resources: {{claims: [{{name: {name}}}]}}"
            advice = f"Add to the container that needs it: {field}"
            place = f"{path}.resourceClaims[{number}]"
            yield document.warning(place, "unused-claim", message, advice)


def _objects(value: Any, path: str) -> list[dict[str, Any]]:
    return [item for item in pod_specs.items_at(value, path) if isinstance(item, dict)]


def _requests_of(document: Document, entry: dict[str, Any], by_object: Requests) -> set[str] | None:
    """Return the requests of a pod's claim, or None if they are unknown."""
    for kind, field in SOURCES.items():
        if isinstance(entry.get(field), str):
            return by_object.get((kind, document.namespace, entry[field]))
    return None


def _request(
    document: Document, place: str, entry: dict[str, Any], offered: dict[str, set[str] | None]
) -> Iterator[Finding]:
    requested, names = entry.get("request"), offered.get(str(entry.get("name")))
    if not isinstance(requested, str) or names is None or requested in names:
        return
    close = spelling.similar(requested, names)
    advice = f"Did you mean {close[0]}?" if close else f"It has: {', '.join(sorted(names))}"
    message = f"{place}: the claim {entry.get('name')} has no request {requested}"
    yield document.error(place, "unknown-request", message, advice)

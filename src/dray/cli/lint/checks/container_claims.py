"""Checks how containers use the claims of their pod: missing requests, unused claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dray.api.types.dra import ResourceClaim, ResourceClaimTemplate
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.lint.checks import pod_specs
from dray.cli.lint.field_changes import SetField
from dray.cli.lint.findings import Finding, Suggestion
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
    # A claim without a name may be any that a container names.
    used, undeclared = set(), "None" in offered
    for where, container in pod_specs.containers(spec):
        for number, entry in enumerate(_objects(container, "resources.claims")):
            used.add(str(entry.get("name")))
            place = f"{path}.{where}.resources.claims[{number}]"
            for finding in _declared(document, place, entry, offered, by_object):
                if "None" not in offered:
                    undeclared = True
                    yield finding
            yield from _request(document, f"{place}.request", entry, offered)
    for number, name in enumerate(offered):
        # A claim that is misspelt in a container is not unused.
        if name not in used and not undeclared:
            yield _unused(document, f"{path}.resourceClaims[{number}]", name, spec)


def _unused(document: Document, place: str, name: str, spec: Any) -> Finding:
    message = f"no container uses the claim {name}; its devices would be held for nothing"
    field = f"resources: {{claims: [{{name: {name}}}]}}"
    advice = f"Add to the container that needs it: {field}"
    suggestions: tuple[Suggestion, ...] = ()
    containers = [
        where for where, _ in pod_specs.containers(spec) if where.startswith("containers")
    ]
    if len(containers) == 1:
        path = f"{pod_specs.POD_SPECS[document.kind]}.{containers[0]}.resources.claims"
        count = len(document.value_at(path) or ())
        added = {"name": name}
        change = SetField(f"{path}[{count}]", added) if count else SetField(path, [added])
        suggestions = (Suggestion(advice, (change,)),)
    return document.warning(place, "unused-claim", message, advice, suggestions)


def _declared(
    document: Document,
    place: str,
    entry: dict[str, Any],
    offered: dict[str, set[str] | None],
    by_object: Requests,
) -> Iterator[Finding]:
    """Find a container's claim that the pod does not have."""
    name = entry.get("name")
    if not isinstance(name, str) or name in offered:
        return
    path = f"{pod_specs.POD_SPECS[document.kind]}.resourceClaims"
    message = f'{place}: Not found: "{name}": must be one of the names in {path}'
    if offered:
        message += f": {', '.join(offered)}"
        advice = f"The claims of the pod are: {', '.join(offered)}"
        close = spelling.similar(name, offered) or (list(offered) if len(offered) == 1 else [])
        suggestions = tuple(
            Suggestion(f"Did you mean {other}?", (SetField(f"{place}.name", other),))
            for other in close
        )
    else:
        message += ", and the pod has none"
        source, object_name = _source(document, name, by_object)
        added = {"name": name, source: object_name or "NAME"}
        advice = f"Add to the pod: resourceClaims: [{{name: {name}, {source}: {added[source]}}}]"
        change = SetField(path, [added])
        suggestions = (Suggestion(advice, (change,)),) if object_name else ()
    yield document.error(place, "undeclared-claim", message, advice, suggestions)


def _source(document: Document, name: str, by_object: Requests) -> tuple[str, str]:
    """Return the field and the name of the claim or template that was probably meant."""
    here = [(kind, named) for kind, space, named in by_object if space == document.namespace]
    same = [(kind, named) for kind, named in here if named == name] or here
    if len(same) == 1:
        return SOURCES[same[0][0]], same[0][1]
    return SOURCES[TEMPLATE], ""


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
    close = spelling.similar(requested, names) or (sorted(names) if len(names) == 1 else [])
    suggestions = tuple(
        Suggestion(f"Did you mean {other}?", (SetField(place, other),)) for other in close[:1]
    )
    advice = f"It has: {', '.join(sorted(names))}"
    message = f"{place}: the claim {entry.get('name')} has no request {requested}"
    yield document.error(place, "unknown-request", message, advice, suggestions)

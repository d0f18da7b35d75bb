"""Checks across objects: pods, claims, templates, classes and devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dray.api.types import dra
from dray.api.well_known import ADMIN_ACCESS_LABEL, NO_EXECUTE
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.insight import selector_report
from dray.cli.lint import container_claims, extended_resources, pod_specs
from dray.cli.lint.container_claims import CLAIM, SOURCES, TEMPLATE
from dray.cli.lint.findings import Finding
from dray.cli.lint.source_documents import Document
from dray.explain.selectors import spelling

Names = Mapping[str, set[tuple[str, str]]]


def check(documents: Iterable[Document], objects: ClusterObjects | None) -> Iterator[Finding]:
    readable = [item for item in documents if isinstance(item.value, dict)]
    names = _names(readable, objects)
    served = extended_resources.classes(readable, objects)
    requests = container_claims.requests(readable, objects)
    for document in readable:
        if document.kind in pod_specs.POD_SPECS:
            yield from _pod(document, names, objects)
            yield from container_claims.check(document, requests)
            yield from extended_resources.check(document, served)
        if document.kind in SOURCES:
            yield from _counts(document)
            yield from _tolerations(document)
            yield from _admin_access(document, readable)
            yield from _requests(document, readable, objects)


def _names(documents: Iterable[Document], objects: ClusterObjects | None) -> Names:
    """Return namespace and name of every claim and every template."""
    by_kind: dict[str, set[tuple[str, str]]] = {CLAIM: set(), TEMPLATE: set()}
    for document in documents:
        if document.kind in by_kind:
            by_kind[document.kind].add((document.namespace, document.name))
    if objects is not None:
        by_kind[CLAIM] |= set(map(_name, objects.of(dra.ResourceClaim)))
        by_kind[TEMPLATE] |= set(map(_name, objects.of(dra.ResourceClaimTemplate)))
    return by_kind


def _name(value: dra.ResourceClaim | dra.ResourceClaimTemplate) -> tuple[str, str]:
    return value.metadata.namespace or "default", value.metadata.name


def _pod(document: Document, names: Names, objects: ClusterObjects | None) -> Iterator[Finding]:
    path = pod_specs.POD_SPECS[document.kind]
    claims = pod_specs.items_at(document.value, f"{path}.resourceClaims")
    for number, entry in enumerate(claims):
        for kind, field in SOURCES.items():
            name = entry.get(field) if isinstance(entry, dict) else None
            if isinstance(name, str):
                where = f"{path}.resourceClaims[{number}].{field}"
                yield from _reference(document, where, kind, name, names, objects)


def _reference(
    document: Document,
    path: str,
    kind: str,
    name: str,
    names: Names,
    objects: ClusterObjects | None,
) -> Iterator[Finding]:
    """Check that the object named by a pod exists and has the expected kind."""
    if (document.namespace, name) in names[kind]:
        return
    other = CLAIM if kind == TEMPLATE else TEMPLATE
    if (document.namespace, name) in names[other]:
        message = f"{path}: {name} is a {other}, not a {kind}"
        advice = f"Write {SOURCES[other]}: {name}"
        yield document.error(path, "claim-or-template", message, advice)
        return
    elsewhere = sorted(space for space, existing in names[kind] if existing == name)
    if elsewhere:
        message = f"{path}: {kind} {name} is in namespace {elsewhere[0]}, not {document.namespace}"
        advice = "A pod and its claims are in one namespace."
        yield document.error(path, "other-namespace", message, advice)
        return
    where = objects.source if objects else "these files"
    beside = (existing for space, existing in names[kind] if space == document.namespace)
    close = spelling.similar(name, beside)
    advice = f"Did you mean {close[0]}?" if close else ""
    message = f"{path}: there is no {kind} {name} in {where}; the pod would wait for it"
    yield document.warning(path, "missing-claim", message, advice)


def _counts(document: Document) -> Iterator[Finding]:
    """Find counts that the API accepts and the scheduler can never satisfy."""
    counts = [
        (path, request.get("count", 1))
        for path, request in _device_requests(document)
        if "firstAvailable" not in path
    ]
    valid = [(path, count) for path, count in counts if isinstance(count, int)]
    total = sum(count for _, count in valid)
    limit = dra.ALLOCATION_RESULTS_MAX_SIZE
    if total > limit:
        path = f"{max(valid, key=lambda pair: pair[1])[0]}.count"
        message = f"{path}: {total} devices are asked for; a claim can have {limit}"
        advice = "It could be created, but never allocated."
        yield document.warning(path, "too-many-devices", message, advice)


def _tolerations(document: Document) -> Iterator[Finding]:
    """Find tolerations without an effect: the scheduler accepts these, evictions ignore them.

    devicetainteviction's claimEvictionTime considers only tolerations with effect NoExecute.
    """
    for path, request in _device_requests(document):
        tolerations = pod_specs.items_at(request, "tolerations")
        effects = [item.get("effect") or "" for item in tolerations if isinstance(item, dict)]
        if "" in effects and NO_EXECUTE not in effects:
            where = f"{path}.tolerations[{effects.index('')}]"
            message = f"{where}: without an effect it does not keep pods from being evicted"
            advice = "Add one with effect: NoExecute if they are to stay."
            yield document.warning(where, "toleration-without-effect", message, advice)


def _admin_access(document: Document, documents: Iterable[Document]) -> Iterator[Finding]:
    """Find admin access in namespaces without the label that allows it."""
    namespaces = [item for item in documents if item.kind == "Namespace"]
    own = [item.metadata for item in namespaces if item.name == document.namespace]
    if own and (own[-1].get("labels") or {}).get(ADMIN_ACCESS_LABEL) == "true":
        return
    for path, request in _device_requests(document):
        if request.get("adminAccess"):
            message = f"{path}.adminAccess: is refused unless the namespace allows it"
            advice = f"Label it: {document.namespace} {ADMIN_ACCESS_LABEL}=true"
            yield document.warning(f"{path}.adminAccess", "admin-access", message, advice)


def _requests(
    document: Document, documents: Iterable[Document], objects: ClusterObjects | None
) -> Iterator[Finding]:
    """Find classes that do not exist, and selectors that match no device."""
    if objects is None:
        return
    classes = {item.metadata.name for item in objects.of(dra.DeviceClass)}
    classes |= {item.name for item in documents if item.kind == "DeviceClass"}
    for path, request in _device_requests(document):
        name = request.get("deviceClassName")
        if isinstance(name, str) and name not in classes:
            close = spelling.similar(name, classes)
            existing = ", ".join(sorted(classes)[:5]) or "none"
            advice = f"Did you mean {close[0]}?" if close else f"There are: {existing}"
            message = f"{path}.deviceClassName: there is no DeviceClass {name} in {objects.source}"
            yield document.warning(f"{path}.deviceClassName", "missing-class", message, advice)
        yield from _selectors(document, path, request, objects)


def _device_requests(document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the paths with a class and selectors, as every API version writes them."""
    root = f"{pod_specs.DEVICES[document.kind]}.requests"
    for number, request in enumerate(pod_specs.items_at(document.value, root)):
        if not isinstance(request, dict):
            continue
        path = f"{root}[{number}]"
        exact = request.get("exactly")
        yield (f"{path}.exactly", exact) if isinstance(exact, dict) else (path, request)
        for place, alternative in enumerate(pod_specs.items_at(request, "firstAvailable")):
            if isinstance(alternative, dict):
                yield f"{path}.firstAvailable[{place}]", alternative


def _selectors(
    document: Document, path: str, request: dict[str, Any], objects: ClusterObjects
) -> Iterator[Finding]:
    for number, selector in enumerate(pod_specs.items_at(request, "selectors")):
        place = f"{path}.selectors[{number}].cel.expression"
        expression = pod_specs.at(selector, "cel.expression")
        if not isinstance(expression, str):
            continue
        report = selector_report.make(expression, objects.features, objects.devices())
        if report.error or not report.devices or report.matched:
            continue
        message = f"{place}: matches none of the {report.devices} devices in {objects.source}"
        advice = f"Did you mean: {report.rewrites[0]}" if report.rewrites else ""
        yield document.warning(place, "matches-nothing", message, advice)

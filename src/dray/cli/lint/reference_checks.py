"""What is wrong between objects: pods, claims, templates, classes and devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dray.api.types.dra import (
    ALLOCATION_RESULTS_MAX_SIZE,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
)
from dray.api.well_known import ADMIN_ACCESS_LABEL, NO_EXECUTE
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.insight import selector_report
from dray.cli.lint import container_claims, extended_resources, pod_specs
from dray.cli.lint.container_claims import CLAIM, SOURCES, TEMPLATE
from dray.cli.lint.findings import Finding, Severity
from dray.cli.lint.source_documents import Document
from dray.explain.selectors import spelling

Names = Mapping[str, set[tuple[str, str]]]


def check(documents: Iterable[Document], world: ClusterObjects | None) -> Iterator[Finding]:
    known = [each for each in documents if isinstance(each.value, dict)]
    names = _names(known, world)
    served = extended_resources.classes(known, world)
    requests = container_claims.requests(known, world)
    for document in known:
        if document.kind in pod_specs.POD_SPECS:
            yield from _pod(document, names, world)
            yield from container_claims.check(document, requests)
            yield from extended_resources.check(document, served)
        if document.kind in SOURCES:
            yield from _counts(document)
            yield from _tolerations(document)
            yield from _admin_access(document, known)
            yield from _requests(document, known, world)


def _names(documents: Iterable[Document], world: ClusterObjects | None) -> Names:
    """Namespace and name of every claim and every template."""
    found: dict[str, set[tuple[str, str]]] = {CLAIM: set(), TEMPLATE: set()}
    for document in documents:
        if document.kind in found:
            found[document.kind].add((document.namespace, document.name))
    if world is not None:
        found[CLAIM] |= set(map(_name, world.of(ResourceClaim)))
        found[TEMPLATE] |= set(map(_name, world.of(ResourceClaimTemplate)))
    return found


def _name(each: ResourceClaim | ResourceClaimTemplate) -> tuple[str, str]:
    return each.metadata.namespace or "default", each.metadata.name


def _pod(document: Document, names: Names, world: ClusterObjects | None) -> Iterator[Finding]:
    path = pod_specs.POD_SPECS[document.kind]
    claims = pod_specs.at(document.value, f"{path}.resourceClaims")
    for number, entry in enumerate(claims if isinstance(claims, list) else ()):
        for kind, field in SOURCES.items():
            name = entry.get(field) if isinstance(entry, dict) else None
            if isinstance(name, str):
                where = f"{path}.resourceClaims[{number}].{field}"
                yield from _reference(document, where, kind, name, names, world)


def _reference(
    document: Document, path: str, kind: str, name: str, names: Names, world: ClusterObjects | None
) -> Iterator[Finding]:
    """Whether what a pod names is there, and is what the pod takes it for."""
    if (document.namespace, name) in names[kind]:
        return
    other = CLAIM if kind == TEMPLATE else TEMPLATE
    line = document.line_of(path)
    if (document.namespace, name) in names[other]:
        message = f"{path}: {name} is a {other}, not a {kind}"
        advice = f"Write {SOURCES[other]}: {name}"
        yield Finding(document.file, line, Severity.ERROR, "claim-or-template", message, advice)
        return
    elsewhere = sorted(space for space, each in names[kind] if each == name)
    if elsewhere:
        message = f"{path}: {kind} {name} is in namespace {elsewhere[0]}, not {document.namespace}"
        advice = "A pod and its claims are in one namespace."
        yield Finding(document.file, line, Severity.ERROR, "other-namespace", message, advice)
        return
    where = world.source if world else "these files"
    close = spelling.similar(
        name, (each for space, each in names[kind] if space == document.namespace)
    )
    advice = f"Did you mean {close[0]}?" if close else ""
    message = f"{path}: there is no {kind} {name} in {where}; the pod would wait for it"
    yield Finding(document.file, line, Severity.WARNING, "missing-claim", message, advice)


def _counts(document: Document) -> Iterator[Finding]:
    """The API accepts any count; the scheduler does not."""
    counts = [
        (path, request.get("count", 1))
        for path, request in _device_requests(document)
        if "firstAvailable" not in path
    ]
    known = [(path, count) for path, count in counts if isinstance(count, int)]
    total = sum(count for _, count in known)
    if total > ALLOCATION_RESULTS_MAX_SIZE:
        path = max(known, key=lambda each: each[1])[0]
        limit = f"a claim can have {ALLOCATION_RESULTS_MAX_SIZE}"
        message = f"{path}.count: {total} devices are asked for; {limit}"
        line = document.line_of(f"{path}.count")
        advice = "It could be created, but never allocated."
        yield Finding(document.file, line, Severity.WARNING, "too-many-devices", message, advice)


def _tolerations(document: Document) -> Iterator[Finding]:
    """One without an effect matches every taint for the scheduler and none for evictions.

    devicetainteviction's claimEvictionTime looks only at tolerations with effect NoExecute.
    """
    for path, request in _device_requests(document):
        tolerations = request.get("tolerations")
        effects = [
            each.get("effect") or ""
            for each in (tolerations if isinstance(tolerations, list) else ())
            if isinstance(each, dict)
        ]
        if "" in effects and NO_EXECUTE not in effects:
            where = f"{path}.tolerations[{effects.index('')}]"
            message = f"{where}: without an effect it does not keep pods from being evicted"
            advice = "Add one with effect: NoExecute if they are to stay."
            line, rule = document.line_of(where), "toleration-without-effect"
            yield Finding(document.file, line, Severity.WARNING, rule, message, advice)


def _admin_access(document: Document, documents: Iterable[Document]) -> Iterator[Finding]:
    """Admin access is granted in namespaces that say so."""
    labels: dict[str, Any] = {}
    for each in documents:
        if each.kind == "Namespace" and each.name == document.namespace:
            labels = each.metadata.get("labels") or {}
    if labels.get(ADMIN_ACCESS_LABEL) == "true":
        return
    for path, request in _device_requests(document):
        if request.get("adminAccess"):
            message = f"{path}.adminAccess: is refused unless the namespace allows it"
            advice = f"Label it: {document.namespace} {ADMIN_ACCESS_LABEL}=true"
            line = document.line_of(f"{path}.adminAccess")
            yield Finding(document.file, line, Severity.WARNING, "admin-access", message, advice)


def _requests(
    document: Document, documents: Iterable[Document], world: ClusterObjects | None
) -> Iterator[Finding]:
    """Classes that do not exist, and selectors that match nothing anywhere."""
    if world is None:
        return
    classes = {each.metadata.name for each in world.of(DeviceClass)}
    classes |= {each.name for each in documents if each.kind == "DeviceClass"}
    for path, request in _device_requests(document):
        name = request.get("deviceClassName")
        if isinstance(name, str) and name not in classes:
            close = spelling.similar(name, classes)
            advice = f"Did you mean {close[0]}?" if close else f"There are: {_some(classes)}"
            message = f"{path}.deviceClassName: there is no DeviceClass {name} in {world.source}"
            line = document.line_of(f"{path}.deviceClassName")
            yield Finding(document.file, line, Severity.WARNING, "missing-class", message, advice)
        yield from _selectors(document, path, request, world)


def _device_requests(document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every place where a class and selectors may be, in all versions' ways of writing it."""
    root = "spec.devices" if document.kind == CLAIM else "spec.spec.devices"
    requests = pod_specs.at(document.value, f"{root}.requests")
    for number, request in enumerate(requests if isinstance(requests, list) else ()):
        if not isinstance(request, dict):
            continue
        path = f"{root}.requests[{number}]"
        exact = request.get("exactly")
        yield (f"{path}.exactly", exact) if isinstance(exact, dict) else (path, request)
        alternatives = request.get("firstAvailable")
        for place, each in enumerate(alternatives if isinstance(alternatives, list) else ()):
            if isinstance(each, dict):
                yield f"{path}.firstAvailable[{place}]", each


def _selectors(
    document: Document, path: str, request: dict[str, Any], world: ClusterObjects
) -> Iterator[Finding]:
    selectors = request.get("selectors")
    for number, selector in enumerate(selectors if isinstance(selectors, list) else ()):
        place = f"{path}.selectors[{number}].cel.expression"
        expression = pod_specs.at(selector, "cel.expression")
        if not isinstance(expression, str):
            continue
        report = selector_report.make(expression, world.features, world.devices())
        if report.error or not report.devices or report.matched:
            continue
        message = f"{place}: matches none of the {report.devices} devices in {world.source}"
        advice = f"Did you mean: {report.rewrites[0]}" if report.rewrites else ""
        line = document.line_of(place)
        yield Finding(document.file, line, Severity.WARNING, "matches-nothing", message, advice)


def _some(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:5]) or "none"

"""Checks across objects: pods, claims, templates, classes and devices."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dray.api import kinds
from dray.api.ids import PoolId
from dray.api.types import dra
from dray.api.well_known import ADMIN_ACCESS_LABEL, NO_EXECUTE
from dray.cel import device as cel
from dray.cel.runtime import values
from dray.cli.command_errors import CommandError
from dray.cli.inputs import cluster_objects
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.lint import selector_hints
from dray.cli.lint.checks import container_claims, extended_resources, pod_specs
from dray.cli.lint.checks.container_claims import CLAIM, SOURCES, TEMPLATE
from dray.cli.lint.field_changes import RemoveField, RenameField, SetField
from dray.cli.lint.findings import Finding, Suggestion
from dray.cli.lint.source_documents import Document
from dray.explain.selectors import expressions, selector_report, spelling

Names = Mapping[str, set[tuple[str, str]]]


def check(documents: Iterable[Document], objects: ClusterObjects | None) -> Iterator[Finding]:
    """Yield the findings about objects together, and against a cluster if there is one."""
    readable = [item for item in documents if isinstance(item.value, dict)]
    yield from _twice(readable)
    names = _names(readable, objects)
    served = extended_resources.classes(readable, objects)
    requests = container_claims.requests(readable, objects)
    is_known = objects and not objects.unread.keys() & {"DeviceClass", "ResourceSlice"}
    cluster = _Cluster(readable, objects) if objects and is_known else None
    for document in readable:
        if document.kind in pod_specs.POD_SPECS:
            yield from _pod(document, names, readable, objects)
            yield from container_claims.check(document, requests)
            yield from extended_resources.check(document, served, objects)
        if document.kind in SOURCES:
            yield from _counts(document)
            yield from _zero_counts(document)
            yield from _tolerations(document)
            yield from _admin_access(document, readable)
            yield from _requests(document, cluster)
            yield from _config(document, cluster)
        if document.kind == "DeviceClass" and cluster is not None:
            yield from _class_selectors(document, cluster)


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


def _twice(documents: Iterable[Document]) -> Iterator[Finding]:
    """Find objects that are defined more than once."""
    first: dict[tuple[str, ...], Document] = {}
    for document in documents:
        group, _ = kinds.parse_api_version(document.api_version)
        key = (group, document.kind, document.namespace, document.name)
        earlier = first.setdefault(key, document)
        if earlier is document or not document.kind or not document.name:
            continue
        where = f"{earlier.file}:{earlier.position_of('').line}"
        message = f"{document.kind} {document.name} is defined twice; the first time in {where}"
        is_same = earlier.value == document.value
        advice = "Remove one of them." if is_same else "Remove one of them, or rename this one."
        yield document.error("", "duplicate-object", message, advice, _without(document, is_same))


def _without(document: Document, is_same: bool) -> Iterator[Suggestion]:
    """Suggest to remove an object that says the same as an earlier one, or to rename it."""
    if is_same and not document.index:
        lines = document.text.split("\n")
        end = document.end - 1 if lines[document.end - 1 :][:1] in (["---"], [""]) else document.end
        before = lines[: document.start]
        while before and before[-1].startswith("---"):
            before.pop()
        text = "\n".join([*before, *lines[end:]])
        yield Suggestion("Remove it: both say the same.", text=text)
    else:
        name = f"{document.name}-2"
        words = f"Remove one of them, or rename this one: metadata.name: {name}"
        yield Suggestion(words, (SetField("metadata.name", name),), is_correction=False)


def _pod(
    document: Document,
    names: Names,
    documents: Sequence[Document],
    objects: ClusterObjects | None,
) -> Iterator[Finding]:
    path = pod_specs.POD_SPECS[document.kind]
    claims = pod_specs.items_at(document.value, f"{path}.resourceClaims")
    yield from _node_name(document, path, has_claims=bool(claims))
    for number, entry in enumerate(claims):
        for kind, field in SOURCES.items():
            name = entry.get(field) if isinstance(entry, dict) else None
            if isinstance(name, str):
                where = _Reference(f"{path}.resourceClaims[{number}].{field}", kind, name)
                yield from _reference(document, where, names, documents, objects)


def _node_name(document: Document, path: str, *, has_claims: bool) -> Iterator[Finding]:
    """Find pods that bypass the scheduler, which alone allocates devices."""
    name = document.value_at(f"{path}.nodeName")
    if not has_claims or not isinstance(name, str) or "status" in document.value:
        return
    message = f"{path}.nodeName: the scheduler is bypassed, so the claims get no devices"
    label = "kubernetes.io/hostname"
    words = f"Write nodeSelector: {{{label}: {name}}} instead of nodeName."
    changes = (RemoveField(f"{path}.nodeName"), SetField(f"{path}.nodeSelector[{label}]", name))
    suggestion = Suggestion(words, changes)
    yield document.warning(f"{path}.nodeName", "node-name", message, words, (suggestion,))


class _Reference(NamedTuple):
    """A claim or template that a pod names."""

    path: str
    kind: str
    name: str


def _reference(
    document: Document,
    reference: _Reference,
    names: Names,
    documents: Sequence[Document],
    objects: ClusterObjects | None,
) -> Iterator[Finding]:
    """Check that the object named by a pod exists and has the expected kind."""
    path, kind, name = reference
    if (document.namespace, name) in names[kind]:
        return
    other = CLAIM if kind == TEMPLATE else TEMPLATE
    if (document.namespace, name) in names[other]:
        message = f"{path}: {name} is a {other}, not a {kind}"
        change = RenameField(path, SOURCES[other])
        suggestion = Suggestion(f"Write {SOURCES[other]}: {name}", (change,))
        yield document.error(path, "claim-or-template", message, "", (suggestion,))
        return
    elsewhere = sorted(space for space, existing in names[kind] if existing == name)
    if elsewhere:
        yield _elsewhere(document, reference, elsewhere[0], documents)
        return
    if objects and kind in objects.unread:
        return
    if any(_is_of_unknown_kind(item, document.namespace, name) for item in documents):
        return
    where = objects.source if objects else "these files"
    beside = [existing for space, existing in names[kind] if space == document.namespace]
    message = f"{path}: there is no {kind} {name} in {where}; the pod would wait for it"
    suggestions = tuple(
        Suggestion(f"Did you mean {close}?", (SetField(path, close),))
        for close in spelling.similar(name, beside)
    )
    yield document.warning(path, "missing-claim", message, "", suggestions)


def _is_of_unknown_kind(document: Document, namespace: str, name: str) -> bool:
    """Return whether a document may be an object of some name whose kind is misspelt."""
    group, _ = kinds.parse_api_version(document.api_version)
    is_known = kinds.by_kind(group, document.kind) is not None
    return not is_known and (document.namespace, document.name) == (namespace, name)


def _elsewhere(
    document: Document, reference: _Reference, namespace: str, documents: Sequence[Document]
) -> Finding:
    """Return the finding about a claim in another namespace, with the object to move."""
    path, kind, name = reference
    message = f"{path}: {kind} {name} is in namespace {namespace}, not {document.namespace}"
    advice = "A pod and its claims are in one namespace."
    target = next((item for item in documents if (item.kind, item.name) == (kind, name)), None)
    # An object without a namespace follows the one that has one.
    if document.metadata.get("namespace") and target and not target.metadata.get("namespace"):
        moved, space = target, document.namespace
    else:
        moved, space = document, namespace
    words = f"{advice} Write metadata.namespace: {space} in {moved.kind} {moved.name}"
    suggestion = Suggestion(words, (SetField("metadata.namespace", space),), target=moved)
    return document.error(path, "other-namespace", message, advice, (suggestion,))


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
        largest, count = max(valid, key=lambda pair: pair[1])
        path = f"{largest}.count"
        message = f"{path}: requests {total} devices; a claim can hold at most {limit}"
        left = limit - (total - count)
        words = f"It could be created, but never allocated. Use several claims, or count: {left}"
        change = SetField(path, left)
        suggestion = Suggestion(words, (change,), is_correction=False)
        advice = "It could be created, but never allocated. Use several claims."
        suggestions = (suggestion,) if left > 0 else ()
        yield document.warning(path, "too-many-devices", message, advice, suggestions)


def _zero_counts(document: Document) -> Iterator[Finding]:
    """Find requests for no device, which get one."""
    for path, request in _device_requests(document):
        if request.get("count") == 0 and request.get("allocationMode") != "All":
            where = f"{path}.count"
            message = f"{where}: 0 is read as 1, the default"
            suggestion = Suggestion("Write count: 1, or remove the request.", (SetField(where, 1),))
            yield document.warning(where, "zero-count", message, "", (suggestion,))


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
    own = [item for item in namespaces if item.name == document.namespace]
    if own and (own[-1].metadata.get("labels") or {}).get(ADMIN_ACCESS_LABEL) == "true":
        return
    command = f"dray label namespace {document.namespace} {ADMIN_ACCESS_LABEL}=true"
    for path, request in _device_requests(document):
        # Alternatives cannot have it at all.
        if request.get("adminAccess") and "firstAvailable" not in path:
            message = (
                f"{path}.adminAccess: is rejected unless namespace {document.namespace} has the "
                f"label {ADMIN_ACCESS_LABEL}=true"
            )
            change = SetField(f"metadata.labels[{ADMIN_ACCESS_LABEL}]", "true")
            words = f"Label the namespace: {command}"
            labelled = [
                Suggestion(words, (change,), is_correction=False, target=item) for item in own
            ]
            place = f"{path}.adminAccess"
            yield document.warning(place, "admin-access", message, words, labelled)


class _Cluster:
    """The classes and devices of a cluster and of files."""

    def __init__(self, documents: Iterable[Document], objects: ClusterObjects) -> None:
        self.source, self.features = objects.source, objects.features
        self._devices = list(objects.devices())
        self._classes = {item.metadata.name: item for item in objects.of(dra.DeviceClass)}
        self.written: set[str] = set()
        """The classes that files define, even if they cannot be read."""
        for document in documents:
            found = _decoded_class(document) if document.kind.endswith("Class") else None
            if found is not None:
                self._classes[document.name] = found
            elif document.kind.endswith("Class"):
                self.written.add(document.name)
        self._devices_of: dict[str, selector_hints.Devices] = {}

    @property
    def classes(self) -> list[str]:
        return sorted(self._classes)

    def devices_of(self, name: str) -> selector_hints.Devices:
        """Return the devices of a class; all devices if it does not exist."""
        if name not in self._devices_of:
            found = self._classes.get(name)
            selectors = [
                expressions.compiled(selector.cel.expression, self.features)
                for selector in (found.spec.selectors if found is not None else ())
                if selector.cel is not None
            ]
            self._devices_of[name] = [
                (pool, device)
                for pool, device in self._devices
                if all(_matches(selector, pool, device) for selector in selectors)
            ]
        return self._devices_of[name]


def _decoded_class(document: Document) -> dra.DeviceClass | None:
    try:
        found = cluster_objects.decode(copy.deepcopy(dict(document.value)), document.file)
    except CommandError:
        return None
    return found if isinstance(found, dra.DeviceClass) else None


def _matches(selector: cel.Selector, pool: PoolId, device: dra.Device) -> bool:
    try:
        return selector.error is None and selector.matches(cel.view(pool.driver, device))
    except (values.EvaluationError, values.CostExceeded):
        return False


def _requests(document: Document, cluster: _Cluster | None) -> Iterator[Finding]:
    """Find classes that do not exist, and selectors that match no device or fail."""
    if cluster is None:
        return
    for path, request in _device_requests(document):
        name = request.get("deviceClassName")
        if isinstance(name, str) and name not in (*cluster.classes, *cluster.written):
            field = f"{path}.deviceClassName"
            advice = f"There are: {', '.join(cluster.classes[:5]) or 'none'}"
            message = f"{field}: there is no DeviceClass {name} in {cluster.source}"
            suggestions = tuple(
                Suggestion(f"Did you mean {close}?", (SetField(field, close),))
                for close in spelling.similar_domains(name, cluster.classes)
            )
            yield document.warning(field, "missing-class", message, advice, suggestions)
        yield from _selectors(document, path, request, cluster)


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


def _config(document: Document, cluster: _Cluster | None) -> Iterator[Finding]:
    """Find configuration for drivers that publish no device of the claim's classes."""
    root = pod_specs.DEVICES[document.kind]
    classes = {str(request.get("deviceClassName")) for _, request in _device_requests(document)}
    if cluster is None or not classes <= {*cluster.classes}:
        return
    drivers = sorted({pool.driver for name in classes for pool, _ in cluster.devices_of(name)})
    for number, entry in enumerate(pod_specs.items_at(document.value, f"{root}.config")):
        driver = pod_specs.at(entry, "opaque.driver")
        if not drivers or not isinstance(driver, str) or driver in drivers:
            continue
        where = f"{root}.config[{number}].opaque.driver"
        message = f"{where}: {driver} publishes no device of the claim's classes"
        meant = spelling.similar_domains(driver, drivers) or (drivers if len(drivers) == 1 else [])
        suggestions = [
            Suggestion(f"Did you mean {name}?", (SetField(where, name),)) for name in meant
        ]
        advice = f"The drivers are: {', '.join(drivers)}"
        yield document.warning(where, "unused-config", message, advice, suggestions)


def _class_selectors(document: Document, cluster: _Cluster) -> Iterator[Finding]:
    """Find selectors of a class that match no device of the cluster."""
    if pod_specs.items_at(document.value, "spec.selectors"):
        yield from _selectors(document, "spec", document.value["spec"], cluster)


def _selectors(
    document: Document, path: str, request: dict[str, Any], cluster: _Cluster
) -> Iterator[Finding]:
    name = str(request.get("deviceClassName") or "")
    devices = cluster.devices_of(name)
    for number, selector in enumerate(pod_specs.items_at(request, "selectors")):
        place = f"{path}.selectors[{number}].cel.expression"
        expression = pod_specs.at(selector, "cel.expression")
        if not isinstance(expression, str):
            continue
        report = selector_report.make(expression, cluster.features, devices)
        failing = [shape for shape in report.shapes if shape.answer == selector_report.ERROR]
        is_costly = report.cost > report.cost_limit
        is_fine = bool(report.matched) and not failing
        if report.error or is_costly or not report.devices or is_fine:
            continue
        of_class = f" of class {name}" if name else ""
        described = f"{report.devices} devices{of_class} in {cluster.source}"
        absent = [read.name for read in report.reads if not read.devices]
        lacking = f": none has {', '.join(absent)}" if absent else ""
        rule, message = "matches-nothing", f"{place}: matches none of the {described}{lacking}"
        if failing and not absent:
            count = sum(shape.devices for shape in failing)
            rule = "selector-error"
            message = f"{place}: fails on {count} of the {described}: {failing[0].error}"
        suggestions = itertools.chain(
            selector_hints.on_devices(place, expression, cluster.features, devices),
            selector_hints.thresholds(place, expression, cluster.features, devices),
            _without_selector(request, f"{path}.selectors", number, report, devices),
        )
        yield document.warning(place, rule, message, _values(report), suggestions)


def _without_selector(
    request: dict[str, Any],
    path: str,
    number: int,
    report: selector_report.Report,
    devices: selector_hints.Devices,
) -> Iterator[Suggestion]:
    """Suggest to do without a selector, and say what the devices have."""
    path = f"{path}[{number}]" if len(request["selectors"]) > 1 else path
    names = sorted({name for _, device in devices for name in device.attributes})
    is_absent = any(not read.devices for read in report.reads)
    there = [f"They have: {', '.join(names)}"] if is_absent else []
    shown = ". ".join(filter(None, [_values(report), *there]))
    words = f"{shown}\nCompare what they have, or remove {path}".lstrip()
    yield Suggestion(words, (RemoveField(path),), is_correction=False)


def _values(report: selector_report.Report) -> str:
    """Return what the devices publish of the names that a selector reads."""
    words = [
        f"{read.name} exists on {read.devices} of {report.devices} devices"
        for read in report.reads
        if read.devices < report.devices
    ]
    published = [
        f"{read.name} is {', '.join(sorted({shape.values[number] for shape in report.shapes})[:5])}"
        for number, read in enumerate(report.reads)
        if read.devices
    ]
    return "; ".join([*words, *published])

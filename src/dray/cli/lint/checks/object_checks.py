"""Checks of a single object: fields, types, limits, versions."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from dray.api import kinds
from dray.api.conversion import canonical, decoding, defaults, versions
from dray.api.conversion.decoding import FieldProblem
from dray.api.features import Features
from dray.api.kinds import Kind
from dray.api.strategies import kind_strategies
from dray.cli.lint import field_hints, hints, source_documents
from dray.cli.lint.checks import pod_specs
from dray.cli.lint.field_changes import FieldChange, RemoveField, SetField
from dray.cli.lint.findings import Finding, Suggestion
from dray.cli.lint.source_documents import Document
from dray.drivers.simulated import fleet as fleets
from dray.drivers.simulated.fleet_file import FleetBlueprint, FleetError
from dray.explain.selectors import spelling
from dray.partitions import expansion
from dray.validation import rules
from dray.validation.fields import ErrorType, FieldError

_DRA = "resource.k8s.io"
_UNDECLARED = re.compile(r"\.resources\.claims\[\d+\](\.name)?$")
NO_TIME = "1970-01-01T00:00:00Z"
_GENERATED = "xxxxx"
_NO_BREAK_SPACE = "\u00a0"
_OF_SERVER = ("resourceVersion", "uid")
"""Fields of metadata with which an object cannot be created."""
_FORMER_KINDS = {"ResourceClass": "DeviceClass", "ResourceClassParameters": "DeviceClass"}


def check(document: Document, features: Features) -> Iterator[Finding]:
    """Yield every finding about one object."""
    if not isinstance(document.value, dict):
        yield document.error("", "not-an-object", "an object is expected here")
        return
    kind = kind_of(document)
    if kind is None:
        yield from _fleet(document) if _is_fleet(document) else _unknown_kind(document)
        return
    group, version = kinds.parse_api_version(document.api_version)
    if version not in kind.versions:
        served = ", ".join(kinds.api_version(group, name) for name in kind.versions)
        message = f"{document.kind} is not served as {document.api_version}"
        newest = SetField("apiVersion", kind.preferred.api_version)
        suggestion = Suggestion(f"Write apiVersion: {kind.preferred.api_version}", (newest,))
        advice = f"Write apiVersion: {served}"
        yield document.error("apiVersion", "unknown-version", message, advice, (suggestion,))
        return
    yield from _outdated(document, kind, version)
    yield from _exported(document)
    schema_type = kind.in_version(version).schema_type
    problems = decoding.check(schema_type, document.value)
    for problem in problems:
        path = source_documents.joined(document.steps_of(problem.path))
        yield _field_finding(document, schema_type, problem._replace(path=path))
    if all(problem.kind in ("unknown", "repeated") for problem in problems):
        unknown = [problem.path for problem in problems if problem.kind == "unknown"]
        yield from _invalid(document, kind, version, features, unknown)


def _exported(document: Document) -> Iterator[Finding]:
    """Find what a server has set in an object that was written to a file."""
    fields = [f"metadata.{name}" for name in _OF_SERVER if document.metadata.get(name)]
    if fields:
        message = f"{fields[0]}: was set by a server; no server creates an object with it"
        words = f"Remove {' and '.join(fields)}."
        suggestion = Suggestion(words, tuple(map(RemoveField, fields)))
        yield document.warning(fields[0], "exported-object", message, words, (suggestion,))


def _field_finding(document: Document, schema_type: str, problem: FieldProblem) -> Finding:
    if problem.kind == "unknown" and problem.path.endswith(f".{expansion.FIELD}"):
        message = f"{problem.path}: only dray's API server understands this field"
        words = "Elsewhere, ask for a class of partitions, or for one with firstAvailable."
        return document.warning(problem.path, "partition-request", message, words)
    message = problem.message
    if problem.kind == "mistyped":
        message = field_hints.mistyped_message(schema_type, problem, document)
    if problem.path not in message:
        message = f"{problem.path}: {message}"
    if _NO_BREAK_SPACE in problem.path:
        words = "The line is indented with a no-break space: replace it with a space."
        text = document.text.replace(_NO_BREAK_SPACE, " ")
        suggestion = Suggestion(words, text=text)
        return document.error(problem.path, "unknown-field", message, words, (suggestion,))
    suggestions = field_hints.on_problem(schema_type, problem, document)
    return document.error(problem.path, f"{problem.kind}-field", message, "", suggestions)


def kind_of(document: Document) -> Kind | None:
    group, _ = kinds.parse_api_version(document.api_version)
    return kinds.by_kind(group, document.kind)


def _is_fleet(document: Document) -> bool:
    """Return whether a document describes a simulated fleet for `dray up --fleet`."""
    return "nodes" in document.value and not document.api_version and not document.kind


def _fleet(document: Document) -> Iterator[Finding]:
    try:
        described = msgspec.convert(document.value, FleetBlueprint)
        list(fleets.build(described, name=document.file).pools())
    except (msgspec.ValidationError, FleetError) as error:
        yield document.error("", "fleet", str(error), "See one that works: dray fleet show h100")


def _unknown_kind(document: Document) -> Iterator[Finding]:
    if not document.api_version or not document.kind:
        yield _no_type(document)
        return
    group, _ = kinds.parse_api_version(document.api_version)
    meant = list(_kinds_meant(group, document.kind))
    if document.kind in _FORMER_KINDS and group == _DRA:
        yield _former_kind(document)
        return
    if not meant and group != _DRA:
        # A kind of somebody else, which a server may well have.
        return
    served = [kind.kind for kind in kinds.KINDS if kind.group == group]
    message = f"{group or 'the core group'} has no kind {document.kind}"
    advice = f"There are: {', '.join(served)}"
    suggestions = tuple(_type_suggestion(document, kind) for kind in meant)
    field = "kind" if not meant or meant[0].kind != document.kind else "apiVersion"
    yield document.error(field, "unknown-kind", message, advice, suggestions)


def _former_kind(document: Document) -> Finding:
    """Return the finding about a kind of v1alpha2, with the one that replaced it."""
    new = _FORMER_KINDS[document.kind]
    changes: list[FieldChange] = [
        SetField("apiVersion", f"{_DRA}/v1"),
        SetField("kind", new),
    ]
    driver = document.value_at("driverName") or document.value_at("spec.driverName")
    path = "driverName" if document.value_at("driverName") else "spec.driverName"
    if isinstance(driver, str):
        selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
        changes += [RemoveField(path), SetField("spec.selectors", [selector])]
    message = f"{_DRA} has no kind {document.kind} since v1alpha3"
    words = f"Write kind: {new}, with selectors instead of driverName."
    return document.error(
        "kind", "unknown-kind", message, words, (Suggestion(words, tuple(changes)),)
    )


def _no_type(document: Document) -> Finding:
    missing = "apiVersion" if not document.api_version else "kind"
    message = f"the object has no {missing}"
    known = kinds.by_name(document.kind) if document.kind else None
    if known is None:
        return document.error("", "no-type", message, f"Add {missing} at the top of the object.")
    change = SetField("apiVersion", known.preferred.api_version)
    suggestion = Suggestion(f"Add apiVersion: {known.preferred.api_version}", (change,))
    return document.error("", "no-type", message, "", (suggestion,))


def _kinds_meant(group: str, name: str) -> Iterator[Kind]:
    """Yield the kinds that were probably meant: in this group, or of this name elsewhere."""
    in_group = {kind.kind: kind for kind in kinds.KINDS if kind.group == group}
    same = spelling.same_but_spelling(name.removesuffix("s"), in_group)
    for other in dict.fromkeys([*same, *spelling.similar(name, in_group)]):
        yield in_group[other]
    groups = {kind.group for kind in kinds.KINDS}
    for kind in kinds.KINDS:
        is_named = name.lower() in (kind.kind.lower(), f"{kind.kind.lower()}s")
        # The groups of custom resources have dots; without one it is a group of Kubernetes.
        is_close = group in groups or "." not in group or spelling.similar(group, [kind.group])
        if is_named and kind.group != group and (is_close or kind.group == _DRA):
            yield kind


def _type_suggestion(document: Document, kind: Kind) -> Suggestion:
    group, version = kinds.parse_api_version(document.api_version)
    changes = []
    if kind.kind != document.kind:
        changes.append(SetField("kind", kind.kind))
    if kind.group != group:
        served = version if version in kind.versions else kind.preferred.version
        changes.append(SetField("apiVersion", kinds.api_version(kind.group, served)))
    lines = ", ".join(f"{change.path}: {change.value}" for change in changes)
    words = kind.kind if len(changes) == 1 and changes[0].path == "kind" else lines
    return Suggestion(f"Did you mean {words}?", tuple(changes))


def _outdated(document: Document, kind: Kind, version: str) -> Iterator[Finding]:
    newest = kind.preferred.api_version
    if document.api_version != newest and kind.group == _DRA:
        message = f"{document.api_version} is outdated: {document.kind} is {newest}"
        changes = (SetField("apiVersion", newest), *_as_newest(document, version))
        suggestion = Suggestion("dray lint --fix rewrites it.", tuple(changes))
        advice = f"Write apiVersion: {newest}, and the fields as that version has them."
        yield document.warning("apiVersion", "outdated-version", message, advice, (suggestion,))


def _as_newest(document: Document, version: str) -> Iterator[FieldChange]:
    """Yield the changes that make an object one of the newest version, apart from its version."""
    if document.kind in pod_specs.DEVICES:
        yield from field_hints.nestings(document) if version == "v1beta1" else ()
        return
    value = copy.deepcopy(dict(document.value))
    try:
        newest = versions.to_storage(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        return
    for field, new in newest.items():
        if field != "apiVersion" and new != document.value.get(field):
            yield SetField(field, new)


def _invalid(
    document: Document, kind: Kind, version: str, features: Features, unknown: Sequence[str]
) -> Iterator[Finding]:
    """Yield what the API server would reject after it has applied defaults."""
    stored = versions.to_storage(copy.deepcopy(dict(document.value)))
    _fill_metadata(stored, kind)
    defaults.fill(stored, NO_TIME)
    if (stored.get("spec") or {}).get("template"):
        # Jobs get their selector from the server.
        kind_strategies.of(kind).prepare_create(stored)
    written = canonical.prune_nulls(canonical.write(kind.preferred.schema_type, stored))
    value = msgspec.convert(written, rules.struct_of(kind.kind))
    found = list(rules.validate_create(kind.kind, value, features, version))
    shown = {(error.field, error.detail) for error in found}
    for error in found:
        if _is_said_of_limits(error, document, shown):
            continue
        is_undeclared = error.type is ErrorType.NOT_FOUND and _UNDECLARED.search(error.field)
        if is_undeclared and document.kind in pod_specs.POD_SPECS:
            # `container_claims` knows more about it.
            continue
        is_missing = error.type is ErrorType.REQUIRED or "must specify one of" in error.detail
        if is_missing and any(_is_near(error.field, path) for path in unknown):
            # The field is there, with another name or at another place.
            continue
        rule = "invalid-selector" if error.field.endswith("cel.expression") else "invalid"
        suggestions = hints.on_error(error, document, features)
        yield document.error(error.field, rule, error.message, "", suggestions)


def _is_said_of_limits(error: FieldError, document: Document, shown: set[tuple[str, str]]) -> bool:
    """Return whether an error is about a default that was made from another wrong field.

    Requests are the limits where they are not written.
    """
    of_limits = error.field.replace(".resources.requests[", ".resources.limits[")
    is_default = of_limits != error.field and document.value_at(error.field) is None
    return is_default and (of_limits, error.detail) in shown


def _is_near(field: str, unknown: str) -> bool:
    parent = unknown.rpartition(".")[0]
    return field.startswith(parent) or parent.startswith(field)


def _fill_metadata(stored: dict[str, Any], kind: Kind) -> None:
    metadata = stored.setdefault("metadata", {})
    if not kind.namespaced:
        # As the API server does it.
        metadata.pop("namespace", None)
    metadata.setdefault("uid", _GENERATED)
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    if "name" not in metadata and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + _GENERATED

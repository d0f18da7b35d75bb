"""Checks of a single object: fields, types, limits, versions."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec

from dray.api import kinds
from dray.api.conversion import canonical, decoding, defaults, versions
from dray.api.conversion.decoding import FieldProblem
from dray.api.features import Features
from dray.api.kinds import Kind
from dray.api.strategies import kind_strategies
from dray.cli.lint import hints
from dray.cli.lint.findings import Finding
from dray.cli.lint.source_documents import Document
from dray.drivers.simulated import fleet as fleets
from dray.drivers.simulated.fleet_file import FleetBlueprint, FleetError
from dray.explain.selectors import spelling
from dray.partitions import expansion
from dray.validation import rules

NO_TIME = "1970-01-01T00:00:00Z"
_GENERATED = "xxxxx"


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
        advice = f"Write apiVersion: {served}"
        yield document.error("apiVersion", "unknown-version", message, advice)
        return
    yield from _outdated(document, kind, version)
    schema_type = kind.in_version(version).schema_type
    problems = decoding.check(schema_type, document.value)
    for problem in problems:
        yield _field_finding(document, schema_type, problem)
    if all(problem.kind in ("unknown", "repeated") for problem in problems):
        yield from _invalid(document, kind, version, features)


def _field_finding(document: Document, schema_type: str, problem: FieldProblem) -> Finding:
    if problem.kind == "unknown" and problem.path.endswith(f".{expansion.FIELD}"):
        message = f"{problem.path}: only dray's API server understands this field"
        words = "Elsewhere, ask for a class of partitions, or for one with firstAvailable."
        return document.warning(problem.path, "partition-request", message, words)
    is_located = problem.path in problem.message
    message = problem.message if is_located else f"{problem.path}: {problem.message}"
    words = hints.on_problem(schema_type, problem, document)
    return document.error(problem.path, f"{problem.kind}-field", message, words)


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
        missing = "apiVersion" if not document.api_version else "kind"
        yield document.error("", "no-type", f"the object has no {missing}")
        return
    group, _ = kinds.parse_api_version(document.api_version)
    if group == "resource.k8s.io":
        kind_names = [kind.kind for kind in kinds.KINDS if kind.group == group]
        close = spelling.similar(document.kind, kind_names)
        advice = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(kind_names)}"
        message = f"{group} has no kind {document.kind}"
        yield document.error("kind", "unknown-kind", message, advice)


def _outdated(document: Document, kind: Kind, version: str) -> Iterator[Finding]:
    newest = kind.preferred.api_version
    if document.api_version != newest and kind.group == "resource.k8s.io":
        message = f"{document.api_version} is outdated: {document.kind} is {newest}"
        advice = "dray lint --fix rewrites it."
        yield document.warning("apiVersion", "outdated-version", message, advice)


def _invalid(document: Document, kind: Kind, version: str, features: Features) -> Iterator[Finding]:
    """Yield what the API server would reject after it has applied defaults."""
    stored = versions.to_storage(copy.deepcopy(dict(document.value)))
    _fill_metadata(stored, kind)
    defaults.fill(stored, NO_TIME)
    if (stored.get("spec") or {}).get("template"):
        # Jobs get their selector from the server.
        kind_strategies.of(kind).prepare_create(stored)
    written = canonical.prune_nulls(canonical.write(kind.preferred.schema_type, stored))
    value = msgspec.convert(written, rules.struct_of(kind.kind))
    for error in rules.validate_create(kind.kind, value, features, version):
        words = hints.on_error(error, document, features)
        yield document.error(error.field, "invalid", error.message, words)


def _fill_metadata(stored: dict[str, Any], kind: Kind) -> None:
    metadata = stored.setdefault("metadata", {})
    metadata.setdefault("uid", _GENERATED)
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    if "name" not in metadata and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + _GENERATED

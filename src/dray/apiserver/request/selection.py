"""Label and field selectors of lists and watches, on stored objects."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.api import errors, kinds
from dray.api.conversion import versions
from dray.api.http_messages import Request
from dray.api.kinds import Kind
from dray.api.selectors import field_selectors, label_selectors
from dray.api.selectors.field_selectors import FieldSelector
from dray.api.selectors.label_selectors import ParsedSelector
from dray.api.types.meta import JsonObject

ALL_FIELDS = FieldSelector()
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT = ("reason", "reportingComponent", "source", "type")
FIELDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
    ("", "services"): ("spec.clusterIP", "spec.type"),
    ("", "events"): (*(f"involvedObject.{field}" for field in _REFERENCE), *_EVENT),
    ("events.k8s.io", "events"): (
        *(f"regarding.{field}" for field in _REFERENCE),
        *_EVENT,
        "reportingController",
    ),
    ("", "replicationcontrollers"): ("status.replicas",),
    ("batch", "jobs"): ("status.successful",),
    ("resource.k8s.io", "resourceslices"): ("spec.nodeName", "spec.driver", "spec.pool.name"),
}
"""Selectable fields besides the name and the namespace."""


@dataclass(frozen=True, slots=True)
class StoredObjectSelector:
    """Label and field selectors, in the names of the storage version."""

    labels: ParsedSelector = label_selectors.EVERYTHING
    fields: FieldSelector = ALL_FIELDS

    @property
    def is_everything(self) -> bool:
        return not self.labels.requirements and not self.fields.terms

    def matches(self, document: JsonObject) -> bool:
        if self.labels.requirements and not self.labels.matches(
            document["metadata"].get("labels") or {}
        ):
            return False
        return not self.fields.terms or self.fields.matches(_FieldView(document))

    def required(self, field: str) -> str:
        return self.fields.required_value(field) or ""


EVERYTHING = StoredObjectSelector()


def reader(selector: StoredObjectSelector) -> Callable[[bytes], JsonObject]:
    """Return a function that decodes only those fields of an object that the selector reads."""
    paths = {term.field for term in selector.fields.terms}
    if selector.labels.requirements:
        paths.add("metadata.labels")
    if not paths.isdisjoint(_SPECIAL):
        return msgspec.json.decode
    return _reader(tuple(sorted(paths)))


@functools.lru_cache(maxsize=256)
def _reader(paths: tuple[str, ...]) -> Callable[[bytes], JsonObject]:
    decoder = msgspec.json.Decoder(_struct_of([path.split(".") for path in paths]))
    return lambda stored: msgspec.to_builtins(decoder.decode(stored))


def _struct_of(paths: Iterable[Sequence[str]]) -> Any:
    """Return a struct type with these fields; the end of a path has any type."""
    inner: dict[str, list[Sequence[str]]] = {}
    for first, *rest in paths:
        inner.setdefault(first, []).append(rest)
    fields = [
        (name, Any if [] in rests else _struct_of(rests) | None, None)
        for name, rests in inner.items()
    ]
    return msgspec.defstruct("Looked", fields, gc=False)


class _FieldView(dict[str, str]):
    """The fields of one object as text, read when a selector needs them."""

    def __init__(self, document: JsonObject) -> None:
        self._document = document

    def get(self, path: str, default: Any = "") -> Any:
        special = _SPECIAL.get(path)
        if special is not None:
            return special(self._document)
        value: Any = self._document
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return _text(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _source(document: JsonObject) -> str:
    component = (document.get("source") or {}).get("component", "")
    return component or str(document.get("reportingComponent", ""))


_SPECIAL: Mapping[str, Callable[[JsonObject], str]] = {
    "source": _source,
    "spec.hostNetwork": lambda pod: _text(bool(pod.get("spec", {}).get("hostNetwork"))),
    "spec.unschedulable": lambda node: _text(bool(node.get("spec", {}).get("unschedulable"))),
    "status.replicas": lambda owner: _text(owner.get("status", {}).get("replicas", 0)),
    "status.successful": lambda job: _text(job.get("status", {}).get("succeeded", 0)),
}


def parse(request: Request, kind: Kind, version: str) -> StoredObjectSelector:
    """Return the selectors of a request's query. Raises 400 if they are invalid."""
    label_text = request.parameter("labelSelector")
    field_text = request.parameter("fieldSelector")
    if not label_text and not field_text:
        return EVERYTHING
    try:
        labels = label_selectors.parse(label_text)
        fields = field_selectors.parse_fields(field_text)
    except label_selectors.SelectorError as error:
        raise errors.bad_request(str(error)) from error
    unknown = _unknown_field(kind, version, fields)
    if unknown:
        raise errors.bad_request(unknown)
    return StoredObjectSelector(labels, _in_storage_names(kind, version, fields))


def _unknown_field(kind: Kind, version: str, fields: FieldSelector) -> str:
    """Return the error for a field that is not selectable; the text differs between kinds."""
    extra = FIELDS.get((kind.group, kind.plural))
    for term in fields.terms:
        if term.field in ("metadata.name", "metadata.namespace") or term.field in (extra or ()):
            continue
        if (kind.group, kind.kind) == ("batch", "Job"):
            return f'field label "{term.field}" not supported for Job'
        if extra is not None:
            whose = ""
            if kind.kind == "ResourceSlice":
                whose = f" for {kind.group}/{version}, Kind={kind.kind}"
            return f"field label not supported{whose}: {term.field}"
        supported = '"metadata.name", "metadata.namespace"'
        return f'"{term.field}" is not a known field selector: only {supported}'
    return ""


def _in_storage_names(kind: Kind, version: str, fields: FieldSelector) -> FieldSelector:
    api_version = kinds.api_version(kind.group, version)
    terms = (
        term._replace(field=versions.storage_field(api_version, kind.kind, term.field))
        for term in fields.terms
    )
    return FieldSelector(tuple(terms))

"""Rewrites manifests: outdated versions, requests as before v1, extended resources.

Lines are edited where that gives what is meant, which keeps comments; otherwise the object is
written anew.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import yaml

from dray.api import kinds
from dray.api.conversion import versions
from dray.api.types.meta import JsonObject
from dray.cli.inputs.manifests import Loader
from dray.cli.lint import extended_resources, line_edits, object_checks
from dray.cli.lint.extended_resources import Claimed, Classes
from dray.cli.lint.line_edits import Edit
from dray.cli.lint.source_documents import Document
from dray.cli.output import serialization

SEPARATOR = "---\n"


def fixed(
    text: str, documents: Sequence[Document], known: Classes = extended_resources.KNOWN
) -> str:
    """The file with the objects rewritten that can be; all other lines stay as they are."""
    lines = [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(True)]
    changed = False
    for document in reversed(documents):
        if sum(each.start == document.start for each in documents) > 1:
            continue
        new = _fixed_lines(document, lines, known)
        if new is not None:
            lines[document.start : _end(lines, document)] = new
            changed = True
    return "".join(lines) if changed else text


def _fixed_lines(document: Document, lines: list[str], known: Classes) -> list[str] | None:
    """The lines of one object after all that can be done for it; None where it is fine."""
    if not isinstance(document.value, dict):
        return None
    value = rewritten(document)
    if value is not None:
        made = [
            *line_edits.version(document, lines, str(value["apiVersion"])),
            *line_edits.exactly(document, lines, f"{_devices_path(document.kind)}.requests"),
        ]
        return _edited(document, lines, made, value)
    claimed = extended_resources.claimed(dict(document.value), document.kind, known)
    if claimed is None:
        return None
    return _with_claims(document, lines, claimed, known)


def _with_claims(
    document: Document, lines: list[str], claimed: Claimed, known: Classes
) -> list[str]:
    """A workload with claims, and behind it the templates they are made from."""
    uses = list(extended_resources.uses(document.value, document.kind, known))
    names = [use_name for use_name, _ in claimed.added]
    made = [
        *line_edits.claims(document, uses, names),
        *line_edits.resource_claims(document, claimed.added),
    ]
    workload = _edited(document, lines, made, claimed.value)
    templates = [
        serialization.write_yaml(template, in_order=True) for template in claimed.templates
    ]
    return [*workload, *(line for text in templates for line in (SEPARATOR, text))]


def _edited(
    document: Document, lines: list[str], made: Sequence[Edit], expected: JsonObject
) -> list[str]:
    """The object's lines after edits, or written anew where they do not give what is expected."""
    start, end = document.start, _end(lines, document)
    own = [edit._replace(start=edit.start - start, end=edit.end - start) for edit in made]
    new = line_edits.applied(lines[start:end], own)
    if _parsed("".join(new)) == expected:
        return new
    return [serialization.write_yaml(expected, in_order=True)]


def _parsed(text: str) -> Any:
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError:
        return None


def _end(lines: Sequence[str], document: Document) -> int:
    """Where the object ends; the separator behind it is not part of it."""
    end = min(document.end, len(lines))
    while end > document.start + 1 and lines[end - 1].startswith(("---", "...")):
        end -= 1
    return end


def rewritten(document: Document) -> JsonObject | None:
    """The object in the newest version; None where that is what it is."""
    kind = object_checks.kind_of(document)
    if kind is None or kind.group != "resource.k8s.io" or not isinstance(document.value, dict):
        return None
    value = copy.deepcopy(dict(document.value))
    newest = kind.preferred.api_version
    if document.api_version == newest:
        if not _has_flat_requests(value, document.kind):
            return None
        value["apiVersion"] = f"{kind.group}/v1beta1"
    elif kinds.parse_api_version(document.api_version)[1] not in kind.versions:
        return None
    return {**versions.to_storage(value), "apiVersion": newest}


def _has_flat_requests(value: JsonObject, kind: str) -> bool:
    if kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return False
    spec = value.get("spec") or {}
    devices = (spec.get("spec") or {} if kind.endswith("Template") else spec).get("devices") or {}
    return any(
        isinstance(request, dict) and "deviceClassName" in request
        for request in devices.get("requests") or ()
    )


def _devices_path(kind: str) -> str:
    return "spec.spec.devices" if kind == "ResourceClaimTemplate" else "spec.devices"

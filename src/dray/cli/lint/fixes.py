"""Rewrites manifests: outdated versions, and requests as they were before v1.

Lines are edited where that gives the expected object, which keeps comments; otherwise the object is
written again as a whole.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

import yaml

from dray.api import kinds
from dray.api.conversion import versions
from dray.api.types.meta import JsonObject
from dray.cli.inputs.manifests import Loader
from dray.cli.lint import line_edits, object_checks, pod_specs
from dray.cli.lint.line_edits import Edit
from dray.cli.lint.source_documents import Document
from dray.cli.output import serialization


def fixed(text: str, documents: Sequence[Document]) -> str:
    """Return the file with outdated objects rewritten; all other lines stay as they are."""
    lines = [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(True)]
    starts = Counter(document.start for document in documents)
    changed = False
    for document in reversed(documents):
        # The items of a List share its lines and are left alone.
        value = rewritten(document) if starts[document.start] == 1 else None
        if value is None:
            continue
        edits = [
            *line_edits.version(document, lines, str(value["apiVersion"])),
            *line_edits.exactly(document, lines, _requests_path(document.kind)),
        ]
        lines[document.start : _end(lines, document)] = _edited(document, lines, edits, value)
        changed = True
    return "".join(lines) if changed else text


def _edited(
    document: Document, lines: list[str], edits: Sequence[Edit], expected: JsonObject
) -> list[str]:
    """Return the object's lines after the edits, or the whole object if these are not enough."""
    start, end = document.start, _end(lines, document)
    own = [edit._replace(start=edit.start - start, end=edit.end - start) for edit in edits]
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
    """Return the line after the object, without the separator that follows it."""
    end = min(document.end, len(lines))
    while end > document.start + 1 and lines[end - 1].startswith(("---", "...")):
        end -= 1
    return end


def rewritten(document: Document) -> JsonObject | None:
    """Return the object in the newest version, or None if it is up to date."""
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


def _requests_path(kind: str) -> str:
    return f"{pod_specs.DEVICES.get(kind, '')}.requests"


def _has_flat_requests(value: JsonObject, kind: str) -> bool:
    requests = pod_specs.items_at(value, _requests_path(kind))
    return any(isinstance(item, dict) and "deviceClassName" in item for item in requests)

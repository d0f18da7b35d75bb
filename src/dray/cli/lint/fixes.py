"""Rewrites manifests: outdated versions, and requests in v1 that are written as before v1."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from dray.api import kinds, versions
from dray.cli import yamltext
from dray.cli.lint import objects
from dray.cli.lint.sources import Document

Object = dict[str, Any]


def fixed(text: str, documents: Sequence[Document]) -> str:
    """The file with the objects rewritten that can be; all other lines stay as they are."""
    lines = text.splitlines(keepends=True)
    for document in reversed(documents):
        value = rewritten(document)
        if value is not None and sum(each.start == document.start for each in documents) == 1:
            lines[document.start : _end(lines, document)] = [yamltext.write(value, in_order=True)]
    return "".join(lines)


def _end(lines: Sequence[str], document: Document) -> int:
    """Where the object ends; the separator behind it is not part of it."""
    end = min(document.end, len(lines))
    while end > document.start + 1 and lines[end - 1].startswith(("---", "...")):
        end -= 1
    return end


def rewritten(document: Document) -> Object | None:
    """The object in the newest version; None where that is what it is."""
    kind = objects.kind_of(document)
    if kind is None or kind.group != "resource.k8s.io" or not isinstance(document.value, dict):
        return None
    value = copy.deepcopy(dict(document.value))
    newest = kinds.api_version(kind.group, kind.versions[0])
    if document.api_version == newest:
        if not _has_flat_requests(value, document.kind):
            return None
        value["apiVersion"] = f"{kind.group}/v1beta1"
    elif kinds.parse_api_version(document.api_version)[1] not in kind.versions:
        return None
    return {**versions.to_storage(value), "apiVersion": newest}


def _has_flat_requests(value: Object, kind: str) -> bool:
    if kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return False
    spec = value.get("spec") or {}
    devices = (spec.get("spec") or {} if kind.endswith("Template") else spec).get("devices") or {}
    return any(
        isinstance(request, dict) and "deviceClassName" in request
        for request in devices.get("requests") or ()
    )

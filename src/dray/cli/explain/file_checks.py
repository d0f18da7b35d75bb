"""Manifests that the API server would refuse: explained by what lint finds in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dray.api.features import Features
from dray.cli.lint import object_checks, reference_checks, source_documents
from dray.cli.lint.findings import Finding, Severity
from dray.cli.lint.source_documents import NotYaml

_ADMIN_ACCESS = "admin-access"
_SELECTOR = ".cel.expression"
"""Part of the path of selectors: these are explained together with the devices."""


def errors(texts: Sequence[tuple[str, str]], features: Features) -> list[Finding]:
    """Return the mistakes for which the API server would refuse an object of the files."""
    return [
        item
        for item in _findings(texts, features)
        if item.severity is Severity.ERROR and _SELECTOR not in item.message
    ]


def _findings(texts: Sequence[tuple[str, str]], features: Features) -> Iterator[Finding]:
    for file, text in texts:
        if text.lstrip().startswith("{"):
            # Dumps and snapshots: large, and written by a server.
            continue
        try:
            documents = list(source_documents.documents(file, text))
        except NotYaml as error:
            yield Finding(
                file, error.line, Severity.ERROR, "not-yaml", f"not YAML: {error.problem}"
            )
            continue
        for document in documents:
            yield from object_checks.check(document, features)
        for finding in reference_checks.check(documents, None):
            if finding.rule == _ADMIN_ACCESS:
                yield finding._replace(severity=Severity.ERROR)

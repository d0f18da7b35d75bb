"""Manifests that the API server would refuse: explained by what lint finds in them."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.features import Features
from dray.cli.lint.findings import Finding
from dray.cli.lint.linter import Linter
from dray.cli.lint.rules import Severity

_OF_ONE_OBJECT = frozenset(
    {
        *("not-yaml", "not-an-object", "no-type", "unknown-kind", "unknown-version"),
        *("unknown-field", "mistyped-field", "malformed-field", "repeated-field"),
        *("partition-request", "invalid", "admin-access"),
    }
)
"""Rules of the API server. What pods wait for is explained with their stages."""
_SELECTOR = ".cel.expression"
"""Part of the path of selectors: these are explained together with the devices."""


def errors(texts: Sequence[tuple[str, str]], features: Features) -> list[Finding]:
    """Return the mistakes for which the API server would refuse an object of the files."""
    # Dumps and snapshots are left out: they are large, and written by a server.
    written = [(file, text) for file, text in texts if not text.lstrip().startswith("{")]
    return [
        item
        for item in Linter(features).check(written).findings
        if item.rule in _OF_ONE_OBJECT
        and (item.severity is Severity.ERROR or item.rule == "admin-access")
        and _SELECTOR not in item.message
    ]

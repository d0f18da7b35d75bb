"""Manifests that the API server would refuse: explained by what lint finds in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.api.features import Features
from dray.cli.lint.findings import Finding
from dray.cli.lint.linter import Linter
from dray.cli.lint.rules import RULES, CheckStage, Severity

_DUPLICATE = "duplicate-object"
_REFERENCES = frozenset({"admin-access", _DUPLICATE, "exported-object", "undeclared-claim"})
"""Further rules that have to be kept first; the rest is explained."""
_SELECTOR = ".cel.expression"
"""Part of the path of selectors: these are explained together with the devices."""


def errors(texts: Sequence[tuple[str, str]], features: Features) -> list[Finding]:
    """Return the mistakes to correct first: most of them the API server would refuse."""
    # Dumps and snapshots are left out: they are large, and written by a server.
    written = [(file, text) for file, text in texts if not text.lstrip().startswith("{")]
    return [
        item
        for item in Linter(features).check(written).findings
        if item.rule in _REFERENCES
        or (
            RULES[item.rule].stage <= CheckStage.VALUES
            and item.severity is Severity.ERROR
            and _SELECTOR not in item.message
        )
    ]


def title(found: Iterable[Finding]) -> str:
    """Return the line above mistakes."""
    if all(item.rule == _DUPLICATE for item in found):
        return "The files define an object twice:"
    return "The API server would reject this:"

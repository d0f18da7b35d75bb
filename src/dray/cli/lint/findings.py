"""Findings of lint, and their output formats."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import click

import dray
from dray.cli.output import serialization


class Severity(enum.StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Finding(NamedTuple):
    """A problem in a file. `advice` is the correction."""

    file: str
    line: int
    severity: Severity
    rule: str
    message: str
    advice: str = ""


def show(findings: Iterable[Finding], form: str, *, aside: bool = False) -> None:
    """Print findings, to standard error if standard output belongs to something else."""
    shown = sorted(findings, key=lambda item: (item.file, item.line))
    if form in _LINES:
        for finding in shown:
            click.echo(_LINES[form](finding), err=aside)
    else:
        document = _sarif(shown) if form == "sarif" else [item._asdict() for item in shown]
        click.echo(serialization.write_json(document, indent=2), err=aside)


def _text(finding: Finding) -> str:
    colour = "red" if finding.severity is Severity.ERROR else "yellow"
    severity = click.style(finding.severity.value, fg=colour)
    line = f"{finding.file}:{finding.line}: {severity}: {finding.message} [{finding.rule}]"
    return f"{line}\n{textwrap.indent(finding.advice, '    ')}" if finding.advice else line


def _github(finding: Finding) -> str:
    """Return a workflow command, which GitHub shows beside the line."""
    words = " ".join(filter(None, (finding.message, finding.advice)))
    escaped = words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return (
        f"::{finding.severity.value} file={finding.file},line={finding.line},"
        f"title={finding.rule}::{escaped}"
    )


def _sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings in SARIF 2.1.0, the exchange format of code scanners."""
    rules = [{"id": rule} for rule in sorted({finding.rule for finding in findings})]
    driver = {"name": "dray lint", "version": dray.__version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": list(map(_sarif_result, findings))}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [run]}


def _sarif_result(finding: Finding) -> dict[str, Any]:
    region = {"startLine": finding.line}
    place = {"artifactLocation": {"uri": finding.file}, "region": region}
    return {
        "ruleId": finding.rule,
        "level": finding.severity.value,
        "message": {"text": " ".join(filter(None, (finding.message, finding.advice)))},
        "locations": [{"physicalLocation": place}],
    }


_LINES = {"text": _text, "github": _github}
FORMS = ("text", "json", "github", "sarif")

"""Findings of lint, and their output formats."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import dray
from dray.cli.lint import rules
from dray.cli.lint.rules import Rule, Severity
from dray.cli.output import serialization

if TYPE_CHECKING:
    from dray.cli.lint.field_changes import FieldChange, TextEdit
    from dray.cli.lint.source_documents import Document


class Suggestion(NamedTuple):
    """A change of a manifest that was not tried yet, and the words for it."""

    advice: str
    changes: tuple[FieldChange, ...] = ()
    """Changes of one object; or else `text`."""
    text: str = ""
    """The whole file after the change."""
    is_correction: bool = True
    """Whether it keeps what the author asks for."""
    target: Document | None = None
    """The object to change, if that is not the one with the finding."""


class FileFix(NamedTuple):
    """A file after a suggestion that was tried with success."""

    file: str
    text: str
    is_correction: bool
    edit: TextEdit | None = None
    """The change of the file, if that is in one object; then the line where that begins."""
    object_line: int = 0


class Finding(NamedTuple):
    """A problem in a file.

    `advice` is the correction in words. `suggestions` are changes of the file, the best first; the
    words of the first one that was tried with success become the advice.
    """

    file: str
    line: int
    column: int
    severity: Severity
    rule: str
    message: str
    advice: str = ""
    suggestions: Iterable[Suggestion] = ()
    document: Document | None = None
    fix: FileFix | None = None


def show(findings: Iterable[Finding], form: str, *, aside: bool = False) -> None:
    """Print findings, to standard error if standard output belongs to something else."""
    shown = _in_order(findings)
    if form in _LINES:
        for finding in shown:
            click.echo(_LINES[form](finding), err=aside)
    else:
        document = _sarif(shown) if form == "sarif" else documents(shown)
        click.echo(serialization.write_json(document, indent=2), err=aside)


def _in_order(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda item: (item.file, item.line, item.column))


def documents(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as `-o json` has them."""
    return list(map(_json, _in_order(findings)))


def text(finding: Finding) -> str:
    """Return a finding as lines for a terminal."""
    colour = "red" if finding.severity is Severity.ERROR else "yellow"
    severity = click.style(finding.severity.value, fg=colour)
    place = f"{finding.file}:{finding.line}:{finding.column}"
    line = f"{place}: {severity}: {finding.message} [{finding.rule}]"
    if not finding.advice:
        return line
    return f"{line}\n{click.style(textwrap.indent(finding.advice, '    '), fg='green')}"


def _json(finding: Finding) -> dict[str, Any]:
    shown = ("file", "line", "column", "severity", "rule", "message", "advice")
    fields = {name: getattr(finding, name) for name in shown}
    return {**fields, "fix": _fix_kind(finding)}


def _fix_kind(finding: Finding) -> str:
    """Return the option that makes the fix, or ""."""
    if finding.fix is None:
        return ""
    return "--fix" if finding.fix.is_correction else "--fix --unsafe-fixes"


def _github(finding: Finding) -> str:
    """Return a workflow command, which GitHub shows beside the line."""
    words = " ".join(filter(None, (finding.message, finding.advice)))
    escaped = words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    place = f"file={finding.file},line={finding.line},col={finding.column}"
    return f"::{finding.severity.value} {place},title={finding.rule}::{escaped}"


def _sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings in SARIF 2.1.0, the exchange format of code scanners."""
    known = [_sarif_rule(rule) for rule in rules.RULES.values()]
    driver = {"name": "dray lint", "version": dray.__version__, "rules": known}
    run = {"tool": {"driver": driver}, "results": list(map(_sarif_result, findings))}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [run]}


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "name": rule.name.title().replace("-", ""),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.meaning},
        "help": {"text": rule.help},
        "helpUri": rule.uri,
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _sarif_result(finding: Finding) -> dict[str, Any]:
    region = {"startLine": finding.line, "startColumn": finding.column}
    place = {"artifactLocation": {"uri": finding.file}, "region": region}
    return {
        "ruleId": finding.rule,
        "ruleIndex": list(rules.RULES).index(finding.rule),
        "level": finding.severity.value,
        "message": {"text": " ".join(filter(None, (finding.message, finding.advice)))},
        "locations": [{"physicalLocation": place}],
    }


_LINES = {"text": text, "github": _github}
FORMS = ("text", "json", "github", "sarif")

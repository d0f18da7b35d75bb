"""What lint has to say, and the forms it says it in."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

import click

from dray.cli import jsontext


class Severity(enum.StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Finding(NamedTuple):
    """Something to look at. `advice` is how it is written instead."""

    file: str
    line: int
    severity: Severity
    rule: str
    message: str
    advice: str = ""


def show(findings: Iterable[Finding], form: str) -> None:
    shown = sorted(findings, key=lambda each: (each.file, each.line))
    if form == "json":
        click.echo(jsontext.write([each._asdict() for each in shown], indent=2))
        return
    for finding in shown:
        click.echo(_FORMS[form](finding))


def _text(finding: Finding) -> str:
    colour = "red" if finding.severity is Severity.ERROR else "yellow"
    severity = click.style(finding.severity.value, fg=colour)
    line = f"{finding.file}:{finding.line}: {severity}: {finding.message} [{finding.rule}]"
    return f"{line}\n    {finding.advice}" if finding.advice else line


def _github(finding: Finding) -> str:
    """A workflow command, which GitHub shows beside the line."""
    words = " ".join(filter(None, (finding.message, finding.advice)))
    escaped = words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return (
        f"::{finding.severity.value} file={finding.file},line={finding.line},"
        f"title={finding.rule}::{escaped}"
    )


_FORMS = {"text": _text, "github": _github}
FORMS = ("text", "json", "github")

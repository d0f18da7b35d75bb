"""The formats in which lint writes its findings: for people, CI and code scanners."""

from __future__ import annotations

import hashlib
import textwrap
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

import dray
from dray.api.formats import serialization
from dray.cli.command_errors import WrongUsage
from dray.cli.lint import rules
from dray.cli.lint.findings import Finding
from dray.cli.lint.rules import Rule, Severity
from dray.cli.output import junit
from dray.cli.output.junit import Case, Failure


class Report(NamedTuple):
    """The result of one run."""

    files: Sequence[str]
    findings: Sequence[Finding]
    """By file, line and column."""
    is_strict: bool

    @classmethod
    def of(
        cls, findings: Iterable[Finding], files: Sequence[str] = (), *, is_strict: bool = False
    ) -> Report:
        ordered = sorted(findings, key=lambda item: (item.file, item.line, item.column))
        return cls(files, ordered, is_strict)

    def is_failure(self, finding: Finding) -> bool:
        """Return whether the command fails because of a finding."""
        return self.is_strict or finding.severity is Severity.ERROR


def targets(values: Iterable[str]) -> dict[Path, str]:
    """Return the format of each file, from texts FORMAT=FILE. Raises WrongUsage."""
    forms: dict[Path, str] = {}
    for value in values:
        form, _, file = value.partition("=")
        if form not in FORMS or not file:
            advice = f"Write FORMAT=FILE; the formats are {', '.join(FORMS)}."
            raise WrongUsage(f"--report {value} is not a format and a file", advice)
        if Path(file) in forms:
            raise WrongUsage(f"--report names {file} twice", "Give each format its own file.")
        forms[Path(file)] = form
    return forms


def show(report: Report, form: str, *, aside: bool = False) -> None:
    """Print a report, to standard error if standard output belongs to something else."""
    click.echo(FORMS[form](report), nl=False, err=aside)


def write(report: Report, forms: Mapping[Path, str]) -> None:
    """Write a report to files. Raises WrongUsage for a file that cannot be written."""
    for file, form in forms.items():
        try:
            file.write_text(click.unstyle(FORMS[form](report)), "utf-8", "surrogateescape")
        except OSError as error:
            raise WrongUsage(f"{file}: cannot be written: {error.strerror}") from error


def _words(finding: Finding) -> str:
    return " ".join(filter(None, (finding.message, finding.advice)))


def _text(finding: Finding) -> str:
    """Return a finding as lines for a terminal."""
    colour = "red" if finding.severity is Severity.ERROR else "yellow"
    severity = click.style(finding.severity.value, fg=colour)
    place = f"{finding.file}:{finding.line}:{finding.column}"
    line = f"{place}: {severity}: {finding.message} [{finding.rule}]"
    if not finding.advice:
        return line
    return f"{line}\n{click.style(textwrap.indent(finding.advice, '    '), fg='green')}"


def _github(finding: Finding) -> str:
    """Return a workflow command, which GitHub shows beside the line."""
    place = f"file={_github_value(finding.file)},line={finding.line},col={finding.column}"
    words = _github_text(_words(finding))
    return f"::{finding.severity.value} {place},title={finding.rule}::{words}"


def _github_text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _github_value(text: str) -> str:
    return _github_text(text).replace(":", "%3A").replace(",", "%2C")


LINES: Final = {"text": _text, "github": _github}
"""Formats with lines for each finding, which people read in a terminal or a log."""


def _lines(one: Callable[[Finding], str]) -> Callable[[Report], str]:
    return lambda report: "".join(f"{one(finding)}\n" for finding in report.findings)


def _json(report: Report) -> str:
    return _as_json(documents(report.findings))


def documents(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as `-o json` has them, in the order in which they come."""
    return list(map(_json_finding, findings))


def _as_json(document: Any) -> str:
    return f"{serialization.write_json(document, indent=2)}\n"


def _json_finding(finding: Finding) -> dict[str, Any]:
    shown = ("file", "line", "column", "severity", "rule", "message", "advice")
    fields = {name: getattr(finding, name) for name in shown}
    return {**fields, "fix": _fix_kind(finding)}


def _fix_kind(finding: Finding) -> str:
    """Return the option that makes the fix, or ""."""
    if finding.fix is None:
        return ""
    return "--fix" if finding.fix.is_correction else "--fix --unsafe-fixes"


def _gitlab(report: Report) -> str:
    """Return a Code Quality report of GitLab."""
    seen: Counter[str] = Counter()
    return _as_json([_gitlab_issue(finding, seen) for finding in report.findings])


def _gitlab_issue(finding: Finding, seen: Counter[str]) -> dict[str, Any]:
    # No line in the fingerprint: the same mistake further down is not a new one.
    identity = f"{finding.file}\n{finding.rule}\n{finding.message}"
    seen[identity] += 1
    name = f"{identity}\n{seen[identity]}".encode(errors="surrogateescape")
    return {
        "description": _words(finding),
        "check_name": finding.rule,
        "fingerprint": hashlib.sha256(name).hexdigest(),
        "severity": "major" if finding.severity is Severity.ERROR else "minor",
        "location": {"path": finding.file, "lines": {"begin": finding.line}},
    }


def _sarif(report: Report) -> str:
    """Return SARIF 2.1.0, the exchange format of code scanners."""
    known = [_sarif_rule(rule) for rule in rules.RULES.values()]
    driver = {"name": "dray lint", "version": dray.__version__, "rules": known}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": list(map(_sarif_result, report.findings)),
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return _as_json({"$schema": schema, "version": "2.1.0", "runs": [run]})


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    comment = f"To leave it out, write a comment: `# dray-lint: ignore={rule.name}`"
    return {
        "id": rule.name,
        "name": rule.name.title().replace("-", ""),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.meaning},
        "help": {
            "text": f"{rule.help} {comment}",
            "markdown": f"{rule.meaning}\n\n{rule.remedy}\n\n{comment}",
        },
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _sarif_result(finding: Finding) -> dict[str, Any]:
    region = {"startLine": finding.line, "startColumn": finding.column}
    place = {"artifactLocation": {"uri": _uri(finding.file)}, "region": region}
    return {
        "ruleId": finding.rule,
        "ruleIndex": list(rules.RULES).index(finding.rule),
        "level": finding.severity.value,
        "message": {"text": _words(finding)},
        "locations": [{"physicalLocation": place}],
    }


def _uri(file: str) -> str:
    path = urllib.parse.quote(file, errors="surrogateescape")
    return f"file://{path}" if file.startswith("/") else path


def _junit(report: Report) -> str:
    """Return JUnit's XML: a test case for each finding, and for each file without one."""
    found = {finding.file for finding in report.findings}
    cases = [Case(file, "no findings") for file in report.files if file not in found]
    for finding in report.findings:
        name = f"line {finding.line}: {finding.rule}"
        text = f"{click.unstyle(_text(finding))}\n"
        failure = Failure(finding.rule, finding.message) if report.is_failure(finding) else None
        cases.append(Case(finding.file, name, text, failure))
    return junit.document("dray lint", cases)


FORMS: Final[Mapping[str, Callable[[Report], str]]] = {
    "text": _lines(_text),
    "json": _json,
    "github": _lines(_github),
    "gitlab": _gitlab,
    "sarif": _sarif,
    "junit": _junit,
}

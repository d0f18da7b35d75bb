"""`dray lint`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dray.api import features as gates
from dray.cli.command_errors import DrayCommand
from dray.cli.inputs import cluster_objects, manifests
from dray.cli.lint import findings, fixes, object_checks, reference_checks, source_documents
from dray.cli.lint.findings import Finding, Severity
from dray.cli.lint.source_documents import Document, NotYaml
from dray.cli.session import connection
from dray.cli.session.connection import Target


@click.command("lint", cls=DrayCommand)
@click.argument("files", nargs=-1, required=True)
@connection.options
@cluster_objects.option
@click.option("--fix", is_flag=True, help="Rewrite outdated versions in place.")
@click.option("--output", "-o", "form", type=click.Choice(findings.FORMS), default="text")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
def lint(
    target: Target, files: tuple[str, ...], against: str, fix: bool, form: str, strict: bool
) -> None:
    """Say what is wrong with manifests, with file and line, all at once."""
    objects = cluster_objects.load(against, target) if against else None
    features = objects.features if objects else gates.DEFAULT
    texts = list(manifests.texts(files, recursive=True))
    if fix:
        texts = [(file, _fixed(file, text)) for file, text in texts]
    problems: list[Finding] = []
    all_documents: list[Document] = []
    for file, text in texts:
        try:
            documents = list(source_documents.documents(file, text))
        except NotYaml as error:
            message = f"not YAML: {error.problem}"
            problems.append(Finding(file, error.line, Severity.ERROR, "not-yaml", message))
            continue
        all_documents += documents
        for document in documents:
            problems += object_checks.check(document, features)
    problems += reference_checks.check(all_documents, objects)
    findings.show(problems, form, aside=fix and manifests.STANDARD_INPUT in files)
    _conclude(problems, len(all_documents), form, strict)


def _fixed(file: str, text: str) -> str:
    """Rewrite a file in place, or standard input to standard output. Returns the new text."""
    try:
        changed = fixes.fixed(text, list(source_documents.documents(file, text)))
    except NotYaml:
        return text
    if file == manifests.STANDARD_INPUT_NAME:
        click.echo(changed, nl=False)
    elif changed != text:
        Path(file).write_text(changed, "utf-8")
        click.echo(f"{file}: rewritten", err=True)
    return changed


def _conclude(problems: list[Finding], objects_seen: int, form: str, strict: bool) -> None:
    errors = sum(finding.severity is Severity.ERROR for finding in problems)
    if form == "text":
        click.echo(_summary(objects_seen, errors, len(problems) - errors), err=True)
    if errors or (strict and problems):
        sys.exit(1)


def _summary(objects_seen: int, errors: int, warnings: int) -> str:
    counted = (objects_seen, "object"), (errors, "error"), (warnings, "warning")
    seen, wrong, doubtful = (f"{n} {noun}" if n == 1 else f"{n} {noun}s" for n, noun in counted)
    return f"{seen}: {wrong}, {doubtful}"

"""Runs all checks over files, and tries every suggestion before it is printed.

A suggestion is tried by making the change and checking again: the finding has to be gone and no
other one may have come. Faults such as an unknown field hide what is inside; there, findings in
what was hidden may come.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from dray.api.features import Features
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.lint import field_changes, rules, source_documents, syntax_hints
from dray.cli.lint.checks import (
    object_checks,
    reference_checks,
    scheduling_checks,
    server_checks,
)
from dray.cli.lint.findings import FileFix, Finding, Suggestion
from dray.cli.lint.rules import CheckStage
from dray.cli.lint.source_documents import Document, NotYaml

MAX_PASSES = 60
MAX_TRIES = 400
"""Suggestions that are tried for one run; findings after that have their advice in words only."""
_IGNORE = re.compile(r"#\s*dray-lint:\s*ignore=([\w,\s-]+)")

Texts = Sequence[tuple[str, str]]


class LintResult(NamedTuple):
    findings: list[Finding]
    objects: int


class Linter:
    """Checks files, alone or against the objects of a cluster."""

    def __init__(
        self,
        features: Features,
        objects: ClusterObjects | None = None,
        ignored: Collection[str] = (),
        namespace: str = source_documents.DEFAULT_NAMESPACE,
    ) -> None:
        self._namespace = namespace
        self._features, self._objects, self._ignored = features, objects, frozenset(ignored)
        self._scheduling = (
            scheduling_checks.SchedulingChecks(features, objects) if objects else None
        )
        self._tries = 0

    def check(self, texts: Texts) -> LintResult:
        """Return the findings of all files, each with a suggestion that works if there is one."""
        findings: list[Finding] = []
        documents: list[Document] = []
        for file, text in texts:
            try:
                documents += source_documents.documents(file, text, self._namespace)
            except NotYaml as error:
                findings.append(syntax_hints.finding(file, text, error, self._features))
        findings += self._all_findings(documents)
        lines = {file: text.split("\n") for file, text in texts}
        kept = [finding for finding in findings if not self._is_ignored(finding, lines)]
        return LintResult([self._tried(finding, documents) for finding in kept], len(documents))

    def fixed(self, texts: Texts, *, also_unsafe: bool = False) -> tuple[Texts, list[Finding]]:
        """Return the files after all fixes, and the findings that were fixed."""
        current, fixed = dict(texts), []
        seen = {tuple(current.values())}
        for _ in range(MAX_PASSES):
            self._tries = 0
            chosen = _compatible(
                finding
                for finding in self.check(list(current.items())).findings
                if finding.fix is not None and (finding.fix.is_correction or also_unsafe)
            )
            for file, text in current.items():
                fixes = [item.fix for item in chosen if item.fix and item.fix.file == file]
                current[file] = _with_fixes(text, fixes)
            fixed += chosen
            if not chosen or tuple(current.values()) in seen:
                break
            seen.add(tuple(current.values()))
        return list(current.items()), fixed

    def _all_findings(self, documents: Sequence[Document]) -> Iterator[Finding]:
        """Yield the findings about readable files, those of the scheduling decision last."""
        findings = [found for document in documents for found in self._object(document)]
        findings += reference_checks.check(documents, self._objects)
        if self._objects is not None:
            for document in documents:
                findings += server_checks.check(document, self._objects)
        yield from findings
        if self._scheduling is not None:
            yield from self._scheduling.check(documents, findings)

    def _object(self, document: Document) -> Iterator[Finding]:
        for finding in object_checks.check(document, self._features):
            if finding.rule != "outdated-version" or server_checks.has_newest(
                document, self._objects
            ):
                yield finding

    def _tried(self, finding: Finding, documents: Sequence[Document]) -> Finding:
        """Return the finding with the first suggestion that can be made and helps."""
        for suggestion in finding.suggestions:
            if not suggestion.changes and not suggestion.text:
                return finding._replace(advice=suggestion.advice, suggestions=())
            target = suggestion.target or finding.document
            text = suggestion.text or self._edited(suggestion, target)
            if not text or not self._helps(finding, suggestion, target, text, documents):
                continue
            fix = FileFix(finding.file, text, suggestion.is_correction)
            if target is not None and not suggestion.text:
                edit = field_changes.difference(target.text, text)
                fix = FileFix(target.file, text, suggestion.is_correction, edit, target.start)
            return finding._replace(advice=suggestion.advice, suggestions=(), fix=fix)
        return finding._replace(suggestions=())

    def _edited(self, suggestion: Suggestion, target: Document | None) -> str | None:
        self._tries += 1
        if target is None or self._tries > MAX_TRIES:
            return None
        return field_changes.edited(target, suggestion.changes)

    def _helps(
        self,
        finding: Finding,
        suggestion: Suggestion,
        target: Document | None,
        text: str,
        documents: Sequence[Document],
    ) -> bool:
        rule = rules.RULES[finding.rule]
        if suggestion.text or target is None:
            # Its maker has parsed the whole text.
            return True
        changed = field_changes.reread(target, text)
        if changed is None:
            return False
        before, after = list(self._object(target)), list(self._object(changed))
        if rule.stage <= CheckStage.VALUES:
            return _is_gone(finding, after) and (
                rule.hides or not _added(before, after, rule.stage)
            )
        if _added(before, after, CheckStage.VALUES):
            return False
        others = [changed if document is target else document for document in documents]
        before = list(self._later(documents, rule.stage))
        after = list(self._later(others, rule.stage))
        is_gone = _is_gone(finding, after)
        if rule.stage is CheckStage.SCHEDULING and not suggestion.is_correction:
            # "Would fit": another message about the same pod would prove it wrong.
            is_gone = _number(finding, after) < _number(finding, before)
        return is_gone and not _added(before, after, rule.stage)

    def _later(self, documents: Sequence[Document], stage: CheckStage) -> Iterator[Finding]:
        """Yield the findings about several objects together, up to a stage."""
        references = list(reference_checks.check(documents, self._objects))
        yield from references
        if stage is CheckStage.SCHEDULING and self._scheduling is not None:
            yield from self._scheduling.check(documents, references)

    def _is_ignored(self, finding: Finding, lines: dict[str, list[str]]) -> bool:
        return finding.rule in self._ignored or finding.rule in _ignored_at(finding, lines)


def _compatible(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings whose fixes can be made at once: one for each object of a file."""
    chosen: list[Finding] = []
    taken: dict[str, set[int | None]] = {}
    for finding in findings:
        if finding.fix is None:
            continue
        objects = taken.setdefault(finding.fix.file, set())
        place = finding.fix.object_line if finding.fix.edit else None
        # A fix of the whole file excludes every other one.
        if place in objects or None in objects or (place is None and objects):
            continue
        objects.add(place)
        chosen.append(finding)
    return chosen


def _with_fixes(text: str, fixes: Sequence[FileFix]) -> str:
    for fix in fixes:
        if fix.edit is None:
            return fix.text
    return field_changes.applied(text, [fix.edit for fix in fixes if fix.edit]) or text


def _is_gone(finding: Finding, after: Iterable[Finding]) -> bool:
    key = (finding.rule, finding.message)
    return all((other.rule, other.message) != key for other in after)


def _number(finding: Finding, among: Iterable[Finding]) -> int:
    """Return how many findings there are of the same rule."""
    return sum(other.rule == finding.rule for other in among)


def _added(before: Iterable[Finding], after: Iterable[Finding], stage: CheckStage) -> bool:
    """Return whether there are more findings of some rule up to a stage."""

    def counted(findings: Iterable[Finding]) -> Counter[str]:
        found = (rules.RULES[finding.rule] for finding in findings)
        return Counter(rule.name for rule in found if rule.stage <= stage and not rule.is_optional)

    return bool(counted(after) - counted(before))


def _ignored_at(finding: Finding, lines: dict[str, list[str]]) -> set[str]:
    """Return the rules that comments switch off: on the line, above it, or above the object."""
    own = lines[finding.file]
    names = _names_in(own[finding.line - 1]) if finding.line <= len(own) else set()
    start = finding.document.start if finding.document is not None else 0
    for first in {finding.line - 1, start}:
        number = first - 1
        while 0 <= number < len(own) and own[number].lstrip().startswith("#"):
            names |= _names_in(own[number])
            number -= 1
    return names


def _names_in(line: str) -> set[str]:
    match = _IGNORE.search(line)
    return {name.strip() for name in match[1].split(",")} if match else set()

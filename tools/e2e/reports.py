"""Reads the reports of the suite, and writes the results as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

SPEC: Final = "It"
PASSED, SKIPPED, PENDING = "passed", "skipped", "pending"
NOT_REPORTED: Final = "the suite ended before it"


@dataclass(frozen=True)
class Result:
    """The outcome of one spec: a state of the suite, and its message where it did not pass."""

    state: str
    message: str = ""
    seconds: float = 0.0


@dataclass
class GroupResult:
    """The outcomes of a group: those of the suite, and the reasons of specs that were not run."""

    title: str
    results: dict[str, Result] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> list[str]:
        return [name for name, result in self.results.items() if result.state == PASSED]

    @property
    def not_run(self) -> dict[str, str]:
        by_suite = {
            name: result.message
            for name, result in self.results.items()
            if result.state in (SKIPPED, PENDING)
        }
        return {**self.skipped, **by_suite}

    @property
    def failed(self) -> dict[str, Result]:
        known = {*self.passed, *self.not_run}
        return {name: found for name, found in self.results.items() if name not in known}


def read(path: Path) -> dict[str, Result]:
    """Return the outcome of every spec of a JSON report of ginkgo, by its full name."""
    found = {}
    for suite in json.loads(path.read_text("utf-8")):
        for spec in suite["SpecReports"] or ():
            if spec["LeafNodeType"] == SPEC:
                found[_name(spec)] = _result(spec)
    return found


def of_names(names: Iterable[str], reports: Mapping[str, Result]) -> dict[str, Result]:
    """Return the outcomes of these specs; one without a report failed."""
    missing = Result("missing", NOT_REPORTED)
    return {name: reports.get(name, missing) for name in names}


def table(groups: Iterable[GroupResult]) -> str:
    """Return the numbers of all groups as a table."""
    lines = ["| group | specs | pass | fail | not run |", "|---|---|---|---|---|"]
    for group in groups:
        passed, failed, not_run = len(group.passed), len(group.failed), len(group.not_run)
        total = passed + failed + not_run
        lines.append(f"| {group.title} | {total} | {passed} | {failed} | {not_run} |")
    return "\n".join(lines)


def details(groups: Iterable[GroupResult]) -> str:
    """Return the specs that failed with what they said, and those not run with the reason."""
    lines = []
    for group in groups:
        for name, result in group.failed.items():
            lines += [f"FAIL {name}", f"     {_first_line(result.message)}"]
        for name, reason in group.not_run.items():
            lines += [f"not run: {name}", f"     {_first_line(reason)}"]
    return "\n".join(lines)


def _name(spec: Mapping[str, Any]) -> str:
    return " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])


def _result(spec: Mapping[str, Any]) -> Result:
    message = spec.get("Failure", {}).get("Message", "")
    return Result(spec["State"], message, spec.get("RunTime", 0) / 1e9)


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["(no message)"])[0]

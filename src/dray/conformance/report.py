"""The results of a run as plain data, and as JUnit's XML for pipelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from dray.conformance.check import CheckOutcome, CheckResult

SUITE = "dray.conformance"


def ordered(results: Sequence[CheckResult], order: Sequence[str]) -> list[CheckResult]:
    """Return the results in the order of the checks."""
    return sorted(results, key=lambda result: order.index(result.check.id))


def summary(results: Sequence[CheckResult]) -> str:
    """Return one sentence with the counts."""
    counts = Counter(result.outcome for result in results)
    parts = [f"{counts[outcome]} {outcome.value}" for outcome in CheckOutcome]
    return f"{len(results)} checks: {', '.join(parts)}"


def document(results: Sequence[CheckResult], driver: str, seconds: float) -> dict[str, Any]:
    """Return the report for `-o json`."""
    counts = Counter(result.outcome for result in results)
    return {
        "driver": driver,
        "passed": counts[CheckOutcome.FAILED] == 0,
        "seconds": round(seconds, 1),
        "counts": {outcome.value: counts[outcome] for outcome in CheckOutcome},
        "checks": [_entry(result) for result in results],
    }


def _entry(result: CheckResult) -> dict[str, Any]:
    check = result.check
    entry: dict[str, Any] = {
        "id": check.id,
        "outcome": result.outcome.value,
        "requirement": check.requirement,
        "source": check.source,
        "seconds": round(result.seconds, 3),
    }
    if result.outcome is CheckOutcome.FAILED:
        entry |= {"seen": result.seen, "advice": check.advice}
    elif result.outcome is CheckOutcome.SKIPPED:
        entry["reason"] = result.seen
    return entry


def junit(results: Sequence[CheckResult], driver: str, seconds: float) -> bytes:
    """Return the report as JUnit's XML: a test case for each check."""
    counts = Counter(result.outcome for result in results)
    suite = ElementTree.Element(
        "testsuite",
        name=f"{SUITE} {driver}".strip(),
        tests=str(len(results)),
        failures=str(counts[CheckOutcome.FAILED]),
        errors="0",
        skipped=str(counts[CheckOutcome.SKIPPED]),
        time=f"{seconds:.3f}",
    )
    for result in results:
        check = result.check
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"{SUITE}.{check.group}",
            name=check.id,
            time=f"{result.seconds:.3f}",
        )
        if result.outcome is CheckOutcome.FAILED:
            failure = ElementTree.SubElement(case, "failure", message=_printable(result.seen))
            failure.text = _printable("\n".join(explanation(result)))
        elif result.outcome is CheckOutcome.SKIPPED:
            ElementTree.SubElement(case, "skipped", message=_printable(result.seen))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    encoded: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return encoded + b"\n"


def explanation(result: CheckResult) -> list[str]:
    """Return what is required, what was seen and what to do, a line each."""
    check = result.check
    return [
        f"Required: {check.requirement}",
        f"Seen: {result.seen}",
        f"To do: {check.advice}",
        f"Source: {check.source}",
    ]


def _printable(text: str) -> str:
    """Return the text without characters that XML cannot carry."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)

"""Reports: the counts, and what each form says of a check."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from dray.conformance import report
from dray.conformance.check import CheckOutcome, CheckResult, ConformanceCheck


async def body(_site: Any) -> None:
    raise AssertionError("reports make no checks")


def check(name: str) -> ConformanceCheck:
    return ConformanceCheck(name, "It works.", "types.go", "Make it work.", body)


RESULTS = [
    CheckResult(check("prepare.devices"), CheckOutcome.PASSED, seconds=0.5),
    CheckResult(check("prepare.time"), CheckOutcome.FAILED, "it took\x00 50 s", 1.0),
    CheckResult(check("health.first"), CheckOutcome.SKIPPED, "no health"),
]


def test_the_summary_counts() -> None:
    assert report.summary(RESULTS) == "3 checks: 1 passed, 1 failed, 1 skipped"


def test_json_has_advice_for_failures_and_reasons_for_skips() -> None:
    document = report.document(RESULTS, "gpu.example.com", 2.04)
    assert document["passed"] is False
    assert document["seconds"] == 2.0
    assert document["counts"] == {"passed": 1, "failed": 1, "skipped": 1}
    passed, failed, skipped = document["checks"]
    assert "seen" not in passed
    assert (failed["seen"], failed["advice"]) == ("it took\x00 50 s", "Make it work.")
    assert skipped["reason"] == "no health"


def test_junit_has_a_case_for_each_check() -> None:
    (suite,) = ElementTree.fromstring(report.junit(RESULTS, "gpu.example.com", 2.0))
    assert suite.attrib["name"] == "dray.conformance gpu.example.com"
    assert {name: suite.attrib[name] for name in ("tests", "failures", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "skipped": "1",
    }
    cases = {case.attrib["name"]: case for case in suite}
    assert cases["prepare.devices"].attrib["classname"] == "dray.conformance.prepare"
    failure = cases["prepare.time"].find("failure")
    assert failure is not None
    # XML has no zero byte.
    assert failure.attrib["message"] == "it took? 50 s"
    assert "To do: Make it work." in (failure.text or "")
    assert cases["health.first"].find("skipped") is not None


def test_results_come_in_the_order_of_the_checks() -> None:
    order = ["health.first", "prepare.time", "prepare.devices"]
    assert [each.check.id for each in report.ordered(RESULTS, order)] == order

"""Reports of the suite: what is read from them, and how the results are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.e2e import reports
from tools.e2e.reports import GroupResult, Result


def spec(state: str, *texts: str, message: str = "", kind: str = "It") -> dict[str, Any]:
    *containers, leaf = texts
    return {
        "LeafNodeType": kind,
        "ContainerHierarchyTexts": containers or None,
        "LeafNodeText": leaf,
        "State": state,
        "RunTime": 2_000_000_000,
        **({"Failure": {"Message": message}} if message else {}),
    }


def write(folder: Path, *specs: dict[str, Any]) -> Path:
    path = folder / "report.json"
    path.write_text(json.dumps([{"SpecReports": list(specs)}, {"SpecReports": None}]), "utf-8")
    return path


def test_specs_are_read_by_their_full_names(tmp_path: Path) -> None:
    before = spec("passed", "", kind="BeforeSuite")
    path = write(tmp_path, before, spec("passed", "[sig-a] A", "b", "c"), spec("failed", "d"))
    assert reports.read(path) == {
        "[sig-a] A b c": Result("passed", "", 2.0),
        "d": Result("failed", "", 2.0),
    }


def test_each_spec_counts_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        *(spec("passed", "a"), spec("failed", "b", message="first\nsecond")),
        *(spec("skipped", "c", message="needs 3 nodes"), spec("pending", "d")),
        *(spec("timedout", "e", message="too long"), spec("panicked", "f")),
    )
    group = GroupResult("things", reports.read(path), {"g": "not served"})
    assert group.passed == ["a"]
    assert [*group.failed] == ["b", "e", "f"]
    assert group.not_run == {"g": "not served", "c": "needs 3 nodes", "d": ""}
    assert reports.table([group]).splitlines()[-1] == "| things | 7 | 1 | 3 | 3 |"
    text = reports.details([group])
    assert "FAIL b\n     first\n" in text
    assert "second" not in text
    assert "not run: g\n     not served" in text
    assert "FAIL f\n     (no message)" in text


def test_a_spec_without_a_report_failed() -> None:
    found = reports.of_names(["a", "b"], {"a": Result("passed"), "c": Result("passed")})
    group = GroupResult("things", found)
    assert group.passed == ["a"]
    assert group.failed["b"].message == reports.NOT_REPORTED

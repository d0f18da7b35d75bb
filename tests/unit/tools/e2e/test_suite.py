"""Running a program like the suite's: its arguments, and what becomes of its report."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.e2e import reports
from tools.e2e.suite import LOG, Suite

PROGRAM = """#!{python}
import json, re, sys
flags = [argument.lstrip("-").partition("=") for argument in sys.argv[1:]]
focus = [value for name, _, value in flags if name == "ginkgo.focus"]
report = next(value for name, _, value in flags if name == "ginkgo.json-report")
specs = []
for text in ("a (1)", "a (2)", "b a (1)"):
    chosen = any(re.search(pattern, text) for pattern in focus)
    state = "passed" if chosen or not focus else "skipped"
    specs.append({{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-x]"],
                  "LeafNodeText": text, "State": state}})
if "end" in sys.argv[0]:
    sys.exit("the end")
with open(report, "w") as file:
    json.dump([{{"SpecReports": specs}}], file)
"""


def program(folder: Path, name: str = "e2e.test") -> Suite:
    path = folder / name
    path.write_text(PROGRAM.format(python=sys.executable), "utf-8")
    path.chmod(0o755)
    return Suite(path)


def test_all_names_are_listed(tmp_path: Path) -> None:
    assert program(tmp_path).names() == ["[sig-x] a (1)", "[sig-x] a (2)", "[sig-x] b a (1)"]


def test_some_specs_are_run(tmp_path: Path) -> None:
    names = ["[sig-x] a (2)"]
    found = program(tmp_path).run(names, tmp_path / "kubeconfig", tmp_path)
    assert [*found] == names


def test_a_suite_that_ends_early_has_failed(tmp_path: Path) -> None:
    found = program(tmp_path, "end").run(["a"], tmp_path / "kubeconfig", tmp_path)
    assert found["a"].message == reports.NOT_REPORTED
    assert "the end" in (tmp_path / LOG).read_text("utf-8")

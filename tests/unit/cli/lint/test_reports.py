"""The formats of `dray lint`: each as the tool that reads it wants it, also for odd names."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dray.cli.lint import reports, rules
from tests.unit.cli.conftest import run

UNUSED = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: x}]
  resourceClaims:
  - name: g
    resourceClaimName: c
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
"""
"""A claim that no container uses: one warning."""
WRONG = """\
apiVersion: v1
kind: Pod
metadata: {name: w}
spec:
  containers: [{name: c, image: "x", resources: {"bad\\x01%": 1}}]
"""
"""A field that does not exist: one error. Its name has a character that XML cannot hold."""
CLEAN = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: any}
"""
ODD = "a, b:%c.yaml"
"""A name whose characters mean something in each format."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"unused.yaml": UNUSED, ODD: WRONG, "clean.yaml": CLEAN}.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_github_gets_a_command_for_each_line(folder: Path) -> None:
    result = run("lint", ".", "-o", "github")
    wrong, unused = result.stdout.splitlines()
    assert wrong.startswith("::error file=a%2C b%3A%25c.yaml,line=5,col=50,title=unknown-field::")
    assert unused.startswith("::warning file=unused.yaml,line=7,col=5,title=unused-claim::")
    assert "bad\x01%25" in wrong
    assert "4 objects: 1 error, 1 warning\n" in result.stderr


def test_sarif_has_the_texts_of_rules(folder: Path) -> None:
    (sarif,) = json.loads(run("lint", ".", "-o", "sarif").stdout)["runs"]
    known = sarif["tool"]["driver"]["rules"]
    wrong, unused = sarif["results"]
    rule = known[unused["ruleIndex"]]
    assert (rule["id"], rule["name"]) == ("unused-claim", "UnusedClaim")
    text = rules.RULES["unused-claim"]
    assert all(text.remedy in rule["help"][form] for form in ("text", "markdown"))
    assert (rule["defaultConfiguration"], unused["level"]) == ({"level": "warning"}, "warning")
    place = unused["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 7, "startColumn": 5}
    addresses = [
        item["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for item in (wrong, unused)
    ]
    assert addresses == ["a%2C%20b%3A%25c.yaml", "unused.yaml"]


def test_sarif_names_no_address_that_does_not_exist(folder: Path) -> None:
    assert "helpUri" not in run("lint", ".", "-o", "sarif").stdout


def test_a_file_outside_of_the_repository_has_an_absolute_address(folder: Path) -> None:
    result = run("lint", str(folder / "unused.yaml"), "-o", "sarif")
    assert f'"uri": "file://{folder}/unused.yaml"' in result.stdout


def test_gitlab_knows_a_finding_again_when_lines_move(folder: Path) -> None:
    before = json.loads(run("lint", ".", "-o", "gitlab").stdout)
    (folder / "unused.yaml").write_text(f"# one\n{UNUSED}---\n{UNUSED.replace('p}', 'q}')}")
    after = json.loads(run("lint", ".", "-o", "gitlab").stdout)
    _, unused = before
    moved = [item for item in after if item["check_name"] == "unused-claim"]
    assert unused["location"] == {"path": "unused.yaml", "lines": {"begin": 7}}
    assert unused["severity"] == "minor"
    assert moved[0]["fingerprint"] == unused["fingerprint"]
    assert moved[0]["location"]["lines"] == {"begin": 8}
    assert len({item["fingerprint"] for item in after}) == len(after)


@pytest.mark.parametrize(("options", "failures"), [((), 1), (("--strict",), 2)])
def test_junit_fails_where_the_command_fails(
    folder: Path, options: tuple[str, ...], failures: int
) -> None:
    result = run("lint", ".", "-o", "junit", *options)
    (suite,) = ElementTree.fromstring(result.stdout)
    cases = [(case.get("classname"), case.get("name")) for case in suite]
    assert cases == [
        ("clean.yaml", "no findings"),
        (ODD, "line 5: unknown-field"),
        ("unused.yaml", "line 7: unused-claim"),
    ]
    assert len(suite.findall("testcase/failure")) == failures
    assert (suite.get("tests"), suite.get("failures")) == ("3", str(failures))
    assert "bad\ufffd%" in (suite.findtext("testcase/failure") or "")
    assert result.exit_code == 1


def test_junit_of_warnings_alone_passes(folder: Path) -> None:
    result = run("lint", "unused.yaml", "-o", "junit")
    (suite,) = ElementTree.fromstring(result.stdout)
    assert suite.get("failures") == "0"
    assert "[unused-claim]" in (suite.findtext("testcase/system-out") or "")
    assert result.exit_code == 0


def test_files_get_what_standard_output_would(folder: Path) -> None:
    options = [f"--report={form}=out/{form}" for form in reports.FORMS]
    (folder / "out").mkdir()
    assert run("lint", ".", *options).exit_code == 1
    for form in reports.FORMS:
        assert (folder / "out" / form).read_text("utf-8") == run("lint", ".", "-o", form).stdout


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["xml=a"], "--report xml=a is not a format and a file"),
        (["junit"], "--report junit is not a format and a file"),
        (["junit=a", "sarif=a"], "--report names a twice"),
        (["junit=none/a"], "none/a: cannot be written: No such file or directory"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused(
    folder: Path, values: list[str], message: str
) -> None:
    result = run("lint", "clean.yaml", *(f"--report={value}" for value in values))
    assert result.exit_code == 2
    assert message in result.stderr

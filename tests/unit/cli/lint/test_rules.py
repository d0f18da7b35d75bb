"""The rules of lint: their names, how to leave one out, and what other tools get of them."""

from __future__ import annotations

import json
import re

import pytest
from tools import make_lint_rules

from dray.cli.lint import rules
from tests.unit.cli.conftest import run
from tests.unit.cli.lint.test_reports import UNUSED

IGNORE = "# dray-lint: ignore=unused-claim"


def found(text: str, *options: str) -> list[str]:
    result = run("lint", "-", "-o", "json", *options, input=text)
    return [item["rule"] for item in json.loads(result.stdout)]


def test_names_are_in_kebab_case_and_have_texts() -> None:
    for rule in rules.RULES.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
        assert all(text.endswith(".") for text in (rule.summary, rule.meaning, rule.remedy))


def test_the_page_is_current() -> None:
    written = make_lint_rules.TARGET.read_text("utf-8")
    assert written == make_lint_rules.page(), "run `make generate`"


def test_rules_are_listed_and_shown() -> None:
    listed = run("lint", "--rules")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(rules.RULES)
    shown = run("lint", "--rules", "unused-claim").stdout
    assert shown.startswith("unused-claim (warning)\n")
    assert "# dray-lint: ignore=unused-claim" in shown


@pytest.mark.parametrize("options", [("--rules", "unused"), ("-", "--ignore", "unused")])
def test_an_unknown_rule_is_refused(options: tuple[str, ...]) -> None:
    result = run("lint", *options, input="")
    assert result.exit_code == 2
    assert "there is no rule unused" in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(UNUSED.replace("- name: g", f"- name: g   {IGNORE}"), id="on-the-line"),
        pytest.param(UNUSED.replace("  - name: g", f"  {IGNORE}\n  - name: g"), id="above-it"),
        pytest.param(f"{IGNORE}, no-node\n{UNUSED}", id="above-the-object"),
    ],
)
def test_a_comment_leaves_out_a_rule(text: str) -> None:
    assert found(UNUSED) == ["unused-claim"]
    assert found(text) == []


def test_a_comment_above_one_object_says_nothing_about_another() -> None:
    assert found(UNUSED.replace("---\n", f"---\n{IGNORE}\n")) == ["unused-claim"]


def test_an_option_leaves_out_a_rule() -> None:
    assert found(UNUSED, "--ignore", "unused-claim") == []


def test_feature_gates_decide_what_is_valid() -> None:
    text = """
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: c}
    spec:
      devices:
        requests:
        - name: gpu
          exactly:
            deviceClassName: gpu.nvidia.com
            selectors: [{cel: {expression: "device.allowMultipleAllocations == true"}}]
    """
    assert found(text) == []
    assert found(text, "--feature-gates", "DRAConsumableCapacity=false") == ["invalid-selector"]
    refused = run("lint", "-", "--feature-gates", "Nope=true", input=text)
    assert refused.exit_code == 2


def test_files_or_rules_have_to_be_named() -> None:
    assert run("lint").exit_code == 2
    assert run("lint", "-", "--unsafe-fixes", input="").exit_code == 2

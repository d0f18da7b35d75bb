"""The snippets of docs/ci.md use what the action, the hooks and the template have."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.ci.test_action import ACTION
from tests.ci.test_gitlab import JOB
from tests.pages import ROOT

PAGE = (ROOT / "docs" / "ci.md").read_text("utf-8")


def snippets() -> list[Any]:
    return [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.S | re.M)]


def test_the_snippets_name_what_exists() -> None:
    workflow, hooks, gitlab = snippets()
    (use,) = [
        step for step in workflow["jobs"]["lint"]["steps"] if step["uses"].startswith("OWNER/dray@")
    ]
    assert use["with"].keys() <= ACTION["inputs"].keys()
    assert set(re.findall(r"outputs\.(\w+)", PAGE)) <= ACTION["outputs"].keys()
    published = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    ids = {hook["id"] for hook in published}
    assert {hook["id"] for hook in hooks["repos"][0]["hooks"]} <= ids
    assert gitlab["dray-lint"]["variables"].keys() <= JOB["variables"].keys()


def test_every_input_is_explained() -> None:
    table = PAGE[PAGE.index("| input |") : PAGE.index("## pre-commit")]
    assert set(re.findall(r"`([a-z-]+)`", table)) >= ACTION["inputs"].keys()

"""Prometheus' own tool, where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pages import ROOT

FOLDER = ROOT / "deploy" / "monitoring"
RULES: dict[str, Any] = yaml.safe_load((FOLDER / "rules.yaml").read_text("utf-8"))
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule
}


def program(name: str) -> str:
    """The path of a program of Prometheus. Skips the test where it is absent."""
    found = shutil.which(name)
    if found is None:
        pytest.skip("no Prometheus on PATH")
    return found


def promtool(folder: Path, *arguments: str) -> tuple[int, str]:
    ran = subprocess.run(
        [program("promtool"), *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


def check_expressions(folder: Path, expressions: list[str]) -> tuple[int, str]:
    """Let promtool parse expressions."""
    rules = [{"record": f"x{n}", "expr": text} for n, text in enumerate(expressions)]
    file = folder / "expressions.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": rules}]}), "utf-8")
    return promtool(folder, "check", "rules", file.name)

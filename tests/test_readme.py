"""What the README shows works as printed."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dray.cli.demo import demo

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", README, re.S)


@pytest.mark.parametrize(("code", "printed"), BLOCKS)
def test_python_blocks_run_as_printed(code: str, printed: str) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {})
    if printed:
        assert output.getvalue() == printed


@pytest.mark.parametrize("page", [ROOT / "README.md", *ROOT.glob("docs/**/*.md")], ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_demo_is_as_it_should_be() -> None:
    result = CliRunner().invoke(demo)
    assert result.exit_code == 0, result.output
    assert "Would fit: ask for 80Gi instead of 500Gi" in result.output

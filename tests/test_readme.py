"""What README and the documentation show works as printed, and their links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tools import make_picture

from dray.cli.demo.command import demo
from tests import pages, unrun

Record = Callable[[str, object], None]
ROOT = pages.ROOT
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "walks").glob("*.md")),
    ROOT / "examples" / "README.md",
]
EVERY_PAGE = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
]
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.S)
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
TEXT_BLOCK = re.compile(r"^```text\n(.*?)^```$", re.S | re.M)
SHELL_BLOCK = re.compile(r"^```(?:sh|bash|shell)\n(.*?)^```$", re.S | re.M)

NOT_RUN = {
    "make": "needs the repository for itself; CI runs both",
    "--context": "needs a real cluster",
    "production": "needs a real cluster",
    "kubectl": "needs a real cluster",
    "dray scheduler": "needs a real cluster",
    "--kubeconfig ~/.kube/config": "needs a real cluster",
    "--against fleet.json": "needs the snapshot of a real cluster",
    "dray driver nvidia": "needs a GPU",
    "docker build": "needs a registry; tests/deploy builds and runs the images",
    "helm install": "needs a real cluster; tests/deploy renders and checks the charts",
    "go build": "needs Go and a driver's source",
    "sudo": "changes the computer",
    "pip install dist/": "needs PyPI; tests/packages installs the wheel and runs it",
    ".pyz": "needs a release; tests/packages builds and runs it",
    "sysctl": "asks about the computer",
    "--allow-host-access": "opens the computer to pods",
}
"""What commands outside ```console blocks need, by something that stands in them."""


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def python_blocks() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        yield from PYTHON_BLOCK.findall(page.read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_commands_print_what_is_shown(page: Path, record_property: Record) -> None:
    with pages.session() as person:
        if not person.follow(page.read_text("utf-8")):
            record_property(unrun.PART, pages.NO_CONTAINERS)


@pytest.mark.parametrize("page", EVERY_PAGE, ids=relative)
def test_commands_that_are_not_run_have_a_reason(page: Path) -> None:
    text = page.read_text("utf-8")
    commands = [
        line
        for block in TEXT_BLOCK.findall(text)
        for line in block.splitlines()
        if line.startswith("$ ")
    ]
    for command in [*commands, *SHELL_BLOCK.findall(text)]:
        assert any(part in command for part in NOT_RUN), f"run it, or say why not: {command}"


@pytest.mark.parametrize(("code", "printed"), list(python_blocks()))
def test_python_blocks_run_as_printed(code: str, printed: str) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {})
    if printed:
        assert output.getvalue() == printed


@pytest.mark.parametrize("page", EVERY_PAGE, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    for target, _ in LINK.findall(page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{relative(page)} links to {target}"


@pytest.mark.slow
def test_the_demo_is_as_it_should_be() -> None:
    result = CliRunner().invoke(demo)
    assert result.exit_code == 0, result.output
    assert "write `80Gi` instead of `500Gi`" in result.output


def test_the_index_lists_every_page_once() -> None:
    docs = ROOT / "docs"
    listed = [target for target, _ in LINK.findall((docs / "index.md").read_text("utf-8"))]
    pages_of_docs = {*docs.glob("*.md"), *(docs / "walks").glob("*.md")} - {docs / "index.md"}
    expected = {str(page.relative_to(docs)) for page in pages_of_docs}
    assert sorted(listed) == sorted(expected | {"../examples/README.md", "decisions/README.md"})


@pytest.mark.parametrize("name", ["terminal", *make_picture.SINGLE])
def test_every_picture_is_shown_on_a_page(name: str) -> None:
    shown = [
        (page.parent / target).resolve()
        for page in PAGES
        for target, _ in LINK.findall(page.read_text("utf-8"))
    ]
    assert (make_picture.FOLDER / f"{name}.svg").resolve() in shown

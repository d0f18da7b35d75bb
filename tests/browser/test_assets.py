"""The files of the page: their size, their types, and what must not be in them."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tools import make_screenshots

from tests.browser.fake_server import STATIC
from tests.pages import ROOT

MOST_BYTES = 150_000
MOST_SCREENSHOT_BYTES = 600_000
SCREENSHOTS = sorted((ROOT / "docs/dashboard").glob("*.png"))
MOST_IN_FOLDER = 15
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
MODULES = [path for path in FILES if path.suffix == ".js"]
TSC = ROOT / "tests/browser/typescript/node_modules/.bin/tsc"
# Each would insert text as HTML, or run it.
DANGEROUS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|\beval\(|new Function|setAttribute\(\"style\"|srcdoc|javascript:"
)


def module_id(path: Path) -> str:
    return str(path.relative_to(STATIC))


def test_all_files_together_are_small() -> None:
    size = sum(len(gzip.compress(path.read_bytes(), 6)) for path in FILES)
    assert size < MOST_BYTES, f"{size} bytes with gzip"


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_module_says_what_it_owns(path: Path) -> None:
    assert path.read_text("utf-8").startswith("/**"), "a module starts with what it owns"


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_text_is_never_inserted_as_html(path: Path) -> None:
    assert DANGEROUS.findall(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", FILES, ids=module_id)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    addresses = set(re.findall(r"https?://[^\s\"'`<>)]+", path.read_text("utf-8")))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_folders_stay_small() -> None:
    folders = {path.parent for path in FILES}
    assert max(sum(file.parent == folder for file in FILES) for folder in folders) <= MOST_IN_FOLDER


def test_every_module_is_used() -> None:
    found, todo = set(), [STATIC / "main.js"]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            names = re.findall(
                r"^import [^;]*?\"(\.[^\"]+)\";", path.read_text("utf-8"), re.MULTILINE
            )
            todo += [(path.parent / name).resolve() for name in names]
    types = STATIC / "base/types.js"
    assert sorted(found | {types}) == MODULES


def test_style_sheets_and_scripts_are_files() -> None:
    index = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", index)
    named = set(re.findall(r"static/([\w./-]+)", index))
    assert {str(path.relative_to(STATIC)) for path in FILES if path.suffix == ".css"} <= named
    assert all((STATIC / name).is_file() for name in named)


@pytest.mark.slow
def test_types_are_right() -> None:
    tsc = TSC if TSC.exists() else shutil.which("tsc")
    if tsc is None:
        pytest.skip("no tsc: TypeScript is not installed")
    done = subprocess.run(
        [tsc, "-p", ROOT / "tests/browser/tsconfig.json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_screenshots_are_shown_and_small() -> None:
    page = (ROOT / "docs/dashboard.md").read_text("utf-8")
    assert {path.stem for path in SCREENSHOTS} == set(make_screenshots.VIEWS)
    assert all(f"(dashboard/{path.name})" in page for path in SCREENSHOTS)
    assert sum(path.stat().st_size for path in SCREENSHOTS) < MOST_SCREENSHOT_BYTES

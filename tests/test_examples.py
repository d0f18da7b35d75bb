"""Every example does what its README says: the commands are run as printed, on a fresh cluster."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import pages, unrun

Record = Callable[[str, object], None]
EXAMPLES = sorted((pages.ROOT / "examples").glob("[0-9]*"))
STORIES = 27
TOOLS = {"24-kill-it": ("cc", "prlimit")}
"""What an example needs beside dray."""


def test_every_story_has_an_example() -> None:
    assert [int(folder.name[:2]) for folder in EXAMPLES] == list(range(1, STORIES + 1))


@pytest.mark.slow
@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_an_example_shows_what_its_readme_says(folder: Path, record_property: Record) -> None:
    for tool in TOOLS.get(folder.name, ()):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    with pages.session() as person:
        if not person.follow((folder / "README.md").read_text("utf-8")):
            record_property(unrun.PART, pages.NO_CONTAINERS)

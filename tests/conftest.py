"""Options and fixtures for all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

CheckText = Callable[[Path, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden texts anew, to review as a diff"
    )


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> CheckText:
    """Compares a text with the one kept in a file, or keeps it."""

    def check(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.write_text(text, "utf-8")
        assert path.exists(), f"{path.name} is not kept yet: run pytest --update-golden"
        assert text == path.read_text("utf-8")

    return check

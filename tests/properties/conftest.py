"""Every property is looked at with random cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import rounds


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here, seconds = Path(__file__).parent, rounds.count(600, long=7200)
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.random)
            item.add_marker(pytest.mark.timeout(seconds))

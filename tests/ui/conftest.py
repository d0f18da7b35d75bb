"""A `dray up` with its dashboard, which the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ui.browser import Browser, link_in
from tests.ui.processes import Up


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("up"))
    try:
        yield running
    finally:
        running.end()


@pytest.fixture(scope="module")
def admin(up: Up) -> Browser:
    """The browser that opened the link."""
    url, key = link_in(up.output)
    browser = Browser(url)
    assert browser.log_in(key=key).status == 200
    return browser

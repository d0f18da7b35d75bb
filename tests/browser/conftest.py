"""A browser for the tests of the dashboard: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import fleets
from tests.browser.fake_server import FakeDashboard, serving
from tests.browser.looks import DEADLINE

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-precise-memory-info",
)
ZONE = "Europe/Berlin"


def program() -> str | None:
    """The browser on PATH."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Playwright's loop stays in the thread until it is stopped, and other tests bring their own: so
    # it does not outlive the module.
    path = program()
    if path is None:
        pytest.skip("no Chromium on PATH")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=[*OPTIONS])
        yield started
        started.close()


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens an address in a window of its own; fails the test if a script of the page fails."""
    problems: list[str] = []
    with ExitStack() as stack:

        def open_(address: str, *, width: int = 1280, height: int = 800, **options: Any) -> Page:
            context = browser.new_context(
                viewport={"width": width, "height": height}, timezone_id=ZONE, **options
            )
            stack.callback(context.close)
            context.set_default_timeout(DEADLINE)
            page = context.new_page()
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on(
                "console",
                lambda said: problems.append(said.text) if _is_problem(said.text) else None,
            )
            page.goto(address)
            return page

        yield open_
    assert problems == []


def _is_problem(text: str) -> bool:
    return "Content Security Policy" in text or "TrustedHTML" in text


@pytest.fixture
def dashboard() -> FakeDashboard:
    return FakeDashboard(fleets.mixed())


@pytest.fixture
def address(dashboard: FakeDashboard) -> Iterator[str]:
    with serving(dashboard) as found:
        yield found

"""Options and fixtures for all tests."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import core

from tests import rounds, unrun

CheckText = Callable[[Path, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden texts anew, to review as a diff"
    )
    parser.addoption(
        "--long",
        action="store_true",
        help="run all that takes long: every random round, and the tests marked `long`",
    )
    parser.addoption("--seed", type=int, help="repeat the random tests of the run with this seed")


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what runs in the background with SIGINT ignored. Programs that tests start
    # would inherit that, and not end when they are told to.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.option.seed = _seed(config)
    rounds.CHOSEN.is_long = config.option.long
    rounds.CHOSEN.seed = core.global_force_seed = config.option.seed
    cases = rounds.examples(100, long=5000)
    hypothesis.settings.register_profile("dray", cases, print_blob=True)
    hypothesis.settings.load_profile("dray")
    unrun.install(config)


def _seed(config: pytest.Config) -> int:
    """Return the seed of this run: `make test` is the same each time, `make long` is not."""
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None:
        return int(workerinput["seed"])
    if config.option.seed is not None:
        return int(config.option.seed)
    return rounds.new_seed() if config.option.long else 0


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker of xdist the seed that this run prints."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of `make long` to it."""
    later = [item for item in items if item.get_closest_marker("long")]
    if later and not config.option.long:
        config.hook.pytest_deselected(items=later)
        items[:] = [item for item in items if item not in later]


def pytest_sessionstart(session: pytest.Session) -> None:
    # Not as a part of the header, which -q leaves out: a run that hangs has no end to look at.
    _tell_seed(session.config)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        _tell_seed(config)


def _tell_seed(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        options = f"--seed {config.option.seed}{' --long' * config.option.long}"
        reporter.write_line(f"To repeat the random tests of this run: {options}")


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> CheckText:
    """Compares a text with the one kept in a file, or keeps it."""

    def check(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.write_text(text, "utf-8")
        assert path.exists(), f"{path.name} is not kept yet: run pytest --update-golden"
        assert text == path.read_text("utf-8")

    return check

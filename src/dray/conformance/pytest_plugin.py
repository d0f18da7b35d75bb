"""The pytest plugin: `pytest --dray-driver-command "./driver …"` has a test for each check."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dray.conformance.check import CheckResult, ConformanceCheck

OPTION = "--dray-driver-command"
_GROUP = "dray-driver"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dray", "dray: tests of DRA drivers")
    group.addoption(
        OPTION,
        default="",
        metavar="TEXT",
        help="check the driver that this command starts; see `dray conformance --help`",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    command = config.getoption(OPTION)
    if not command:
        return
    from dray.conformance.checks import catalogue

    run = _Run(command)
    config.add_cleanup(run.end)
    made = [
        CheckItem.from_parent(session, name=f"conformance::{check.id}", run=run, check=check)
        for check in catalogue.CHECKS
    ]
    run.items = items
    items.extend(made)


class CheckItem(pytest.Item):
    """One check of the driver."""

    def __init__(self, *, run: _Run, check: ConformanceCheck, **rest: Any) -> None:
        super().__init__(**rest)
        self.add_marker(pytest.mark.xdist_group(_GROUP))
        self._run = run
        self.check = check

    def runtest(self) -> None:
        from dray.conformance import report
        from dray.conformance.check import CheckOutcome

        result = self._run.result(self.check)
        if result.outcome is CheckOutcome.SKIPPED:
            pytest.skip(result.seen)
        if result.outcome is CheckOutcome.FAILED:
            pytest.fail("\n".join(report.explanation(result)), pytrace=False)

    def reportinfo(self) -> tuple[str, None, str]:
        return "conformance", None, self.check.id


class _Run:
    """The suite in a thread of its own, begun by the first test that is not deselected."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._futures: dict[str, Future[CheckResult]] = {}
        self._thread: threading.Thread | None = None
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self.items: list[pytest.Item] = []
        """The tests of the session, without those that were deselected meanwhile."""

    def result(self, check: ConformanceCheck) -> CheckResult:
        if self._thread is None:
            checks = list(self._chosen())
            self._futures = {chosen.id: Future() for chosen in checks}
            self._thread = threading.Thread(target=self._main, args=(checks,), daemon=True)
            self._thread.start()
        return self._futures[check.id].result()

    def _chosen(self) -> Iterator[ConformanceCheck]:
        return (item.check for item in self.items if isinstance(item, CheckItem))

    def end(self) -> None:
        if self._stop is not None:
            loop, task = self._stop
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        if self._thread is not None:
            self._thread.join()

    def _main(self, checks: Sequence[ConformanceCheck]) -> None:
        try:
            asyncio.run(self._make(checks))
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - it belongs to the tests that wait
            for future in self._futures.values():
                if not future.done():
                    future.set_exception(error)

    async def _make(self, checks: Sequence[ConformanceCheck]) -> None:
        from dray.conformance import suite

        task = asyncio.current_task()
        assert task is not None
        self._stop = (asyncio.get_running_loop(), task)
        async with suite.site_of_command(self._command) as site:
            async for result in suite.results(site, checks):
                self._futures[result.check.id].set_result(result)

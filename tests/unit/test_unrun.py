"""The paragraph at the end of a test run, and the helpers that all tests wait with."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from tests import rounds, unrun, virtualtime, waiting

REASON = re.compile(r'''skip\(f?"([^"]+)"|skipif\([^"]*?(?:"[^"]*"[^"]*?)?reason=f?"([^"]+)"''')


def report(reason: str = "", part: str = "") -> pytest.TestReport:
    skipped = bool(reason)
    return pytest.TestReport(
        "tests/test_it.py::test_it",
        ("tests/test_it.py", 1, "test_it"),
        {},
        "skipped" if skipped else "passed",
        ("tests/test_it.py", 1, f"Skipped: {reason}") if skipped else None,
        "setup" if skipped else "teardown",
        user_properties=[(unrun.PART, part)] if part else [],
    )


def summary(*reports: pytest.TestReport, is_strict: bool = False) -> unrun.Summary:
    made = unrun.Summary(is_strict=is_strict)
    for each in reports:
        made.pytest_runtest_logreport(each)
    return made


def test_groups_are_told_with_what_enables_them() -> None:
    inside = report(part="containers cannot be run here")
    made = summary(
        report("containers cannot be run here"),
        report("containers cannot be run here"),
        inside,
        report("no etcd on PATH"),
        report("JSON cannot carry what the case is about"),
        report(),
    )
    assert made.text() == (
        "Not run here: containers in sandboxes (2 tests and parts of 1; allow user namespaces), "
        "etcd (1 test; install etcd-server)."
    )
    assert made.refused == []


def test_where_everything_ran_nothing_is_said() -> None:
    assert summary(report()).text() == ""


def test_a_reason_that_nobody_knows_is_refused() -> None:
    assert summary(report("later")).refused == ["tests/test_it.py::test_it: later"]


@pytest.mark.parametrize(
    ("reason", "is_allowed"),
    [("there is no GPU here", True), ("containers cannot be run here", False)],
)
def test_ci_has_what_can_be_installed(reason: str, is_allowed: bool) -> None:
    assert (summary(report(reason), is_strict=True).refused == []) is is_allowed
    assert summary(report(reason)).refused == []


def test_a_wait_in_vain_says_for_what() -> None:
    with pytest.raises(AssertionError, match="in vain for rain"):
        virtualtime.run(waiting.until(lambda: False, "rain", seconds=3600))
    with pytest.raises(AssertionError, match="in vain for snow"):
        waiting.block_until(lambda: False, "snow", seconds=0)


def test_virtual_time_passes_at_once_but_not_while_a_thread_works() -> None:
    async def steps() -> float:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(3600)
        async with asyncio.timeout(1):
            await asyncio.to_thread(time.sleep, 0.02)
        return loop.time()

    assert virtualtime.run(steps()) == 3600


def test_rounds_have_different_seeds_that_follow_from_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "CHOSEN", rounds.Choice(is_long=False, seed=rounds.MAX_SEED - 1))
    assert [rounds.seed_of(number) for number in range(3)] == [rounds.MAX_SEED - 1, 0, 1]
    assert len(rounds.seeds(3, long=50)) == 3
    rounds.CHOSEN.is_long = True
    assert len(rounds.seeds(3, long=50)) == 50


def test_every_reason_in_the_tests_belongs_to_a_group() -> None:
    """Also those that are not met here."""
    reasons = set()
    for path in (Path(__file__).parents[1]).rglob("*.py"):
        if path != Path(__file__):
            found = REASON.findall(path.read_text("utf-8"))
            reasons |= {plain or conditional for plain, conditional in found}
    assert len(reasons) > 10
    assert {each for each in reasons if unrun.group_of(each) is None} == set()

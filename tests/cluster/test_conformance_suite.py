"""The conformance suite as users run it: on dray's drivers, and on some with a planted fault."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from dray.api import kinds
from dray.conformance import suite
from dray.conformance.check import CheckOutcome, CheckResult
from dray.conformance.checks import catalogue
from dray.conformance.site import Patience
from tests import rounds
from tests.conformance_drivers import faulty

ROOT: Final = Path(__file__).parents[2]
OPTIONS: Final = "--kubeconfig {kubeconfig} --node {node} --folder {folder}"
DRIVERS: Final = {
    "hello": f"{ROOT}/examples/drivers/hello.py",
    "simulated": "-m tests.conformance_drivers.simulated a100-mig",
    "shared": f"{ROOT}/examples/drivers/shared_gpu.py",
    "nvidia": "-m tests.conformance_drivers.nvidia",
}
IMPATIENT: Final = Patience(restore_seconds=5.0, end_seconds=3.0)
"""A fault that is found only by waiting is found sooner."""

pytestmark = [pytest.mark.slow, pytest.mark.random]


def command(program: str) -> str:
    return f"{sys.executable} {program} {OPTIONS}"


def checked(program: str, patience: Patience | None = None) -> list[CheckResult]:
    async def run() -> list[CheckResult]:
        async with suite.site_of_command(command(program), patience) as site:
            return [result async for result in suite.results(site, catalogue.CHECKS)]

    return asyncio.run(run())


def failures(results: list[CheckResult]) -> dict[str, str]:
    return {
        result.check.id: result.seen for result in results if result.outcome is CheckOutcome.FAILED
    }


CASES: Final = [
    *((program, []) for program in DRIVERS.values()),
    *((f"-m tests.conformance_drivers.faulty {name}", [name]) for name in faulty.FAULTS),
]
"""Programs with the checks that must fail."""


@pytest.mark.parametrize("number", range(rounds.count(1, long=len(CASES))))
def test_a_fault_fails_its_check_and_no_other(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every driver, or the one that the seed chooses in a short run."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    start = 0 if rounds.CHOSEN.is_long else rounds.CHOSEN.seed
    program, expected = CASES[(start + number) % len(CASES)]
    results = checked(program, IMPATIENT if expected else None)
    found = failures(results)
    assert list(found) == expected, (program, found)
    assert {result.check.id for result in results} == {check.id for check in catalogue.CHECKS}


def test_there_are_enough_faults() -> None:
    assert len(faulty.FAULTS) >= 15
    assert set(faulty.FAULTS) <= {check.id for check in catalogue.CHECKS}


def test_a_driver_that_runs_already_is_checked_by_its_socket() -> None:
    async def run() -> list[CheckResult]:
        async with suite.site_of_command(command(DRIVERS["hello"])) as running:
            registered = await running.wait_for_registration()
            client, node, cdi = running.client, running.node, running.places.cdi
            async with suite.site_of_socket(client, registered.socket, node, cdi) as site:
                results = [result async for result in suite.results(site, catalogue.CHECKS)]
            assert (await client.list(kinds.RESOURCE_CLAIM)).items == []
            return results

    results = asyncio.run(run())
    assert failures(results) == {}
    needed = {result.check.group for result in results if result.seen.startswith("needs --command")}
    assert needed == {"slices", "restart", "upgrade", "cleanup"}


def test_a_driver_with_one_socket_is_not_updated_while_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    program = command("-m tests.conformance_drivers.one_socket")

    async def run() -> list[CheckResult]:
        async with suite.site_of_command(program) as site:
            chosen = catalogue.named(("upgrade.beside", "cleanup"))
            return [result async for result in suite.results(site, chosen)]

    outcomes = {result.check.id: result.outcome.value for result in asyncio.run(run())}
    assert outcomes == {
        "upgrade.beside": "skipped",
        "cleanup.data": "passed",
        "cleanup.running": "passed",
    }


def test_pytest_has_a_test_for_each_check(tmp_path: Path) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-k", "registration or counters", "-rs"]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            "--dray-driver-command",
            command(DRIVERS["hello"]),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "8 passed, 1 skipped" in ran.stdout, ran.stdout + ran.stderr
    assert "the driver publishes no shared counters" in ran.stdout
    assert ran.returncode == 0


def test_pytest_tells_what_was_seen(tmp_path: Path) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-k", "registration.socket"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--dray-driver-command", "false"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed" in ran.stdout, ran.stdout + ran.stderr
    assert "Seen: no socket answers; the registry has no files; the driver ended with" in ran.stdout
    assert "To do: Put the registration socket into" in ran.stdout

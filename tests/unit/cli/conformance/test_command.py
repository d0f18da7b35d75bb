"""`dray conformance`: its arguments, its forms of output and its exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dray.conformance.checks import catalogue
from tests import waiting
from tests.unit.cli.conftest import DRAY, run

HELLO = Path(__file__).parents[4] / "examples" / "drivers" / "hello.py"
COMMAND = (
    f"{sys.executable} {HELLO} --kubeconfig {{kubeconfig}} --node {{node}} --folder {{folder}}"
)


def test_checks_are_listed() -> None:
    listed = run("conformance", "--list")
    assert listed.exit_code == 0
    assert len(listed.output.splitlines()) == len(catalogue.CHECKS)
    (one,) = json.loads(
        run("conformance", "--list", "--check", "slices.count", "-o", "json").output
    )["checks"]
    assert sorted(one) == ["advice", "id", "requirement", "source"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "give --command or --socket"),
        (("--command", "x", "--socket", "/x"), "give --command or --socket"),
        (("--command", "driver {nodes}"), "--command: there is no placeholder {nodes}"),
        (("--command", "/no/such/driver"), "--command: /no/such/driver cannot be run"),
        (("--socket", "/no/such.sock", "--node", "n"), "/no/such.sock is not a socket"),
        (("--list", "-o", "name"), "-o name: checks are no objects"),
        (("--command", "x", "--check", "slice"), "there is no check or group 'slice'"),
        (("--command", "a", "--node", "n"), "--node is for --socket"),
        (("--command", "a", "--cdi", "/cdi"), "--cdi is for --socket"),
        (("--command", "a", "--context", "c"), "--context is for --socket"),
        (("--command", "a", "-n", "team"), "-n has no effect here"),
    ],
)
def test_wrong_arguments_end_with_2(arguments: tuple[str, ...], text: str) -> None:
    ran = run("conformance", *arguments)
    assert ran.exit_code == 2
    assert text in ran.output


def test_some_checks_of_a_driver(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    chosen = ("--check", "registration", "--check", "cdi", "--check", "slices.counters")
    ran = run("conformance", "--command", COMMAND, *chosen, "--junit", str(junit), "-o", "json")
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    assert document["driver"] == "hello.example.com"
    assert document["counts"] == {"passed": 15, "failed": 0, "skipped": 1}
    assert ElementTree.parse(junit).getroot()[0].attrib["tests"] == "16"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 1)])
def test_a_suite_that_is_ended_ends_the_driver(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    starts = f"sh -c 'echo $$ > {pid}; exec sleep 1000'"
    arguments = [str(DRAY), "conformance", "--check", "registration.socket", "--command", starts]
    folders = {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(arguments, env={**os.environ, **folders}) as running:
        waiting.block_until(lambda: pid.exists() and pid.read_text("utf-8"), "the driver")
        running.send_signal(number)
        assert running.wait(waiting.DEADLINE_SECONDS) == code
    assert not Path(f"/proc/{pid.read_text('utf-8').strip()}").exists()
    assert list(tmp_path.glob("dray-*")) == []


def test_a_program_that_is_no_driver_fails_one_check() -> None:
    chosen = ("--check", "registration", "--check", "prepare")
    ran = run("conformance", "--command", "sh -c 'echo no GPU here; exit 3'", *chosen)
    assert ran.exit_code == 1
    assert "failed  registration.socket" in ran.output
    assert "the driver ended with code 3; its last lines: no GPU here" in ran.output
    assert "To do: Put the registration socket into {registry}" in ran.output
    assert "1 failed" in ran.output

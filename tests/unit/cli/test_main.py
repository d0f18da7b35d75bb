"""The `dray` command as a whole: quick to start, complete in its help, helpful to shells."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from tools import make_reference

import dray
from dray.cli.main import main
from tests.unit.cli.conftest import DRAY, run

HELP_SECONDS = 0.15


def processor_seconds(*command: str) -> float:
    """What a command took of a processor, whatever else the machine does."""
    before = os.times()
    subprocess.run([DRAY, *command], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    spent = after.children_user - before.children_user
    return spent + after.children_system - before.children_system


def test_help_is_quick() -> None:
    assert min(processor_seconds("--help") for _ in range(5)) < HELP_SECONDS


def commands(group: click.Group, *names: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield (*names, name)
        if isinstance(found, click.Group):
            yield from commands(found, *names, name)


def test_every_command_has_help_with_a_whole_sentence() -> None:
    for names in commands(main):
        shown = run(*names, "--help")
        assert shown.exit_code == 0, (names, shown.output)
        first = shown.stdout.splitlines()[2].strip()
        assert first[0].isupper(), (names, first)


def test_exit_codes_are_part_of_the_help() -> None:
    assert "Exit codes: 0 done" in run("--help").stdout


def test_a_command_that_does_not_exist_gets_a_suggestion() -> None:
    result = run("explian")
    assert result.exit_code == 2
    assert "Did you mean explain?" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_words(shell: str) -> None:
    shown = run("completion", shell)
    assert shown.exit_code == 0, shown.output
    assert "_DRAY_COMPLETE" in shown.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("dray hist", "history", id="command"),
        pytest.param("dray fleet sc", "scale", id="subcommand"),
        pytest.param("dray get resourceclaimt", "resourceclaimtemplates", id="type"),
        pytest.param("dray get --all-n", "--all-namespaces", id="option"),
    ],
)
def test_completions(words: str, expected: str) -> None:
    environment = {
        **os.environ,
        "_DRAY_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    found = subprocess.run([DRAY], env=environment, capture_output=True, text=True, check=False)
    assert found.stdout.split() == [f"plain,{expected}"]


def test_the_reference_is_current() -> None:
    written = make_reference.TARGET.read_text("utf-8")
    assert written == make_reference.page(), "run `make generate`"


def test_python_m_dray_is_the_command() -> None:
    command = [sys.executable, "-m", "dray", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"dray, version {dray.__version__}\n"

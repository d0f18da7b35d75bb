"""The examples in `--help`: every command has some, and each of them can be parsed."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from dray.cli import examples
from dray.cli.main import COMMANDS, SECTIONS, main
from dray.drivers.simulated import fleet
from tests.unit.cli.conftest import run
from tests.unit.cli.test_main import commands

LINES = [line for lines in examples.EXAMPLES.values() for line in lines]
FILES = (
    *("claim.yaml", "dray.backup", "scenario.json"),
    *("pod_list.csv", "pod_list.csv.gz", "node_list.csv"),
)


def words(line: str) -> list[str]:
    """The arguments of the first `dray` in a line of a shell."""
    inner = line.removeprefix("source <(").removesuffix(")")
    lexer = shlex.shlex(inner, posix=True, punctuation_chars=">")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    found = list(lexer)
    assert found[0] == "dray", line
    return found[1 : found.index(">")] if ">" in found else found[1:]


def command_of(arguments: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = main
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), arguments[0])
        assert found is not None, arguments
        command, arguments = found, arguments[1:]
    return command, arguments


@pytest.mark.parametrize("line", LINES)
def test_examples_can_be_parsed(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        (tmp_path / name).touch()
    command, rest = command_of(words(line))
    with command.make_context(command.name, rest):
        pass


@pytest.mark.parametrize("line", [line for line in LINES if "--fleet" in line])
def test_fleets_of_examples_come_with_dray(line: str) -> None:
    arguments = words(line)
    assert arguments[arguments.index("--fleet") + 1] in fleet.shipped()


def test_an_example_is_below_the_command_that_it_shows() -> None:
    for name, lines in examples.EXAMPLES.items():
        for line in lines:
            assert words(line)[: len(name.split())] == name.split(), line


def test_every_command_has_examples() -> None:
    for names in commands(main):
        is_group = names in {("fleet",), ("history",), ("driver",), ("bench",), ("plan",)}
        if not is_group and names[0] != "bench":
            name = " ".join(names)
            assert name in examples.EXAMPLES, f"add examples of {name} to EXAMPLES, cli/examples.py"


def test_help_shows_them() -> None:
    assert "Examples:\n  dray get devices\n" in run("get", "--help").stdout


def test_commands_are_grouped() -> None:
    shown = run("--help").stdout
    titles = ["Cluster:", "Inspect:", "Diagnose:", "Objects:", "Components:"]
    assert [line for line in shown.splitlines() if line in titles] == titles


def test_every_command_is_in_one_group() -> None:
    grouped = [name for names in SECTIONS.values() for name in names]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == set(COMMANDS), "SECTIONS in cli/main.py has to have every command"

"""Commands that dray prints as advice: each can be parsed, and goes to the same cluster."""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import dray
from dray.cli import printed_commands
from dray.cli.main import main
from tests.unit.cli.test_main import commands

SOURCE = Path(dray.__file__).parent
VALUE = "\0"
"""Stands for a value that is filled in."""


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module without its docstrings, with values to fill in as VALUE."""
    others: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            others.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            others.update(map(id, node.values))
            parts = node.values
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else VALUE for p in parts)
        elif id(node) not in others and isinstance(node, ast.Constant):
            yield str(node.value)


def printed() -> Iterator[str]:
    """Yield each command in the texts of dray; a value within a word is left empty."""
    for path in sorted(SOURCE.rglob("*.py")):
        for text in texts(ast.parse(path.read_text("utf-8"))):
            for found in re.finditer(printed_commands.COMMAND, text, re.MULTILINE):
                command = found["command"].rstrip(" .)?")
                command = re.sub(rf"(?<=[ '=/]){VALUE}", "x", command).replace(VALUE, "")
                yield re.split(r" (?:[|>]|#) ?", command)[0].removesuffix(" …")


PRINTED = sorted(set(printed()))


@pytest.mark.parametrize("line", PRINTED)
def test_printed_commands_can_be_parsed(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line.replace("[", "").replace("]", ""))[1:]
    for word in words:
        if re.fullmatch(r"[\w.-]+", word):
            (tmp_path / word).touch()
    command: click.Command = main
    while words and isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    if words or not isinstance(command, click.Group):
        with contextlib.suppress(click.exceptions.Exit), command.make_context(command.name, words):
            pass


def test_the_commands_are_found() -> None:
    assert len(PRINTED) > 50
    assert "dray describe node x" in PRINTED


def test_the_commands_that_need_no_cluster_are_known() -> None:
    """Those that need one can be told which."""
    for names in commands(main):
        text = f": dray {' '.join(names)}"
        has_options = printed_commands.for_cluster(text, " --context c").endswith(" --context c")
        command: click.Command | None = main
        for name in names:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), name)
        assert command is not None
        is_known = {"kubeconfig", "context"} <= {param.name for param in command.params}
        if not isinstance(command, click.Group) and names not in {("lint",)}:
            assert has_options == is_known, names


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("See: dray get pods", "See: dray get pods --context c"),
        (
            "See: dray get devices, or dray top",
            "See: dray get devices --context c, or dray top --context c",
        ),
        ("Name one of: dray get pc; or none.", "Name one of: dray get pc --context c; or none."),
        ("Stop it with: dray down. Or wait.", "Stop it with: dray down. Or wait."),
        ("Run: dray explain a.b. Then wait.", "Run: dray explain a.b --context c. Then wait."),
        ("  dray patch x -p '[1, 2; 3]'", "  dray patch x -p '[1, 2; 3]' --context c"),
        ("echo '{}' | dray apply -f -", "echo '{}' | dray apply -f - --context c"),
        ("Use: dray get pods --context d", "Use: dray get pods --context d"),
        ("Correct it: dray lint --fix a.yaml", "Correct it: dray lint --fix a.yaml"),
        ("See: dray fleet list", "See: dray fleet list"),
        ("dray is already up", "dray is already up"),
    ],
)
def test_options_go_behind_each_command(text: str, completed: str) -> None:
    assert printed_commands.for_cluster(text, " --context c") == completed
    assert printed_commands.for_cluster(text, "") == text


def test_values_of_options_are_quoted() -> None:
    assert printed_commands.options("/a b", "c") == " --kubeconfig '/a b' --context c"

"""Compares the commands and options of kubectl with dray's: `python -m tools.compare_kubectl`.

Prints each option of a common command as `same` or `left to kubectl`, and fails if the tables of
`dray.cli.kubectl_options` lack something that kubectl has. `--kubectl PATH` names another one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import click

from dray.cli import kubectl_options
from dray.cli.main import main as dray

_OPTION = re.compile(r"^ {4}(?:-(\w), )?--([\w-]+)=", re.MULTILINE)
_COMMAND = re.compile(r"^  ([a-z][a-z-]+) {2,}\S", re.MULTILINE)
OWN_MEANING = frozenset({"completion", "explain", "top"})
"""Commands of both that do something else, or have no options."""


def help_text(kubectl: str, *words: str) -> str:
    done = subprocess.run([kubectl, *words], capture_output=True, text=True, check=True)
    return done.stdout


def options_of(text: str) -> dict[str, str]:
    """Return the options in a help text of kubectl, each with its letter."""
    return {name: letter for letter, name in _OPTION.findall(text)}


def commands_of(text: str) -> set[str]:
    return set(_COMMAND.findall(text))


def unknown(kubectl: str) -> Iterator[str]:
    """Yield what kubectl has and the tables lack."""
    own = set(dray.list_commands(click.Context(dray)))
    for command in sorted(commands_of(help_text(kubectl, "--help"))):
        if command not in own and command not in kubectl_options.COMMANDS:
            yield f"command {command}"
    for name in options_of(help_text(kubectl, "options")):
        if name not in kubectl_options.GLOBAL:
            yield f"global option --{name}"
    for command in kubectl_options.OPTIONS:
        for name, letter in options_of(help_text(kubectl, command, "--help")).items():
            if name not in kubectl_options.OPTIONS[command]:
                yield f"{command} --{name}"
            if letter and not kubectl_options.is_of_kubectl(command, f"-{letter}"):
                yield f"{command} -{letter}"


def outdated(kubectl: str) -> Iterator[str]:
    """Yield what the tables have and kubectl lacks."""
    for command, names in kubectl_options.OPTIONS.items():
        there = options_of(help_text(kubectl, command, "--help"))
        yield from (f"{command} --{name}" for name in sorted(names - there.keys()))


def own_options(command: str) -> set[str]:
    found = dray.get_command(click.Context(dray), command)
    assert found is not None, command
    names = [name for param in found.params for name in (*param.opts, *param.secondary_opts)]
    return {name.removeprefix("--") for name in names if name.startswith("--")}


@click.command()
@click.option("--kubectl", default="kubectl", show_default=True, metavar="PATH")
def main(kubectl: str) -> None:
    """Compare the commands and options of kubectl with dray's."""
    for command, names in kubectl_options.OPTIONS.items():
        own = own_options(command)
        for name in sorted(names):
            click.echo(f"{command} --{name}: {'same' if name in own else 'left to kubectl'}")
    missing = list(unknown(kubectl))
    for line in missing:
        click.echo(f"not in the tables: {line}", err=True)
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()

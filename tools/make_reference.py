"""Writes docs/reference.md: every command of `dray` with its arguments and options.

`python -m tools.make_reference`, or `make generate`. A test holds the file against the code.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from dray.api import features
from dray.cli import command_errors, examples
from dray.cli.main import main as dray

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "reference.md"
HEAD = """# Every command

Made from the code by `make generate`. `dray COMMAND --help` says the same.

`kubectl why` is `dray explain`, and `kubectl dra` is `dray`, wherever `kubectl-why` and
`kubectl-dra` are on the `PATH`. An option can also be set in the environment: `--data` of
`dray up` as `DRAY_UP_DATA`.

## Exit codes

"""


def page() -> str:
    return "\n".join([HEAD + _exit_codes(), _gates(), *_sections(dray, "dray")])


def _exit_codes() -> str:
    """From the docstring of the module that has them."""
    lines = inspect.getdoc(command_errors) or ""
    codes = [line.split(maxsplit=1) for line in lines.splitlines() if line[:1].isdecimal()]
    rows = [f"| {code} | {meaning} |" for code, meaning in codes]
    return "\n".join(["| code | means |", "|---|---|", *rows]) + "\n"


def _gates() -> str:
    rows = [
        f"| `{gate.name}` | {stage.level} | {'on' if stage.default else 'off'} |"
        for gate in features.GATES.values()
        for stage in (gate.stage_in(features.VERSIONS[-1]),)
    ]
    head = [
        "## Feature gates",
        "",
        "As in Kubernetes 1.37; those that begin with `Dray` are dray's own.",
        "",
    ]
    return "\n".join([*head, "| gate | stage | default |", "|---|---|---|", *rows]) + "\n"


def _sections(group: click.Group, name: str) -> Iterator[str]:
    context = click.Context(group, info_name=name)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None, each
        yield _section(command, f"{name} {each}")
        if isinstance(command, click.Group):
            yield from _sections(command, f"{name} {each}")


def _section(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    lines = [f"## {name}", "", f"    {usage}", "", *_description(command)]
    options = [param for param in command.params if isinstance(param, click.Option)]
    if options:
        lines += ["", "| option | meaning |", "|---|---|"]
        lines += [_option(option, context) for option in options]
    if shown := examples.of_command(name, command.name or ""):
        lines += ["", "Examples:", "", *(f"    {line}" for line in shown)]
    return "\n".join(lines) + "\n"


def _description(command: click.Command) -> Iterator[str]:
    for line in inspect.cleandoc(command.help or "").splitlines():
        yield line.replace("\b", "").replace("<(", "&lt;(")


def _option(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None, option.name
    names, meaning = (part.replace("|", "\\|") for part in record)
    return f"| `{names}` | {' '.join(meaning.split())} |"


def main() -> None:
    TARGET.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()

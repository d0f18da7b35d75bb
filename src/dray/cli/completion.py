"""`dray completion`: a script with which a shell completes commands, options and types."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from dray.api import kinds
from dray.cli.command_errors import Command
from dray.cli.main import main

PROGRAM, VARIABLE = "dray", "_DRAY_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script for a shell.

    bash: source <(dray completion bash), in ~/.bashrc to have it always; zsh: the same in ~/.zshrc;
    fish: dray completion fish > ~/.config/fish/completions/dray.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, PROGRAM, VARIABLE).source())


def types(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of types, as the argument of `dray get` and its like."""
    names = ["devices", *(kind.plural for kind in kinds.KINDS)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]

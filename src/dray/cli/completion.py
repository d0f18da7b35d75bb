"""`dray completion`: a shell script that completes commands, options and resource types."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from dray.cli.command_errors import DrayCommand

PROGRAM, VARIABLE = "dray", "_DRAY_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=DrayCommand)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script for a shell.

    bash: source <(dray completion bash), in ~/.bashrc to have it always; zsh: the same in ~/.zshrc;
    fish: dray completion fish > ~/.config/fish/completions/dray.fish
    """
    script = get_completion_class(shell)
    assert script is not None
    dray = click.get_current_context().find_root().command
    click.echo(script(dray, {}, PROGRAM, VARIABLE).source())

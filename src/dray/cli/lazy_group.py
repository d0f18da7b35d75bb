"""Groups of commands that are imported when they are called, so that `--help` is quick."""

from __future__ import annotations

import atexit
import gc
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from dray.cli import kubectl_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COLLECTION_THRESHOLD = 200_000
"""Garbage collection threshold: commands end before a collection would pay off."""


Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def completer(name: str) -> Completer:
    """Return a function of `session.completions` that is imported when a shell asks."""

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        module = importlib.import_module("dray.cli.session.completions")
        found: list[CompletionItem] = getattr(module, name)(context, incomplete)
        return found

    return complete


class LazyGroup(click.Group):
    """A group that imports its commands on use.

    It has the place of each command, `module:attribute` below `dray.cli`, and one line of help.
    The help lists the commands by `sections`, titles with names.
    """

    def __init__(
        self,
        commands: Mapping[str, tuple[str, str]],
        *,
        sections: Mapping[str, Sequence[str]] | None = None,
        **settings: object,
    ) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._lazy = commands
        self._sections = sections or {"Commands": tuple(commands)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return None
        gc.set_threshold(COLLECTION_THRESHOLD)
        # A collection is not worth its time either when the process ends.
        atexit.register(gc.freeze)
        module, attribute = self._lazy[cmd_name][0].split(":")
        command = getattr(importlib.import_module(f"dray.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if ctx.parent is None and error.option_name.lstrip("-") in kubectl_options.GLOBAL:
                ctx.fail(f"dray has no {error.option_name}; kubectl has. Use kubectl for that.")
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self._lazy and not args[0].startswith("-"):
            import difflib

            from dray.cli import usage_hints

            if args[0] == "help" and ctx.parent is None:
                return self._help(ctx, args[1:])
            if ctx.parent is None and args[0] in kubectl_options.COMMANDS:
                ctx.fail(f"There is no `dray {args[0]}`. Use kubectl: kubectl {' '.join(args)}")
            close = difflib.get_close_matches(args[0], self._lazy, n=1)
            meant = usage_hints.MEANT.get(args[0]) if ctx.parent is None else None
            if meant:
                close = [f"dray {meant}"]
            advice = f"Did you mean {close[0]}?" if close else "See them all with --help."
            ctx.fail(f"There is no command {args[0]}. {advice}")
        return super().resolve_command(ctx, args)

    def _help(
        self, ctx: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return `dray COMMAND --help` for `dray help COMMAND`; print all commands without one."""
        if words:
            return self.resolve_command(ctx, [*words, "--help"])
        click.echo(ctx.get_help())
        ctx.exit()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands without importing them, which would take a second."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=line)
            for name, (_, line) in self._lazy.items()
            if name.startswith(incomplete)
        ]
        return names or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The same width everywhere aligns the sections with each other.
        width = max(map(len, self._lazy))
        for title, names in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), self._lazy[name][1]) for name in names])

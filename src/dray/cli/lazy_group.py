"""Groups of commands that are imported when they are called, so that `--help` is quick."""

from __future__ import annotations

import atexit
import gc
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COLLECTION_THRESHOLD = 200_000
"""Garbage collection threshold: commands end before a collection would pay off."""


class LazyGroup(click.Group):
    """A group that imports its commands on use.

    It has the place of each command, `module:attribute` below `dray.cli`, and one line of help.
    """

    def __init__(self, commands: Mapping[str, tuple[str, str]], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._lazy = commands

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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self._lazy and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], self._lazy, n=1)
            advice = f"Did you mean {close[0]}?" if close else "See them all with --help."
            ctx.fail(f"There is no command {args[0]}. {advice}")
        return super().resolve_command(ctx, args)

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
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._lazy.items()])

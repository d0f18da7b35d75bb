"""The `dray` command. Commands are imported when they are called, so that `--help` is quick."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType

import click

import dray


class LateGroup(click.Group):
    """A group that knows its commands by name and one line of help, and imports them on use."""

    def __init__(self, commands: Mapping[str, tuple[str, str]], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._late = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._late:
            return None
        module, attribute = self._late[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self._late and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], self._late, n=1)
            advice = f"Did you mean {close[0]}?" if close else "See them all with --help."
            ctx.fail(f"There is no command {args[0]}. {advice}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._late.items()])


COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "demo": ("dray.cli.demo:demo", "See dray work: selectors on a sample fleet."),
        "up": ("dray.cli.components.up:up", "Run a whole cluster on a simulated fleet."),
        "apiserver": ("dray.cli.components.apiserver:apiserver", "Serve the Kubernetes API."),
        "scheduler": ("dray.cli.components.scheduler:scheduler", "Give pods nodes and devices."),
        "controllers": (
            "dray.cli.components.controllers:controllers",
            "Keep claims and workloads in order.",
        ),
        "backup": ("dray.cli.components.backup:backup", "Write the whole state to a file."),
        "restore": ("dray.cli.components.backup:restore", "Put a backup back."),
        "get": ("dray.cli.verbs.get:get", "Show objects; also `get devices`."),
        "describe": ("dray.cli.verbs.describe:describe", "Show everything about objects."),
        "apply": ("dray.cli.verbs.apply:apply", "Make objects what files say."),
        "create": ("dray.cli.verbs.apply:create", "Create the objects of files."),
        "delete": ("dray.cli.verbs.delete:delete", "Delete objects."),
        "logs": ("dray.cli.verbs.logs:logs", "Print what a container prints."),
        "wait": ("dray.cli.verbs.wait:wait", "Wait until objects are as they should be."),
        "events": ("dray.cli.verbs.events:events", "Show what happened."),
        "label": ("dray.cli.verbs.change:label", "Set and remove labels."),
        "patch": ("dray.cli.verbs.change:patch", "Change fields of objects."),
        "api-resources": ("dray.cli.verbs.discovery:api_resources", "List what is served."),
        "version": ("dray.cli.verbs.discovery:version", "Print versions."),
        "explain": ("dray.cli.explain:explain", "Say why there are no devices, and what helps."),
        "cel": ("dray.cli.cel:cel", "Check a selector and see what it matches."),
        "lint": ("dray.cli.lint.command:lint", "Say what is wrong with manifests."),
        "snapshot": ("dray.cli.snapshot:snapshot", "Print what matters of a cluster, to a file."),
        "bench": ("dray.cli.bench:bench", "Run a benchmark and print its figures."),
    }
)

main = LateGroup(
    COMMANDS,
    name="dray",
    help="Kubernetes Dynamic Resource Allocation, complete, in Python.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
main = click.version_option(dray.__version__, prog_name="dray")(main)

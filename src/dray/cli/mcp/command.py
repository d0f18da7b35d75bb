"""`dray mcp`: read-only tools for assistants, over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import sys

import click

from dray.cli.command_errors import CommandError, DrayCommand
from dray.cli.inputs import cluster_objects
from dray.cli.session import connection
from dray.cli.session.connection import Target


@click.command("mcp", cls=DrayCommand)
@connection.options
@cluster_objects.option
def mcp(target: Target, against: str) -> None:
    """Serve tools to an assistant: explain, lint, devices, history, doctor and cel.

    Speaks the Model Context Protocol on standard input and output; an assistant starts it. The
    tools only read. Needs the package mcp: pip install 'dray[mcp]'
    """
    try:
        from dray.cli.mcp import server
        from dray.cli.mcp.tools import Source
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "mcp_types"):
            raise
        raise CommandError(
            "dray mcp needs the package mcp", "Install it with: pip install 'dray[mcp]'"
        ) from error
    source = Source(dataclasses.replace(target, read_only=True), against)
    if sys.stdin.isatty():
        click.echo("Waiting for an assistant on standard input; Ctrl-C ends this.", err=True)
    # The end of a process that only reads needs no care, and a thread that reads standard input
    # cannot be interrupted otherwise.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(server.serve(source))

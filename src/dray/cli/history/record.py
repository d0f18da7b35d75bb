"""`dray record`: the history of the devices of any cluster."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from dray.cli.command_errors import CommandError, DrayCommand
from dray.cli.components import foreground
from dray.cli.inputs import record_options
from dray.cli.output import durations
from dray.cli.session import connection
from dray.cli.session.connection import Target
from dray.client import discovery
from dray.clock import utc_now
from dray.history.history_file import HistoryUnusable


@click.command("record", cls=DrayCommand)
@connection.options_of_cluster
@click.option(
    "--file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to record; a file that exists goes on.",
)
@record_options.retention_option(durations.parse)
def record(target: Target, file: Path, record_retention: float) -> None:
    """Record who holds which device of a cluster, until stopped.

    It only reads: pods and the objects of Dynamic Resource Allocation. `dray history --file FILE`
    reads the record, also while it is written. `dray up` records by itself.
    """
    foreground.run(
        foreground.until_signalled(lambda: _run(target, file.expanduser(), record_retention))
    )


async def _run(target: Target, path: Path, retention_seconds: float) -> None:
    # The client takes long to import.
    from dray.history import recorder as recording

    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(foreground.client_of(target, recording.NAME))
        file = stack.enter_context(record_options.opened(path, retention_seconds))
        version = await discovery.version_of(client)
        recorder = recording.HistoryRecorder(client, file, features=version.features, now=utc_now)
        try:
            await recorder.check()
            click.echo(f"Recording into {path}")
            await recorder.run()
        except HistoryUnusable as error:
            raise CommandError(str(error), error.advice) from error

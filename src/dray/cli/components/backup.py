"""`dray backup` and `dray restore`: the whole state of a SQLite store in one file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import click

from dray.cli.command_errors import CommandError, DrayCommand, WrongUsage
from dray.cli.components import foreground, store_option
from dray.cli.session.up_instance import DEFAULT_DATA
from dray.store import backup as backups
from dray.store import sqlite_file, sqlite_history
from dray.store import store as stored

HOLDS_SECRETS = (
    "It contains every Secret of the cluster as plain text: keep it as you keep passwords. "
    "The keys of certificates and tokens are not in it; they are files of the data directory."
)

_data = click.option(
    "--data", default=DEFAULT_DATA, show_default=True, metavar="DIR", help="The data directory."
)
_store = click.option("--store", default="", metavar="sqlite:PATH", help="A file elsewhere.")


@click.command("backup", cls=DrayCommand)
@click.argument("file", type=click.Path(path_type=Path))
@_data
@_store
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
def backup(file: Path, data: str, store: str, overwrite: bool) -> None:
    """Write the whole state to FILE; the cluster may go on meanwhile."""
    path = store_option.sqlite_path(store, Path(data).expanduser())
    if not path.exists():
        raise CommandError(
            f"{path} does not exist.", "Say where the store is with --data or --store."
        )
    if file.exists() and not overwrite:
        raise WrongUsage(f"{file} exists.", "Replace it with --overwrite, or choose another name.")
    _refuse_unwritable(file)
    with (
        _refusals(path, "Is --data or --store the store of a cluster?"),
        contextlib.closing(sqlite_history.History(path, sqlite_file.connect)) as past,
    ):
        backups.write(past.copy, file)
    click.echo(f"Wrote {file} ({file.stat().st_size} bytes). Put it back with: dray restore {file}")
    click.echo(HOLDS_SECRETS, err=True)


@click.command("restore", cls=DrayCommand)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_data
@_store
@click.option("--yes", is_flag=True, help="Do not ask.")
def restore(file: Path, data: str, store: str, yes: bool) -> None:
    """Replace the state of a stopped cluster by that of FILE."""
    path = store_option.sqlite_path(store, Path(data).expanduser())
    if path.exists() and not yes:
        click.confirm(f"Replace {path}, and with it all that it holds?", abort=True)
    if store:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    else:
        foreground.private_directory(data)
    with _refusals(path, "Stop what uses it (dray down) before a restore."):
        revision = backups.restore(file, path)
    click.echo(f"Restored {path}; it goes on at revision {revision}.")


def _refuse_unwritable(file: Path) -> None:
    """Raise CommandError if FILE cannot be written, which is no fault of the store."""
    folder = file.parent
    if file.is_dir():
        raise WrongUsage(f"{file} is a directory.", f"Name a file, such as {file / 'dray.backup'}")
    if not folder.is_dir():
        raise CommandError(f"{folder} is not a directory, so {file} cannot be written.")
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{folder} cannot be written by this user.", "Choose another file.")


@contextlib.contextmanager
def _refusals(path: Path, advice: str) -> Iterator[None]:
    try:
        with sqlite_file.refusing(path):
            yield
    except stored.StoreUnusable as error:
        raise CommandError(str(error), advice) from error

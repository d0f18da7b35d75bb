"""The options that name the keys of an API server, so that several servers can share them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dray.apiserver.access.certificates import KeyFileError
from dray.apiserver.access.server_keys import KeyFiles, ServerKeys
from dray.cli.command_errors import CommandError, WrongUsage

_FILE = click.Path(dir_okay=False, path_type=Path)


def options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for key files; the command receives them as `key_files`."""

    @click.option(
        "--ca-cert-file",
        type=_FILE,
        metavar="FILE",
        help="Certificate authority for several servers; by default one in --data.",
    )
    @click.option("--ca-key-file", type=_FILE, metavar="FILE", help="Its private key.")
    @click.option(
        "--service-account-signing-key-file",
        type=_FILE,
        metavar="FILE",
        help="EC key that signs tokens, for several servers; by default one in --data.",
    )
    @click.option(
        "--service-account-key-file",
        type=_FILE,
        multiple=True,
        metavar="FILE",
        help="Another key whose tokens are valid, for changing the signing key.",
    )
    @functools.wraps(function)
    def wrapped(
        ca_cert_file: Path | None,
        ca_key_file: Path | None,
        service_account_signing_key_file: Path | None,
        service_account_key_file: tuple[Path, ...],
        **rest: Any,
    ) -> Any:
        if (ca_cert_file is None) != (ca_key_file is None):
            raise WrongUsage("--ca-cert-file and --ca-key-file belong together")
        files = KeyFiles(
            ca_cert_file, ca_key_file, service_account_signing_key_file, service_account_key_file
        )
        return function(key_files=files, **rest)

    return wrapped


def load(directory: Path, files: KeyFiles) -> ServerKeys:
    """Return the keys of a server. Raises CommandError for a file that cannot be used."""
    try:
        return ServerKeys.load(directory, files)
    except KeyFileError as error:
        raise CommandError(f"the keys cannot be used: {error}") from error

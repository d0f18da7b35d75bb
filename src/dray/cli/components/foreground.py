"""Runs a component in the foreground: its log, its event loop, and a clean end on signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click
import uvloop

from dray import private_directories, telemetry
from dray.cli.command_errors import CommandError, WrongUsage
from dray.cli.session.connection import Target
from dray.client.api_client import Client
from dray.client.rest import RestTransport

T = TypeVar("T")

OTHERS_WRITE = 0o022


def run(work: Coroutine[Any, Any, None], log_level: int = logging.INFO) -> None:
    """Run `work` to its end on uvloop, with the log on stderr."""
    # Nobody else may put sockets or files where dray looks for those of drivers.
    os.umask(os.umask(OTHERS_WRITE) | OTHERS_WRITE)
    telemetry.configure_logging(log_level)
    uvloop.run(work)


async def until_signalled(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` until it ends. On SIGTERM and SIGINT, cancel it and wait for it."""
    running = asyncio.ensure_future(work())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await running
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def private_directory(text: str) -> Path:
    """Return the data directory of an option, which only this user can open from here on."""
    path = Path(text).expanduser()
    try:
        private_directories.prepare(
            path, lambda warning: click.echo(f"Warning: {warning}", err=True)
        )
    except private_directories.DirectoryRefused as error:
        raise CommandError(str(error), error.advice) from error
    except OSError as error:
        advice = "Choose another directory with --data."
        raise CommandError(f"{path} cannot be used: {error.strerror}", advice) from error
    return path


def parse_listen(text: str, option: str, example: str) -> tuple[str, int]:
    """Return host and port of an option's value. Without a host it is every address."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise WrongUsage(f"{option} {text}: write HOST:PORT, such as {example}")
    return host.strip("[]") or "0.0.0.0", int(port)


def host_and_port(url: str) -> tuple[str, int] | None:
    """Return the address in the URL of an API server, or None where there is none."""
    parts = urlsplit(url)
    return (parts.hostname, parts.port or 443) if parts.hostname else None


def identity() -> str:
    """Return a new name for this process among the candidates for one lease.

    Two containers may have the same host name and the same process id.
    """
    return f"{socket.gethostname()}_{uuid.uuid4()}"


async def listen(
    stack: contextlib.AsyncExitStack,
    listening: contextlib.AbstractAsyncContextManager[T],
    address: str,
    advice: str,
) -> T:
    """Open a port until the stack closes. Raises CommandError where that is not possible."""
    try:
        return await stack.enter_async_context(listening)
    except OSError as error:
        raise CommandError(f"cannot listen on {address}: {error.strerror}", advice) from error


@contextlib.asynccontextmanager
async def client_of(target: Target, field_manager: str) -> AsyncIterator[Client]:
    chosen = target.choose()
    async with RestTransport(chosen.connection) as transport:
        yield Client(chosen.announcing(transport), field_manager=field_manager)

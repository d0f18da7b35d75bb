"""`dray down`: stops the `dray up` of a data directory, and its containers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from dray.cli.command_errors import CommandError, DrayCommand, TimedOut
from dray.cli.output import durations
from dray.cli.session import progress, up_instance
from dray.cli.session.up_instance import DEFAULT_DATA, UpInstance
from dray.node.containers import container_attempts
from dray.node.containers.container_attempts import ContainerAttempt

GRACE_SECONDS = 5.0
_LOOK_SECONDS = 0.05


@click.command("down", cls=DrayCommand)
@click.option("--data", default=DEFAULT_DATA, show_default=True, metavar="DIR")
@click.option("--keep-pods", is_flag=True, help="Leave containers running, for the next `dray up`.")
@click.option(
    "--timeout", default="60s", show_default=True, callback=durations.parse, metavar="DURATION"
)
def down(data: str, keep_pods: bool, timeout: float) -> None:
    """Stop the `dray up` of a data directory, and wait until it has stopped.

    The state is kept: the next `dray up` continues with it, and starts the containers of its pods
    again. If nothing is up, the command succeeds.
    """
    directory = Path(data).expanduser()
    running = up_instance.find(directory)
    if running is not None:
        _end(running, directory, timeout, keep_pods)
    stopped = 0 if keep_pods else _stop_containers(directory)
    click.echo(_said(directory, running, stopped))


def _end(running: UpInstance, directory: Path, timeout_seconds: float, keep_pods: bool) -> None:
    with progress.shown(f"Waiting for process {running.pid} to end"):
        try:
            running.end(keep_pods=keep_pods)
        except ProcessLookupError:
            return
        except PermissionError as error:
            message = f"process {running.pid} on {directory} belongs to another user."
            raise CommandError(message, f"Ask its owner, or: sudo kill {running.pid}") from error
        if not running.has_ended(timeout_seconds):
            message = f"dray on {directory} (process {running.pid}) did not stop in time."
            advice = f"Nothing is lost if you force it: kill -9 {running.pid}"
            raise TimedOut(message, advice)


def _said(directory: Path, running: UpInstance | None, stopped: int) -> str:
    what = f"dray is down on {directory}" if running else f"dray is not up on {directory}"
    if not stopped:
        return f"{what}."
    return f"{what}; {stopped} {'container' if stopped == 1 else 'containers'} stopped."


def _stop_containers(directory: Path) -> int:
    """Stop the containers that node agents of this directory left. Returns their number."""
    left = [attempt for attempt in _attempts(directory) if attempt.exit() is None]
    for attempt in left:
        attempt.terminate()
    for attempt in _still_there(left, GRACE_SECONDS):
        attempt.kill()
    _still_there(left, GRACE_SECONDS)
    return len(left)


def _attempts(directory: Path) -> Iterator[ContainerAttempt]:
    for folder in directory.glob("**/pods/*/containers/*"):
        if (attempt := container_attempts.last_attempt(folder)) is not None:
            yield attempt


def _still_there(
    attempts: Iterable[ContainerAttempt], timeout_seconds: float
) -> list[ContainerAttempt]:
    """Wait for containers to end. Returns those that still run at the timeout."""
    left = list(attempts)
    end = time.monotonic() + timeout_seconds
    while left and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        left = [attempt for attempt in left if attempt.exit() is None]
    return left

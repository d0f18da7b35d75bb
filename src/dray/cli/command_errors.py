"""Errors of commands: one sentence with the next step, and the exit codes for scripts.

0  done
1  rejected, or the check failed
2  called with wrong arguments
3  the cluster cannot be reached, or denies access
4  no such object or resource type
5  timed out
6  a check is incomplete: something could not be read
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import IO, Any

import click

from dray.api import errors
from dray.api.features import FeatureError
from dray.client.kubeconfig import KubeconfigError


class CommandError(click.ClickException):
    """Ends a command with an exit code. `advice` is the next step for the user."""

    exit_code = 1

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice

    def show(self, file: IO[Any] | None = None) -> None:
        prefix = click.style("Error:", fg="red", bold=True)
        click.echo(f"{prefix} {self.message}", file=file, err=True)
        if self.advice:
            click.echo(self.advice, file=file, err=True)


class WrongUsage(CommandError):
    exit_code = 2


class Unreachable(CommandError):
    exit_code = 3


class ObjectNotFound(CommandError):
    exit_code = 4


class TimedOut(CommandError):
    exit_code = 5


class DrayCommand(click.Command):
    """A command whose expected errors end it with a sentence instead of a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        with reported():
            return super().invoke(ctx)


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Turn exceptions of the layers below into a CommandError."""
    try:
        yield
    except errors.StatusError as error:
        raise of_status(error) from error
    except KubeconfigError as error:
        raise Unreachable(str(error)) from error
    except JsonPathError as error:
        raise WrongUsage(f"jsonpath: {error}") from error
    except FeatureError as error:
        raise WrongUsage(str(error)) from error
    except BaseExceptionGroup as group:
        _raise_first(group)


def _raise_first(group: BaseExceptionGroup) -> None:
    """Raise the first of the errors of several tasks."""
    first = group.exceptions[0]
    with reported():
        raise first


def of_status(error: errors.StatusError) -> CommandError:
    """Return a status error of the server as a CommandError with the server's message."""
    if isinstance(error, errors.ServiceUnavailable):
        advice = "Is it running? Another cluster is chosen with --kubeconfig or --context."
        return Unreachable(str(error), advice)
    if isinstance(error, errors.Unauthorized):
        advice = "The credentials of this context are not accepted (any more)."
        return Unreachable(f"not logged in: {error}", advice)
    if isinstance(error, errors.Forbidden):
        return CommandError(f"not allowed: {error}")
    if isinstance(error, errors.NotFound):
        return ObjectNotFound(str(error))
    if isinstance(error, errors.Timeout):
        return TimedOut(str(error))
    return CommandError(str(error))


class JsonPathError(ValueError):
    """A template cannot be parsed, or a path does not fit the data."""

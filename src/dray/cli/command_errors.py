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
import re
from collections.abc import Iterator
from typing import IO, Any

import click

from dray.api import errors
from dray.api.features import FeatureError
from dray.cli import examples, kubectl_options, printed_commands
from dray.client.kubeconfig import KubeconfigError


class CommandError(click.ClickException):
    """Ends a command with an exit code. `advice` is the next step for the user.

    Commands in it get the options that chose the cluster of this one.
    """

    exit_code = 1

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = printed_commands.for_same_cluster(advice)

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
    """A command whose expected errors end it with a sentence instead of a traceback.

    Its options can be written as kubectl's: `--wait=false`, `-o=json`. Those that only kubectl has
    are refused with that advice.
    """

    def __init__(self, name: str | None, **settings: Any) -> None:
        context = {"help_option_names": ["-h", "--help"], **(settings.pop("context_settings", {}))}
        super().__init__(name, context_settings=context, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            params = self.get_params(ctx)
            given = [*_given_before(ctx, params), *_as_click_reads(args, params)]
            return super().parse_args(ctx, given)
        except click.NoSuchOption as error:
            if kubectl_options.is_of_kubectl(self.name or "", error.option_name):
                raise _left_to_kubectl(f"{self.name} {error.option_name}") from error
            _raise_hint(self.name or "", args, error)
            raise
        except click.UsageError as error:
            _raise_hint(self.name or "", args, error)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        with reported():
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if shown := examples.of_command(ctx.command_path, self.name or ""):
            with formatter.section("Examples"):
                for line in shown:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _raise_hint(command: str, args: list[str], error: click.UsageError) -> None:
    """Raise WrongUsage with what to type instead, if that is known."""
    # Late: most command lines can be parsed.
    from dray.cli import usage_hints

    if hint := usage_hints.of(command, args):
        raise WrongUsage(hint.message, hint.advice) from error


def _left_to_kubectl(words: str) -> WrongUsage:
    return WrongUsage(f"dray has no `{words}`; kubectl has.", f"Use: kubectl {words} …")


def _as_click_reads(args: list[str], params: list[click.Parameter]) -> list[str]:
    """Return arguments such as `--wait=false` and `-o=json` in the form that click reads."""
    options = {name: param for param in params for name in (*param.opts, *param.secondary_opts)}
    end = args.index("--") if "--" in args else len(args)
    result: list[str] = []
    for argument in args[:end]:
        name, equals, value = argument.partition("=")
        option = options.get(name) if equals and name.startswith("-") else None
        if isinstance(option, click.Option) and option.is_bool_flag:
            result += _flag(option, name, value)
        elif option is not None and len(name) == 2:
            result.append(name + value)
        else:
            result.append(argument)
    return result + args[end:]


def _flag(option: click.Option, name: str, value: str) -> list[str]:
    """Return the flag that `NAME=VALUE` means; none if that is what it is without a flag."""
    is_set: bool = click.BOOL.convert(value, option, None)
    if is_set:
        return [name]
    opposite = option.opts if name in option.secondary_opts else option.secondary_opts
    if not opposite and option.default is True:
        raise WrongUsage(f"{name}={value} is not possible; kubectl can.")
    return opposite[:1]


def _given_before(ctx: click.Context, params: list[click.Parameter]) -> Iterator[str]:
    """Yield the options before the command, such as --context. Raises WrongUsage for unknown ones.

    They come first, so that the same option behind the command wins.
    """
    root = ctx.find_root()
    if root is ctx:
        return
    own = {param.name for param in params}
    for param in root.command.params:
        name = param.name or ""
        if not root.params.get(name):
            continue
        if name in own:
            yield f"{param.opts[0]}={root.params[name]}"
        elif root.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise WrongUsage(f"{ctx.command_path} has no {param.opts[0]}.")


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
        return ObjectNotFound(str(error), _what_there_is(str(error)))
    if isinstance(error, errors.Timeout):
        return TimedOut(str(error))
    return CommandError(str(error))


def _what_there_is(message: str) -> str:
    """Return the command that lists the objects of the kind that a message misses, or ""."""
    found = re.fullmatch(r'([a-z][\w.-]*) "[^"]+" not found', message)
    if found is None:
        return ""
    context = click.get_current_context(silent=True)
    namespace = context.params.get("namespace") if context else ""
    where = f" -n {namespace}" if namespace else ""
    return f"See what there is: dray get {found[1]}{where}"


class JsonPathError(ValueError):
    """A template cannot be parsed, or a path does not fit the data."""

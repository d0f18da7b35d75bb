"""`dray logs`: what containers print."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import click

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.http_messages import Request
from dray.cli import lazy_group
from dray.cli.command_errors import DrayCommand, ObjectNotFound, WrongUsage
from dray.cli.output import durations
from dray.cli.session import connection
from dray.cli.session.connection import Session, Target
from dray.cli.verbs import listing, pod_targets
from dray.client import api_client
from dray.client.api_client import ObjectSelection

SELECTED_TAIL = 10
"""Lines of each container if pods are selected by labels, as in kubectl."""


class LogRequest(NamedTuple):
    """The containers whose logs to print, and how."""

    pod: str
    container: str
    selector: str
    all_containers: bool
    all_pods: bool
    prefix: bool
    ignore_errors: bool
    max_log_requests: int
    query: dict[str, str]

    @property
    def follows(self) -> bool:
        return bool(self.query["follow"])


class Stream(NamedTuple):
    """The log of one container."""

    pod: str
    container: str


@click.command("logs", cls=DrayCommand)
@click.argument("pod", default="", shell_complete=lazy_group.completer("pods"))
@click.argument("container_name", default="", shell_complete=lazy_group.completer("containers"))
@connection.options
@click.option("--container", "-c", default="", help="Which container, where there are several.")
@click.option("--selector", "-l", default="", help="Of the pods with these labels.")
@click.option("--all-containers", is_flag=True, help="Of every container of the pods.")
@click.option("--all-pods", is_flag=True, help="Of every pod of TYPE/NAME; implies --prefix.")
@click.option("--prefix", is_flag=True, help="Begin lines with pod and container.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what is printed.")
@click.option("--previous", "-p", is_flag=True, help="Of the run before the last restart.")
@click.option("--tail", type=int, help="Only the last lines; -1 for all.")
@click.option("--since", default="", metavar="DURATION", help="Only the last 5s, 2m or 3h.")
@click.option("--since-time", default="", metavar="TIME", help="Only after 2026-01-02T03:04:05Z.")
@click.option("--timestamps", is_flag=True, help="Begin lines with their time.")
@click.option("--limit-bytes", type=click.IntRange(0), default=0, help="The most bytes to print.")
@click.option("--ignore-errors", is_flag=True, help="Go on if the log of one container fails.")
@click.option("--max-log-requests", default=5, show_default=True, help="Logs to follow at once.")
def logs(target: Target, pod: str, container_name: str, container: str, **how: Any) -> None:
    """Print the logs of a pod, of TYPE/NAME such as job/train, or of pods with labels (-l)."""
    if bool(pod) == bool(how["selector"]):
        raise WrongUsage("write POD, TYPE/NAME or -l LABELS", "Such as: dray logs job/train")
    if how["all_containers"] and (container or container_name):
        raise WrongUsage("--all-containers and a container cannot both be given")
    if container and container_name:
        raise WrongUsage("only one container can be given")
    if container_name and kinds.by_name(pod):
        # `logs pod train` would look for container train of a pod with the name "pod".
        raise WrongUsage(
            f"{pod} is a type, not the name of a pod", f"Write: dray logs {pod}/{container_name}"
        )
    request = LogRequest(
        pod,
        container or container_name,
        how["selector"],
        how["all_containers"],
        how["all_pods"],
        how["prefix"] or how["all_pods"],
        how["ignore_errors"],
        how["max_log_requests"],
        _query(**how),
    )
    connection.run(target, lambda session: _print_all(session, request))


def _query(
    *,
    follow: bool,
    previous: bool,
    timestamps: bool,
    tail: int | None,
    since: str,
    since_time: str,
    limit_bytes: int,
    selector: str,
    **_: Any,
) -> dict[str, str]:
    if since and since_time:
        raise WrongUsage("--since and --since-time cannot both be given")
    if tail is None:
        tail = SELECTED_TAIL if selector and not follow else -1
    if tail < -1:
        raise WrongUsage(f"--tail {tail}: write a number of lines, or -1 for all")
    return {
        "follow": "true" if follow else "",
        "previous": "true" if previous else "",
        "timestamps": "true" if timestamps else "",
        "tailLines": str(tail) if tail >= 0 else "",
        "sinceSeconds": _since_seconds(since),
        "sinceTime": _since_time(since_time),
        "limitBytes": str(limit_bytes) if limit_bytes else "",
    }


def _since_seconds(text: str) -> str:
    if not text:
        return ""
    try:
        seconds = durations.seconds(text)
    except ValueError as error:
        raise WrongUsage(f"--since {text}: write 5s, 2m or 3h") from error
    return str(max(1, round(seconds))) if seconds else ""


def _since_time(text: str) -> str:
    if text:
        try:
            gotime.parse(text)
        except ValueError as error:
            raise WrongUsage(f"--since-time {text}: write 2026-01-02T03:04:05Z") from error
    return text


async def _print_all(session: Session, request: LogRequest) -> None:
    streams = await _streams(session, request)
    if not request.follows or len(streams) == 1:
        for stream in streams:
            await _print(session, stream, request)
        return
    if len(streams) > request.max_log_requests:
        raise WrongUsage(
            f"{len(streams)} logs cannot be followed at once, only {request.max_log_requests}",
            "Raise the limit with --max-log-requests.",
        )
    async with asyncio.TaskGroup() as tasks:
        for stream in streams:
            tasks.create_task(_print(session, stream, request))


async def _streams(session: Session, request: LogRequest) -> list[Stream]:
    if request.selector:
        selection = ObjectSelection(session.namespace, request.selector)
        pods = await listing.listed(session, kinds.POD, selection)
        if not pods:
            raise ObjectNotFound(
                f"no pod in {session.namespace} has the labels {request.selector}",
                f"See: dray get pods -n {session.namespace} --show-labels",
            )
    elif request.all_pods:
        pods = await pod_targets.named(session, request.pod)
    else:
        pods = [await pod_targets.first(session, request.pod)]
    return [
        Stream(str(pod["metadata"]["name"]), container)
        for pod in pods
        for container in (
            pod_targets.container_names(pod)
            if request.all_containers
            else [pod_targets.chosen_container(pod, request.container, prints=not request.all_pods)]
        )
    ]


async def _print(session: Session, stream: Stream, request: LogRequest) -> None:
    try:
        async for chunk in _chunks(session, stream, request):
            click.echo(chunk, nl=False)
            sys.stdout.flush()
    except errors.StatusError as error:
        if not request.ignore_errors:
            raise
        click.echo(f"error: {error}", err=True)


async def _chunks(session: Session, stream: Stream, request: LogRequest) -> AsyncIterator[bytes]:
    """Yield the log; whole lines with their prefix if it has one."""
    path = api_client.object_path(kinds.POD, stream.pod, session.namespace, "log")
    query = {"container": stream.container, **request.query}
    pairs = tuple((key, value) for key, value in query.items() if value)
    response = await session.client.send(Request("GET", path, pairs, {"accept": "*/*"}))
    body = response.stream or _once(response.body)
    if not request.prefix and not (request.follows and request.all_containers):
        async for chunk in body:
            yield chunk
        return
    start = f"[pod/{stream.pod}/{stream.container}] ".encode() if request.prefix else b""
    async for line in _lines(body):
        yield start + line


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest

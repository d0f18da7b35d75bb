"""`dray logs`: what a container prints."""

from __future__ import annotations

import sys

import click

from dray.api import kinds
from dray.api.http_messages import Request
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.output import durations
from dray.cli.session import connection
from dray.cli.session.connection import Session, Target
from dray.client import api_client


@click.command("logs", cls=DrayCommand)
@click.argument("pod")
@click.argument("container_name", default="")
@connection.options
@click.option("--container", "-c", default="", help="Which container, where there are several.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what is printed.")
@click.option("--previous", "-p", is_flag=True, help="Of the run before the last restart.")
@click.option("--tail", type=int, default=-1, help="Only the last lines.")
@click.option("--since", default="", metavar="DURATION", help="Only the last 5s, 2m or 3h.")
@click.option("--timestamps", is_flag=True, help="Begin lines with their time.")
def logs(
    target: Target,
    pod: str,
    container_name: str,
    container: str,
    follow: bool,
    previous: bool,
    tail: int,
    since: str,
    timestamps: bool,
) -> None:
    """Print the log of a pod: NAME or pod/NAME."""
    name = pod_name(pod)
    query = {
        "container": container or container_name,
        "follow": "true" if follow else "",
        "previous": "true" if previous else "",
        "timestamps": "true" if timestamps else "",
        "tailLines": str(tail) if tail >= 0 else "",
        "sinceSeconds": _since_seconds(since),
    }
    connection.run(target, lambda session: _print(session, name, query))


def pod_name(text: str) -> str:
    """Return the name in NAME or pod/NAME."""
    kind, _, name = text.rpartition("/")
    if kind not in ("", "pod", "pods", "po"):
        raise WrongUsage(f"{text}: that is no pod; write pod/NAME")
    return name


def _since_seconds(text: str) -> str:
    if not text:
        return ""
    try:
        return str(max(1, round(durations.seconds(text))))
    except ValueError as error:
        raise WrongUsage(f"--since {text}: write 5s, 2m or 3h") from error


async def _print(session: Session, name: str, query: dict[str, str]) -> None:
    path = api_client.object_path(kinds.POD, name, session.namespace, "log")
    pairs = tuple((key, value) for key, value in query.items() if value)
    response = await session.client.send(Request("GET", path, pairs, {"accept": "*/*"}))
    if response.stream is None:
        click.echo(response.body, nl=False)
        return
    async for chunk in response.stream:
        click.echo(chunk, nl=False)
        sys.stdout.flush()

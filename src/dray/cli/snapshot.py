"""`dray snapshot`: what matters to allocation of a real cluster, in a file to take away.

Secrets and events are never read; `privacy` says what stays behind of the rest.
"""

from __future__ import annotations

from typing import Any

import click

from dray.api import errors
from dray.api.core import CoreEvent
from dray.cli import connection, privacy, progress, serverversion
from dray.cli.connection import Session, Target
from dray.cli.failures import Command
from dray.cli.printing import jsontext
from dray.cli.verbs import listing
from dray.cli.world import READ, VERSION_ANNOTATION
from dray.client.verbs import Selection

Object = dict[str, Any]


@click.command("snapshot", cls=Command)
@connection.options
@click.option("--anonymise", is_flag=True, help="Other names for everything that has one.")
def snapshot(target: Target, anonymise: bool) -> None:
    """Print nodes, slices, classes, claims and pods as one JSON document.

    Every command with --against reads it: dray snapshot > fleet.json
    """
    everywhere = Target(target.kubeconfig, target.context, target.namespace, all_namespaces=True)
    with progress.shown("Reading the cluster"):
        found, version, unread = connection.run(everywhere, _collect)
    found = [privacy.without_private(each) for each in found]
    if anonymise:
        found = privacy.anonymised(found)
    metadata = {"annotations": {VERSION_ANNOTATION: version}}
    document = {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": found}
    click.echo(jsontext.write(document, indent=1))
    for refusal in unread:
        click.echo(f"Left out: {refusal}", err=True)


async def _collect(session: Session) -> tuple[list[Object], str, list[str]]:
    version = await serverversion.ask(session.client)
    found: list[Object] = []
    unread: list[str] = []
    for kind in await session.resources.preferred():
        if READ.get((kind.group, kind.kind), CoreEvent) is not CoreEvent:
            try:
                found += await listing.listed(session, kind, Selection())
            except errors.Forbidden as error:
                unread.append(str(error))
    return found, version.minor, unread

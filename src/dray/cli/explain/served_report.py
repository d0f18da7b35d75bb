"""The answer of `dray explain` from a cluster of dray that knows it: nothing else is read."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

import dray
from dray.api import kinds
from dray.api.http_messages import JSON, Request
from dray.cli import printed_commands
from dray.cli.explain import styled_lines
from dray.cli.explain.names import ObjectName
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, progress
from dray.cli.session.connection import Session, Target
from dray.explain import report
from dray.explain.report import Report, ReportForm


def of(target: Target, names: Sequence[ObjectName], format: OutputFormat) -> Report | None:
    """Return what the server says of one pod or claim; None if it does not explain it."""
    if len(names) != 1 or names[0].kind not in (kinds.POD, kinds.RESOURCE_CLAIM):
        return None
    (named,) = names
    form = ReportForm.DATA
    if format.is_table:
        form = ReportForm.WIDE if styled_lines.has_bars(is_wide=format.is_wide) else ReportForm.TEXT

    async def asked(session: Session) -> Report | None:
        query = {
            "kind": named.kind.kind,
            "namespace": session.namespace,
            "name": named.name,
            "form": str(form),
            "version": dray.__version__,
        }
        request = Request("GET", report.PATH, tuple(query.items()), {"accept": JSON})
        response = await session.client.raw(request)
        if response.status != 200:
            # Why not is found out by reading: the rights, a name, or a server of another kind.
            return None
        try:
            return msgspec.json.decode(response.body, type=Report)
        except msgspec.DecodeError:
            return None

    with progress.shown("Asking the cluster"):
        return connection.run(target, asked)


def show(found: Report, target: Target, format: OutputFormat) -> None:
    """Print an answer."""
    if not format.is_table:
        formats.show_document(found.document, format)
        return
    options = printed_commands.options(target.kubeconfig, target.context)
    for line in filter(None, styled_lines.styled(found.text, options)):
        styled_lines.echo(line)

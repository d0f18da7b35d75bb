"""Reads the files of a trace: openb's CSV files, or a scenario of dray."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from dray.allocator.scenarios import Scenario
from dray.cli.command_errors import CommandError, WrongUsage
from dray.planner.traces import openb, scenario_files
from dray.planner.traces.errors import TraceError
from dray.planner.traces.openb import Trace

_GZIP = b"\x1f\x8b"
_LIMIT = 1 << 30
"""The largest file to read, unpacked."""


def read(path: Path, nodes: Path | None) -> Trace | Scenario:
    """Read a trace: a list of pods with its list of nodes, or a scenario."""
    data = _content(path)
    try:
        if data.lstrip()[:1] == b"{":
            if nodes is not None:
                raise WrongUsage(f"{path} is a scenario and has nodes already; leave out --nodes.")
            return scenario_files.read(data, str(path))
        pods = openb.read_pods(_text(data, path), str(path))
        list_of_nodes = nodes or _beside(path)
        read_nodes = openb.read_nodes(
            _text(_content(list_of_nodes), list_of_nodes), str(list_of_nodes)
        )
    except TraceError as error:
        raise CommandError(str(error)) from error
    return Trace(read_nodes, pods)


def _beside(path: Path) -> Path:
    """Return the list of nodes in the folder of a list of pods."""
    found = sorted(path.absolute().parent.glob("*node_list*.csv*"))
    if len(found) == 1:
        return found[0]
    what = "several lists of nodes beside it" if found else "no list of nodes beside it"
    raise WrongUsage(f"{path} is a list of pods, with {what}.", "Name one with --nodes FILE.")


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == _GZIP
            file.seek(0)
            source = gzip.GzipFile(fileobj=file) if is_packed else file
            data = source.read(_LIMIT + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    if len(data) > _LIMIT:
        raise CommandError(f"{path} has more than {_LIMIT >> 30} GiB.")
    return data


def _text(data: bytes, path: Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise TraceError(str(path), line, column, "this is no UTF-8 text") from error

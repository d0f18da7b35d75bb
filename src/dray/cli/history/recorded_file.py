"""Finds the record of the cluster that is meant: the file of its `dray up`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dray.cli.session import cluster_choice, up_instance
from dray.cli.session.connection import Target
from dray.client import kubeconfig as kubeconfigs
from dray.client.kubeconfig import KubeconfigError

__all__ = [
    "find",
]


def find(target: Target) -> Path | None:
    """Return the file that was recorded by the `dray up` of the chosen cluster, or None.

    It need not run: its history can be read when its cluster cannot.
    """
    try:
        server = target.connect().server
    except KubeconfigError:
        # Without any cluster, the one that is stopped is meant.
        if target.kubeconfig or target.context or os.environ.get("KUBECONFIG"):
            raise
        server = ""
    for directory in _directories(target):
        if server in ("", _server(directory)):
            found = _recorded(directory)
            if found is not None:
                return found
    return None


def _directories(target: Target) -> Iterator[Path]:
    """Yield the data directories that the chosen cluster may have."""
    files = target.kubeconfig or os.environ.get("KUBECONFIG", "")
    for file in filter(None, files.split(os.pathsep)):
        yield Path(file).expanduser().parent
    yield cluster_choice.data_directory()


def _server(directory: Path) -> str:
    try:
        return kubeconfigs.load(directory / "kubeconfig").server
    except (KubeconfigError, OSError):
        return ""


def _recorded(directory: Path) -> Path | None:
    try:
        running = up_instance.find(directory)
    except OSError:
        running = None
    if running is not None and running.url:
        # Where it does not record, an older file knows nothing about now.
        path = Path(running.history) if running.history else None
    else:
        path = directory / up_instance.HISTORY
    return path if path is not None and path.is_file() else None

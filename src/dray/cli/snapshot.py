"""`dray snapshot`: what matters to allocation of a real cluster, in a file to take away.

Secrets are never read. Of pods, commands, environments and volumes stay behind; of all objects,
annotations that carry the applied manifest and the record of who manages which field.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

import click

from dray.api import errors, kinds
from dray.cli import connection, jsontext, progress, serverversion
from dray.cli.connection import Session, Target
from dray.cli.failures import Command
from dray.cli.verbs import listing
from dray.cli.world import READ
from dray.client.verbs import Selection

Object = dict[str, Any]

VERSION_ANNOTATION = "dray.dev/server-version"
_LEFT_OUT_OF_CONTAINERS = ("args", "command", "env", "envFrom", "lifecycle", "volumeMounts")
_UNIQUE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


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
    found = [without_private(each) for each in found]
    if anonymise:
        found = anonymised(found)
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
        if (kind.group, kind.kind) in READ:
            try:
                found += await listing.listed(session, kind, Selection())
            except errors.Forbidden as error:
                unread.append(str(error))
    return found, version.minor, unread


def without_private(document: Object) -> Object:
    """A copy without what is nobody else's business."""
    kept = copy.deepcopy(document)
    metadata = kept.get("metadata") or {}
    for name in ("managedFields", "annotations"):
        metadata.pop(name, None)
    if document.get("kind") == "Pod":
        spec = kept.get("spec") or {}
        spec.pop("volumes", None)
        for field in ("containers", "initContainers", "ephemeralContainers"):
            for container in spec.get(field) or ():
                for name in _LEFT_OUT_OF_CONTAINERS:
                    container.pop(name, None)
    return kept


def anonymised(documents: Iterable[Object]) -> list[Object]:
    """The documents with names replaced, the same name by the same one everywhere."""
    known = list(documents)
    names = _Names()
    for document in known:
        names.learn(document)
    return [names.applied(document) for document in known]


class _Names:
    """New names for old ones."""

    def __init__(self) -> None:
        self._new: dict[str, str] = {}
        self._numbers: dict[str, Iterator[int]] = {}

    def learn(self, document: Object) -> None:
        metadata = document.get("metadata") or {}
        kind = kinds.by_kind(*_group_and_kind(document))
        keeps_name = document.get("kind") == "DeviceClass"
        if kind is not None and not keeps_name:
            self._name(kind.singular, metadata.get("name"))
            self._name(kind.singular, metadata.get("generateName"))
        self._name("namespace", metadata.get("namespace"))
        pool = ((document.get("spec") or {}).get("pool") or {}).get("name")
        self._name("pool", pool)

    def _name(self, word: str, old: Any) -> None:
        if isinstance(old, str) and old and old not in self._new:
            numbers = self._numbers.setdefault(word, itertools.count(1))
            self._new[old] = f"{word}-{next(numbers)}"

    def applied(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.applied(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.applied(each) for each in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        if text in self._new:
            return self._new[text]
        return _UNIQUE.sub(self._unique, text)

    def _unique(self, match: re.Match[str]) -> str:
        self._name("id", match[0])
        return self._new[match[0]]


def _group_and_kind(document: Object) -> tuple[str, str]:
    group, _ = kinds.parse_api_version(str(document.get("apiVersion", "")))
    return group, str(document.get("kind", ""))

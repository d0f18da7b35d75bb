"""Objects as documents with all their fields, from files or from the cluster."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dray.api import errors, kinds
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli.explain.names import POD_SPECS, WORKLOADS
from dray.cli.inputs import cluster_objects, manifests
from dray.cli.session import connection
from dray.cli.session.connection import Target

DEFAULT_NAMESPACE = "default"


class Documents:
    """Finds documents: in the files of a command, in those of --against, or in the cluster."""

    def __init__(self, target: Target, against: str, files: Sequence[JsonObject]) -> None:
        self._files = list(files)
        cluster = cluster_objects.cluster_of(against, target)
        self.is_live = cluster is not None
        """Whether objects come from a cluster that commands can be run against."""
        self.options = cluster_objects.command_options(against, target)
        """The options with which other commands go to the same cluster."""
        self._target = cluster or target
        self._against = against if against and Path(against).exists() else ""

    def find(self, kind: Kind, name: str, namespace: str) -> JsonObject | None:
        """Return one object, or None if it does not exist."""
        if self._against:
            read = manifests.read([self._against], recursive=True)
            self._files += [manifest.document for manifest in read]
            self._against = ""
        for document in self._files:
            if document.get("kind") == kind.kind and _names(document, kind) == (namespace, name):
                return document
        return self._read(kind, name, namespace) if self.is_live else None

    def add(self, document: JsonObject) -> None:
        """Take an object that a fix creates, so that it is found too."""
        self._files.append(document)

    def _read(self, kind: Kind, name: str, namespace: str) -> JsonObject | None:
        namespace = namespace if kind.namespaced else ""
        try:
            found = connection.run(
                self._target, lambda session: session.client.get(kind, name, namespace)
            )
        except errors.NotFound:
            return None
        return {**kind.type_meta, **found}


def _names(document: JsonObject, kind: Kind) -> tuple[str, str]:
    metadata = document.get("metadata") or {}
    namespace = metadata.get("namespace") or DEFAULT_NAMESPACE
    return namespace, str(metadata.get("name", ""))


def pod_spec(document: JsonObject) -> JsonObject:
    """Return the spec of the pods of an object; empty if it has none."""
    value: Any = document
    for step in POD_SPECS.get(str(document.get("kind")), ("none",)):
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def pods_in(documents: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield a pod for each workload, with the name of the workload."""
    for document in documents:
        if document.get("kind") in WORKLOADS:
            metadata = dict(document.get("metadata") or {})
            kept = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
            yield {
                **kinds.POD.type_meta,
                "metadata": kept,
                "spec": copy.deepcopy(pod_spec(document)),
            }

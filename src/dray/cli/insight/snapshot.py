"""`dray snapshot`: writes the objects that allocation depends on, if requested without names."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from dray.api import errors, kinds
from dray.api.formats import serialization
from dray.api.types.core import CoreEvent
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import DrayCommand
from dray.cli.inputs.cluster_objects import READ, VERSION_ANNOTATION
from dray.cli.session import connection, progress
from dray.cli.session.connection import Session, Target
from dray.cli.verbs import listing
from dray.client import discovery
from dray.client.api_client import ObjectSelection

_POD_SPEC = frozenset(
    [
        "affinity",
        "containers",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "overhead",
        "priority",
        "resourceClaims",
        "resources",
        "restartPolicy",
        "schedulerName",
        "schedulingGates",
        "schedulingGroup",
        "tolerations",
        "topologySpreadConstraints",
    ]
)
_POD_STATUS = frozenset(
    [
        "conditions",
        "containerStatuses",
        "extendedResourceClaimStatus",
        "initContainerStatuses",
        "phase",
        "qosClass",
        "reason",
        "resourceClaimStatuses",
        "startTime",
    ]
)
_TEMPLATE_SPEC = (_POD_SPEC | {"priorityClassName", "runtimeClassName"}) - {"nodeName", "priority"}
_STATEFUL_SET = frozenset(["ordinals", "podManagementPolicy", "replicas", "template"])
_CONTAINER = frozenset(["name", "resources", "restartPolicy"])
_CONTAINER_STATUS = frozenset(["lastState", "name", "ready", "restartCount", "started", "state"])
_NODE_STATUS = frozenset(["allocatable", "capacity", "conditions", "declaredFeatures"])
_METADATA_LEFT_OUT = ("managedFields", "annotations")
_UNIQUE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_LABELS_MATTER = frozenset(("Node", "DeviceClass", "ResourceSlice"))


def without_private(document: JsonObject) -> JsonObject:
    """Return a copy without private data."""
    kept = copy.deepcopy(document)
    metadata = kept.get("metadata") or {}
    for name in _METADATA_LEFT_OUT:
        metadata.pop(name, None)
    if document.get("kind") == "Pod":
        _reduce_pod(kept)
    elif document.get("kind") == "StatefulSet":
        _reduce_stateful_set(kept)
    elif document.get("kind") == "Node":
        _keep(kept.get("status"), _NODE_STATUS)
        (kept.get("spec") or {}).pop("providerID", None)
    return kept


def _reduce_pod(pod: JsonObject) -> None:
    _reduce_pod_spec(pod.get("spec") or {}, _POD_SPEC)
    status = pod.get("status") or {}
    _keep(status, _POD_STATUS)
    for field in ("initContainerStatuses", "containerStatuses"):
        for status_entry in status.get(field) or ():
            _keep(status_entry, _CONTAINER_STATUS)
            for state in (status_entry.get("state") or {}, status_entry.get("lastState") or {}):
                for details in state.values():
                    # What a container wrote as its last words, or ran under.
                    details.pop("message", None)
                    details.pop("containerID", None)


def _reduce_stateful_set(stateful_set: JsonObject) -> None:
    """Keep what decides which pods it makes next."""
    stateful_set.pop("status", None)
    spec = stateful_set.get("spec") or {}
    _keep(spec, _STATEFUL_SET)
    template = spec.get("template") or {}
    for name in _METADATA_LEFT_OUT:
        (template.get("metadata") or {}).pop(name, None)
    _reduce_pod_spec(template.get("spec") or {}, _TEMPLATE_SPEC)


def _reduce_pod_spec(spec: JsonObject, fields: Iterable[str]) -> None:
    _keep(spec, fields)
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        _keep(container, _CONTAINER)


def _keep(value: JsonObject | None, names: Iterable[str]) -> None:
    for name in (value or {}).keys() - set(names):
        assert value is not None
        del value[name]


def anonymised(documents: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the documents with names replaced, equal names by equal ones."""
    # Without their names, pods cannot be told to be the first or second of a StatefulSet.
    kept = (document for document in documents if document.get("kind") != "StatefulSet")
    reduced = [_without_words(document) for document in kept]
    names = _Names()
    for document in reduced:
        names.learn(document)
    return [names.applied(document) for document in reduced]


def _without_words(document: JsonObject) -> JsonObject:
    """Remove free text: unselected labels, messages, parameters of drivers."""
    kept: JsonObject = _without_keys(document, frozenset({"message", "parameters"}))
    if document.get("kind") not in _LABELS_MATTER:
        (kept.get("metadata") or {}).pop("labels", None)
    return kept


def _without_keys(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {k: _without_keys(item, names) for k, item in value.items() if k not in names}
    if isinstance(value, list):
        return [_without_keys(item, names) for item in value]
    return value


class _Names:
    """A mapping from names to new names."""

    def __init__(self) -> None:
        self._new: dict[str, str] = {}
        self._numbers: dict[str, Iterator[int]] = {}

    def learn(self, document: JsonObject) -> None:
        metadata = document.get("metadata") or {}
        kind = kinds.by_kind(*_group_and_kind(document))
        keeps_name = document.get("kind") == "DeviceClass"
        if kind is not None and not keeps_name:
            self._name(kind.singular, metadata.get("name"))
            self._name(kind.singular, metadata.get("generateName"))
        self._name("namespace", metadata.get("namespace"))
        for owner in metadata.get("ownerReferences") or ():
            self._name("owner", owner.get("name"))
        pool = ((document.get("spec") or {}).get("pool") or {}).get("name")
        self._name("pool", pool)

    def _name(self, word: str, old: Any) -> None:
        if isinstance(old, str) and old and old not in self._new:
            numbers = self._numbers.setdefault(word, itertools.count(1))
            self._new[old] = f"{word}-{next(numbers)}"

    def applied(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self.applied(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.applied(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        if text in self._new:
            return self._new[text]
        return _UNIQUE.sub(self._unique, text)

    def _unique(self, match: re.Match[str]) -> str:
        self._name("id", match[0])
        return self._new[match[0]]


def _group_and_kind(document: JsonObject) -> tuple[str, str]:
    group, _ = kinds.parse_api_version(str(document.get("apiVersion", "")))
    return group, str(document.get("kind", ""))


@click.command("snapshot", cls=DrayCommand)
@connection.options_of_cluster
@click.option("--anonymise", is_flag=True, help="Replace all names.")
def snapshot(target: Target, anonymise: bool) -> None:
    """Print nodes, slices, classes, claims and pods as one JSON document.

    Every command with --against reads it: dray snapshot > fleet.json
    """
    everywhere = dataclasses.replace(target, all_namespaces=True)
    with progress.shown("Reading the cluster"):
        documents, version, unread = connection.run(everywhere, _collect)
    documents = [without_private(item) for item in documents]
    if anonymise:
        documents = anonymised(documents)
    metadata = {"annotations": {VERSION_ANNOTATION: version}}
    document = {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": documents}
    click.echo(serialization.write_json(document, indent=1))
    for message in unread:
        click.echo(f"Left out: {message}", err=True)


async def _collect(session: Session) -> tuple[list[JsonObject], str, list[str]]:
    version = await discovery.version_of(session.client)
    documents: list[JsonObject] = []
    unread: list[str] = []
    for kind in await session.resources.preferred():
        if READ.get((kind.group, kind.kind), CoreEvent) is not CoreEvent:
            try:
                documents += await listing.listed(session, kind, ObjectSelection())
            except errors.Forbidden as error:
                unread.append(str(error))
    return documents, version.minor, unread

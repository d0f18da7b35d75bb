"""The objects that commands evaluate: of a cluster, files, a snapshot or a simulated fleet."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import difflib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api import errors, kinds
from dray.api import features as gates
from dray.api.conversion import typed_objects
from dray.api.features import Features
from dray.api.ids import PoolId
from dray.api.kinds import Kind
from dray.api.semantics import pools
from dray.api.templates.workload_types import StatefulSet
from dray.api.types import dra
from dray.api.types.core import (
    CoreEvent,
    LimitRange,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
)
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod, RuntimeClass
from dray.api.types.workloads import PodGroup
from dray.cli import printed_commands
from dray.cli.command_errors import CommandError, WrongUsage
from dray.cli.inputs import manifests
from dray.cli.inputs.against_option import option as option
from dray.cli.session import connection, progress
from dray.cli.session.connection import Session, Target
from dray.client import discovery
from dray.client.api_client import EVERYTHING, ListPage, ObjectSelection
from dray.client.kubeconfig import KubeconfigError
from dray.explain.pod import pod_context
from dray.planner import cluster_model

if TYPE_CHECKING:
    from dray.drivers.simulated.fleet import Fleet

T = TypeVar("T")

VERSION_ANNOTATION = "dray.dev/server-version"
"""Annotation of a snapshot: the Kubernetes version of its server."""
PAGE_ITEMS = 500
"""The page size of kubectl."""

READ: Mapping[tuple[str, str], type[Any]] = {**cluster_model.TYPES, ("", "Event"): CoreEvent}
"""Types by group and kind; objects of other kinds are skipped."""
ONLY_PLANNED = frozenset(
    {LimitRange, Namespace, PodDisruptionBudget, PodGroup, PriorityClass, RuntimeClass, StatefulSet}
)
"""Types that plans need, and explanations do not."""
EXPLAINED = frozenset(READ.values()) - ONLY_PLANNED
_ONLY_OF_SERVERS = frozenset({Node, dra.ResourceSlice})
_NUMEROUS = _ONLY_OF_SERVERS | {Pod, dra.ResourceClaim}


@dataclass(slots=True)
class ClusterObjects:
    """Objects by type, and the kinds that could not be read."""

    source: str
    objects: dict[type[Any], list[Any]] = field(default_factory=dict)
    stated: Features | None = None
    """The feature gates that the cluster or file states, or None."""
    unread: dict[str, str] = field(default_factory=dict)
    """Kinds that could not be read, with the server's message."""
    partly_read: dict[str, str] = field(default_factory=dict)
    """Kinds that could be read in one namespace only, with the server's message."""
    served: Mapping[tuple[str, str], Sequence[str]] | None = None
    """The versions of each group and kind that a server has, or None without a server."""

    @property
    def features(self) -> Features:
        return self.stated or gates.DEFAULT

    def of(self, type_: type[T]) -> list[T]:
        return self.objects.get(type_, [])

    def add(self, value: Any) -> None:
        self.objects.setdefault(type(value), []).append(value)

    def merged(self, other: ClusterObjects) -> ClusterObjects:
        """Return the objects of both; those of `other` come last."""
        unread = {**self.unread, **other.unread}
        partly_read = {**self.partly_read, **other.partly_read}
        stated, served = self.stated or other.stated, self.served or other.served
        both = ClusterObjects(self.source, {}, stated, unread, partly_read, served)
        for source in (self, other):
            for type_, values in source.objects.items():
                both.objects.setdefault(type_, []).extend(values)
        return both

    def devices(self) -> Iterator[tuple[PoolId, dra.Device]]:
        """Yield every device of each pool's newest generation."""
        for resource_slice in pools.current_slices_of_pools(self.of(dra.ResourceSlice)):
            for device in resource_slice.spec.devices:
                yield resource_slice.pool_id, device

    def inventory(self) -> ClusterInventory:
        """Build the allocator's inventory, with the allocated devices in use."""
        return pod_context.inventory_of(pod_context.from_objects(self.objects, self.features))


def load(
    against: str,
    target: Target,
    events: ObjectSelection | None = None,
    types: Collection[type[Any]] = EXPLAINED,
) -> ClusterObjects:
    """Load the objects that `--against` names; without it, those of the cluster of `target`.

    Of a cluster, only objects of `types` are read, and of its events only those that `events`
    selects: there may be many.
    """
    cluster = cluster_of(against, target)
    if cluster is None:
        return from_files([against]) if Path(against).exists() else from_fleet(against)
    if against:
        _require_context(against, cluster)
    with progress.shown("Reading the cluster"):
        return connection.run(cluster, lambda session: from_cluster(session, events, types))


def cluster_of(against: str, target: Target) -> Target | None:
    """Return the cluster of `--against` or `target`; None for files and fleets."""
    if not against:
        return target
    if Path(against).exists():
        return None
    # Imported here, because commands on a cluster do not need simulated fleets.
    from dray.drivers.simulated import fleet

    return None if against in fleet.shipped() else dataclasses.replace(target, context=against)


def command_options(against: str, target: Target) -> str:
    """Return the options with which printed commands go to the cluster that was read."""
    cluster = cluster_of(against, target)
    return printed_commands.options(cluster.kubeconfig, cluster.context) if cluster else ""


def _require_context(against: str, target: Target) -> None:
    """Raise WrongUsage for a name that is neither a file, nor a fleet, nor a context."""
    try:
        target.connect()
    except KubeconfigError as error:
        from dray.drivers.simulated import fleet

        names = fleet.shipped()
        close = difflib.get_close_matches(against, names, n=1)
        meant = f"Did you mean {close[0]}? " if close else ""
        raise WrongUsage(
            f"--against {against}: there is no file, no fleet and no context of this name",
            f"{meant}Fleets: {', '.join(names)}. As a context: {error}",
        ) from error


def from_fleet(name: str) -> ClusterObjects:
    from dray.drivers.simulated import fleet, fleet_file

    try:
        described = fleet.load(name)
        objects = [*described.nodes(), *described.slices(), *described.classes()]
    except fleet_file.FleetError as error:
        raise WrongUsage(str(error)) from error
    return _objects_from(f"fleet {name}", objects)


def documents_of(described: Fleet) -> list[JsonObject]:
    """Return the nodes, classes and slices of a simulated fleet as objects to create."""
    documents = [
        {**kind.type_meta, **msgspec.to_builtins(object_)}
        for kind, objects in (
            (kinds.NODE, described.nodes()),
            (kinds.DEVICE_CLASS, described.classes()),
            (kinds.RESOURCE_SLICE, described.slices()),
        )
        for object_ in objects
    ]
    for document in documents:
        # Kubernetes wants all of it or nothing, and only a node agent knows all of it.
        document.get("status", {}).pop("nodeInfo", None)
    return documents


def from_files(files: Iterable[str]) -> ClusterObjects:
    """Load dumps, snapshots, manifests, scenarios and fleet files."""
    return from_texts(list(manifests.texts(files, recursive=True)))


def from_texts(texts: Sequence[tuple[str, str]]) -> ClusterObjects:
    """Load the same from texts with the names of their files."""
    objects = ClusterObjects(", ".join(source for source, _ in texts))
    for source, text in texts:
        objects = objects.merged(_from_list(source, text) or _from_text(source, text))
    return objects


def _from_text(source: str, text: str) -> ClusterObjects:
    objects = ClusterObjects(source)
    for document in manifests.documents(source, text):
        if "nodes" in document and "apiVersion" not in document:
            objects = objects.merged(_from_description(source, document))
        else:
            decoded = decode(document, source)
            if decoded is not None:
                objects.add(decoded)
    return objects


class _List(msgspec.Struct):
    """A List whose items are not decoded yet."""

    kind: Literal["List"]
    items: list[msgspec.Raw]
    metadata: dict[str, Any] = {}

    @property
    def features(self) -> Features | None:
        """Return the gates of the server that the List was taken from, or None if not stated."""
        version = (self.metadata.get("annotations") or {}).get(VERSION_ANNOTATION, "")
        return gates.for_version(version) if version in gates.VERSIONS else None


class _Header(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


def _type_of(item: msgspec.Raw) -> tuple[str, str]:
    header = _decoder(_Header).decode(item)
    return header.api_version, header.kind


def _from_list(source: str, text: str) -> ClusterObjects | None:
    """Decode a large dump or snapshot directly into structs. Returns None for anything else."""
    if not text.startswith("{"):
        return None
    try:
        decoded = msgspec.json.decode(text, type=_List)
    except msgspec.DecodeError:
        return None
    objects = ClusterObjects(source, stated=decoded.features)
    for (api_version, kind), items in itertools.groupby(decoded.items, _type_of):
        for value in _decoded_alike(list(items), api_version, kind, source):
            objects.add(value)
    return objects


_DECODERS: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def _decoder(type_: type[Any]) -> msgspec.json.Decoder[Any]:
    if type_ not in _DECODERS:
        _DECODERS[type_] = msgspec.json.Decoder(type_)
    return _DECODERS[type_]


def _decoded_alike(
    items: Sequence[msgspec.Raw], api_version: str, kind: str, source: str
) -> list[Any]:
    """Decode objects of one kind as `decode` does; returns none of other kinds.

    Kinds with many objects are decoded without defaults, if a server wrote them.
    """
    group, version = kinds.parse_api_version(api_version)
    type_ = READ.get((group, kind))
    if type_ is None:
        return []
    if type_ in _NUMEROUS and version == "v1":
        decoder = _decoder(type_)
        with contextlib.suppress(msgspec.ValidationError):
            values = [decoder.decode(item) for item in items]
            if type_ in _ONLY_OF_SERVERS or all(value.metadata.uid for value in values):
                return values
    described = {"apiVersion": api_version, "kind": kind}
    return [decode({**described, **msgspec.json.decode(item)}, source) for item in items]


def _from_description(source: str, document: JsonObject) -> ClusterObjects:
    """Load a scenario, which has slices, or a fleet, which describes them."""
    if "slices" not in document:
        return from_fleet(source)
    from dray.allocator import scenarios

    scenario = scenarios.convert(document)
    nodes_and_classes = (*scenario.nodes, *scenario.slices, *scenario.classes)
    objects = (*nodes_and_classes, *scenario.claims, *scenario.device_taint_rules)
    return _objects_from(source, objects, scenario.features())


def _objects_from(
    source: str, values: Iterable[Any], stated: Features | None = None
) -> ClusterObjects:
    objects = ClusterObjects(source, {}, stated)
    for value in values:
        objects.add(value)
    return objects


def decode(document: JsonObject, source: str) -> Any | None:
    """Decode an object of any version. Returns None for kinds that commands do not need."""
    group, _ = kinds.parse_api_version(str(document.get("apiVersion", "")))
    type_ = READ.get((group, str(document.get("kind", ""))))
    if type_ is None:
        return None
    try:
        return typed_objects.decode(document, type_)
    except (msgspec.ValidationError, ValueError, TypeError, AttributeError) as error:
        name = (document.get("metadata") or {}).get("name", "")
        raise CommandError(
            f"{source}: {document['kind']} {name} cannot be read: {error}",
            "All that is wrong with it: dray lint FILE",
        ) from error


async def from_cluster(
    session: Session,
    events: ObjectSelection | None = None,
    types: Collection[type[Any]] = EXPLAINED,
) -> ClusterObjects:
    """Read all objects of some types that the user may list; other kinds are noted as unread."""
    version = await discovery.version_of(session.client)
    objects = ClusterObjects(session.server, stated=version.features)
    served = await session.resources.preferred()
    objects.served = _versions(await session.resources.all())
    async with asyncio.TaskGroup() as group:
        for kind in served:
            type_ = READ.get((kind.group, kind.kind))
            selection = events if type_ is CoreEvent else EVERYTHING
            if type_ in types and selection is not None:
                group.create_task(_read_kind(session, kind, selection, objects))
    return objects


def _versions(served: Iterable[Kind]) -> dict[tuple[str, str], list[str]]:
    by_kind: dict[tuple[str, str], list[str]] = {}
    for kind in served:
        by_kind.setdefault((kind.group, kind.kind), []).extend(kind.versions)
    return by_kind


async def _read_kind(
    session: Session, kind: Kind, selection: ObjectSelection, objects: ClusterObjects
) -> None:
    try:
        values = await _read(session, kind, selection)
    except errors.Forbidden as error:
        own = await _own_namespace(session, kind, selection)
        (objects.unread if own is None else objects.partly_read)[kind.kind] = str(error)
        values = own or []
    for value in values:
        objects.add(value)


async def _own_namespace(
    session: Session, kind: Kind, selection: ObjectSelection
) -> list[Any] | None:
    """Read the user's own namespace. Returns None if that is forbidden too."""
    if not kind.namespaced or not session.namespace:
        return None
    inside = dataclasses.replace(selection, namespace=session.namespace)
    try:
        return await _read(session, kind, inside)
    except errors.Forbidden:
        return None


async def _read(session: Session, kind: Kind, selection: ObjectSelection) -> list[Any]:
    """Read page by page, so that decoding overlaps with the server's work."""

    def decoded(page: ListPage) -> list[Any]:
        api_version = kind.preferred.api_version
        return _decoded_alike(page.items, api_version, kind.kind, session.server)

    values: list[Any] = []
    try:
        async for page in session.client.pages(kind, selection, limit=PAGE_ITEMS):
            values += decoded(page)
    except errors.Expired:
        return decoded(await session.client.list(kind, selection))
    return values

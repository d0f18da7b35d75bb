"""What commands that decide are held against: a cluster, files, a snapshot or a simulated fleet."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import click
import msgspec

from dray.allocator import scenarios
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api import errors, kinds
from dray.api import features as gates
from dray.api.conversion import canonical, defaults, versions
from dray.api.features import Features
from dray.api.ids import PoolId
from dray.api.kinds import Kind
from dray.api.semantics import pools
from dray.api.types.core import CoreEvent, ResourceQuota
from dray.api.types.dra import (
    Device,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.cli.command_errors import CommandError, WrongUsage
from dray.cli.inputs import manifests
from dray.cli.session import connection, progress, server_version
from dray.cli.session.connection import Session, Target
from dray.client.api_client import EVERYTHING, ListPage, ObjectSelection
from dray.drivers.simulated import fleet as simulated
from dray.drivers.simulated import fleet_file

T = TypeVar("T")

VERSION_ANNOTATION = "dray.dev/server-version"
"""Of a snapshot: the version of Kubernetes it was taken from."""
NO_TIME = "1970-01-01T00:00:00Z"
PAGE_ITEMS = 500
"""As many as kubectl asks for at a time."""

READ: Mapping[tuple[str, str], type[Any]] = {
    ("", "Node"): Node,
    ("", "Pod"): Pod,
    ("", "ResourceQuota"): ResourceQuota,
    ("", "Event"): CoreEvent,
    ("resource.k8s.io", "ResourceSlice"): ResourceSlice,
    ("resource.k8s.io", "DeviceClass"): DeviceClass,
    ("resource.k8s.io", "ResourceClaim"): ResourceClaim,
    ("resource.k8s.io", "ResourceClaimTemplate"): ResourceClaimTemplate,
    ("resource.k8s.io", "DeviceTaintRule"): DeviceTaintRule,
}
"""By group and kind; other kinds do not matter to what is decided here."""

option = click.option(
    "--against",
    default="",
    metavar="FILE|DIR|FLEET|CONTEXT",
    help="A dump or snapshot, a directory of them, a simulated fleet, or a kubeconfig context.",
)


@dataclass(slots=True)
class ClusterObjects:
    """Objects by type, and what could not be read."""

    source: str
    objects: dict[type[Any], list[Any]] = field(default_factory=dict)
    stated: Features | None = None
    """The features that a cluster or a file says it has."""
    unread: dict[str, str] = field(default_factory=dict)
    """Kinds of which nothing could be read, and what the server said."""
    partly_read: dict[str, str] = field(default_factory=dict)
    """Kinds of which only one namespace could be read, and what the server said."""

    @property
    def features(self) -> Features:
        return self.stated or gates.DEFAULT

    def of(self, type_: type[T]) -> list[T]:
        return self.objects.get(type_, [])

    def add(self, value: Any) -> None:
        self.objects.setdefault(type(value), []).append(value)

    def add_decoded(self, value: Any | None) -> None:
        """What `decode` gives; kinds that do not matter are None."""
        if value is not None:
            self.add(value)

    def merged(self, other: ClusterObjects) -> ClusterObjects:
        """This world with the objects of another on top."""
        unread = {**self.unread, **other.unread}
        partly_read = {**self.partly_read, **other.partly_read}
        both = ClusterObjects(self.source, {}, self.stated or other.stated, unread, partly_read)
        for each in (self, other):
            for type_, found in each.objects.items():
                both.objects.setdefault(type_, []).extend(found)
        return both

    def devices(self) -> Iterator[tuple[PoolId, Device]]:
        """Every device of each pool's newest generation."""
        for resource_slice in pools.current_slices_of_pools(self.of(ResourceSlice)):
            pool = resource_slice.pool_id
            for device in resource_slice.spec.devices:
                yield pool, device

    def fleet(self) -> ClusterInventory:
        """The allocator's view, with what claims hold taken."""
        made = ClusterInventory(self.features)
        for node in self.of(Node):
            made.put_node(node)
        for device_class in self.of(DeviceClass):
            made.put_class(device_class)
        for rule in self.of(DeviceTaintRule):
            made.put_taint_rule(rule)
        for resource_slice in self.of(ResourceSlice):
            made.put_slice(resource_slice)
        for claim in self.of(ResourceClaim):
            if claim.status.allocation is not None:
                made.put_claim(claim)
        return made


def load(against: str, target: Target, events: ObjectSelection | None = None) -> ClusterObjects:
    """The world that `--against` names; without it, the cluster that `target` chooses.

    Of a cluster's events, which may be many, only those are read that `events` selects.
    """
    if against and Path(against).exists():
        return from_files([against])
    if against in simulated.shipped():
        return from_fleet(against)
    if against:
        target = Target(target.kubeconfig, against, target.namespace, target.all_namespaces)
    with progress.shown("Reading the cluster"):
        return connection.run(target, lambda session: from_cluster(session, events))


def from_fleet(name: str) -> ClusterObjects:
    try:
        described = simulated.load(name)
        objects = [*described.nodes(), *described.slices(), *described.classes()]
    except fleet_file.FleetError as error:
        raise WrongUsage(str(error)) from error
    return _world(f"fleet {name}", objects)


def documents_of(described: simulated.Fleet) -> list[JsonObject]:
    """The nodes, classes and slices of a simulated fleet as objects that can be created."""
    group = "resource.k8s.io/v1"
    found = [
        {"apiVersion": api_version, "kind": kind, **msgspec.to_builtins(object_)}
        for api_version, kind, objects in (
            ("v1", "Node", described.nodes()),
            (group, "DeviceClass", described.classes()),
            (group, "ResourceSlice", described.slices()),
        )
        for object_ in objects
    ]
    for each in found:
        # Kubernetes wants all of it or nothing, and only a node agent knows all of it.
        each.get("status", {}).pop("nodeInfo", None)
    return found


def from_files(files: Iterable[str]) -> ClusterObjects:
    """What dumps, snapshots, manifests, scenarios and fleet files say."""
    return from_texts(list(manifests.texts(files, recursive=True)))


def from_texts(texts: Sequence[tuple[str, str]]) -> ClusterObjects:
    """The same for texts that are read already, each with the name of its file."""
    world = ClusterObjects(", ".join(source for source, _ in texts))
    for source, text in texts:
        world = world.merged(_from_list(source, text) or _from_text(source, text))
    return world


def _from_text(source: str, text: str) -> ClusterObjects:
    world = ClusterObjects(source)
    for document in manifests.documents(source, text):
        if "nodes" in document and "apiVersion" not in document:
            world = world.merged(_from_description(source, document))
        else:
            world.add_decoded(decode(document, source))
    return world


class _List(msgspec.Struct):
    """A List whose items are still text."""

    kind: Literal["List"]
    items: list[msgspec.Raw]
    metadata: dict[str, Any] = {}

    @property
    def features(self) -> Features | None:
        """Of the server it was taken from, if it says so."""
        version = (self.metadata.get("annotations") or {}).get(VERSION_ANNOTATION, "")
        return gates.for_version(version) if version in gates.VERSIONS else None


class _Header(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


def _from_list(source: str, text: str) -> ClusterObjects | None:
    """A large dump or snapshot, straight into structs; None for anything else."""
    if not text.startswith("{"):
        return None
    try:
        found = msgspec.json.decode(text, type=_List)
    except msgspec.DecodeError:
        return None
    world = ClusterObjects(source, stated=found.features)
    for item in found.items:
        header = msgspec.json.decode(item, type=_Header)
        for each in _decoded_alike([item], header.api_version, header.kind, source):
            world.add(each)
    return world


def _decoded_alike(
    items: Sequence[msgspec.Raw], api_version: str, kind: str, source: str
) -> list[Any]:
    """As `decode`, objects of one kind; none of a kind that does not matter here.

    Nodes and slices, of which there may be many, are as servers write them.
    """
    group, version = kinds.parse_api_version(api_version)
    type_ = READ.get((group, kind))
    if type_ is None:
        return []
    if type_ in (Node, ResourceSlice) and version == "v1":
        decoder = msgspec.json.Decoder(type_)
        with contextlib.suppress(msgspec.ValidationError):
            return [decoder.decode(item) for item in items]
    described = {"apiVersion": api_version, "kind": kind}
    return [decode({**described, **msgspec.json.decode(item)}, source) for item in items]


def _from_description(source: str, document: JsonObject) -> ClusterObjects:
    """A scenario, which has slices, or a fleet, which has what they are made from."""
    if "slices" not in document:
        return from_fleet(source)
    scenario = scenarios.convert(document)
    parts = (scenario.nodes, scenario.slices, scenario.classes, scenario.claims)
    objects = [each for part in (*parts, scenario.device_taint_rules) for each in part]
    return _world(source, objects, scenario.features())


def _world(source: str, objects: Iterable[Any], stated: Features | None = None) -> ClusterObjects:
    world = ClusterObjects(source, {}, stated)
    for object_ in objects:
        world.add(object_)
    return world


def decode(document: JsonObject, source: str) -> Any | None:
    """The struct of an object in any version; None for kinds that do not matter here."""
    group, _ = kinds.parse_api_version(str(document.get("apiVersion", "")))
    type_ = READ.get((group, str(document.get("kind", ""))))
    if type_ is None:
        return None
    try:
        return _decoded(document, type_)
    except (msgspec.ValidationError, ValueError, TypeError, AttributeError) as error:
        name = (document.get("metadata") or {}).get("name", "")
        raise CommandError(
            f"{source}: {document['kind']} {name} cannot be read: {error}",
            "All that is wrong with it: dray lint FILE",
        ) from error


def _decoded(document: JsonObject, type_: type[Any]) -> Any:
    stored = versions.to_storage(document)
    group, _ = kinds.parse_api_version(stored["apiVersion"])
    kind = kinds.served(group, stored["kind"])
    defaults.fill(stored, NO_TIME)
    schema_type = kind.preferred.schema_type
    return msgspec.convert(canonical.prune_nulls(canonical.write(schema_type, stored)), type_)


async def from_cluster(session: Session, events: ObjectSelection | None = None) -> ClusterObjects:
    """Everything that may be read; what may not is noted."""
    world = ClusterObjects(session.server)
    version = await server_version.ask(session.client)
    world.stated = version.features
    every = await session.resources.preferred()
    async with asyncio.TaskGroup() as group:
        for kind in every:
            type_ = READ.get((kind.group, kind.kind))
            selection = events if type_ is CoreEvent else EVERYTHING
            if type_ is not None and selection is not None:
                group.create_task(_read_kind(session, kind, selection, world))
    return world


async def _read_kind(
    session: Session, kind: Kind, selection: ObjectSelection, world: ClusterObjects
) -> None:
    try:
        found = await _read(session, kind, selection)
    except errors.Forbidden as error:
        own = await _own_namespace(session, kind, selection)
        (world.unread if own is None else world.partly_read)[kind.kind] = str(error)
        found = own or []
    for each in found:
        world.add(each)


async def _own_namespace(
    session: Session, kind: Kind, selection: ObjectSelection
) -> list[Any] | None:
    """What there is in the user's own namespace, for those who may not look everywhere."""
    if not kind.namespaced or not session.namespace:
        return None
    inside = dataclasses.replace(selection, namespace=session.namespace)
    try:
        return await _read(session, kind, inside)
    except errors.Forbidden:
        return None


async def _read(session: Session, kind: Kind, selection: ObjectSelection) -> list[Any]:
    """In parts, so that what has come is decoded while the server writes the rest."""

    def decoded(page: ListPage) -> list[Any]:
        api_version = kind.preferred.api_version
        return _decoded_alike(page.items, api_version, kind.kind, session.server)

    found: list[Any] = []
    try:
        async for page in session.client.pages(kind, selection, limit=PAGE_ITEMS):
            found += decoded(page)
    except errors.Expired:
        return decoded(await session.client.list(kind, selection))
    return found

"""The structure of a fleet file and of the catalogue: products, nodes, pools, classes."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from dray.api.formats import bounded_yaml

T = TypeVar("T")


class FleetError(ValueError):
    """A fleet that cannot be built; the message has the place in its file."""


class FleetFilePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of a fleet file; unknown fields are errors."""


class PartitionProfile(FleetFilePart, frozen=True):
    """A profile of a partition: its placements, as (first slot, slots), and its capacity."""

    id: int
    placements: tuple[tuple[int, int], ...]
    capacity: dict[str, int | str]


class Partitioning(FleetFilePart, frozen=True):
    """A device as a row of slots that partitions occupy."""

    slots: int
    profiles: dict[str, PartitionProfile]


class Model(FleetFilePart, frozen=True):
    """One product. Values may be templates; see `templates`."""

    name: str
    attributes: dict[str, Any] = {}
    capacity: dict[str, Any] = {}
    partitions: Partitioning | None = None


class DeviceGroup(FleetFilePart, frozen=True):
    """Some devices of one model, with further attributes."""

    model: str
    count: int = 1
    attributes: dict[str, Any] = {}
    capacity: dict[str, Any] = {}
    partitioned: bool = False
    shared: bool = False


Devices = dict[str, tuple[DeviceGroup, ...]]
"""Groups of devices by the driver that publishes them."""


class NodeGroup(FleetFilePart, frozen=True):
    """Nodes that differ in their number only; every `block_size` of them form a block."""

    name: str
    count: int = 1
    block_size: int = 1
    architecture: str = "amd64"
    labels: dict[str, str] = {}
    capacity: dict[str, int | str] = {}
    devices: Devices = {}


class PoolGroup(FleetFilePart, frozen=True):
    """Devices that belong to no node: reachable from those with the labels, or from all."""

    name: str
    devices: Devices
    node_labels: dict[str, str] = {}
    all_nodes: bool = False


class ClassBlueprint(FleetFilePart, frozen=True):
    selector: str
    extended_resource_name: str | None = None
    labels: dict[str, str] = {}


class DriverBlueprint(FleetFilePart, frozen=True):
    classes: dict[str, ClassBlueprint] = {}


class Catalog(FleetFilePart, frozen=True):
    drivers: dict[str, DriverBlueprint] = {}
    models: dict[str, Model] = {}


class FleetBlueprint(FleetFilePart, frozen=True):
    description: str = ""
    nodes: tuple[NodeGroup, ...] = ()
    pools: tuple[PoolGroup, ...] = ()
    drivers: dict[str, DriverBlueprint] = {}
    models: dict[str, Model] = {}


def read(text: str, type_: type[T], source: str) -> T:
    """Parse a YAML document. Raises FleetError with the file and field."""
    try:
        return msgspec.convert(bounded_yaml.load(text, bounded_yaml.FLEET_FILE) or {}, type_)
    except (bounded_yaml.YamlError, msgspec.ValidationError) as error:
        raise FleetError(f"{source}: {error}") from error

"""A fleet: nodes, pools and classes made from a short YAML file. Pure after the file is read.

`load("h100")` takes a fleet that comes with dray, `load("my/fleet.yaml")` one of the user's own.
Only the blueprint is kept: a node or a pool is made on request, the same every time, so that a
fleet of thousands of nodes costs next to nothing.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from dray.api import features
from dray.api.formats import names, quantity
from dray.api.types import dra
from dray.api.types.dra import Device, DeviceClass
from dray.api.types.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta
from dray.api.types.nodes import Node, NodeStatus, NodeSystemInfo
from dray.driverkit import pool_layout
from dray.driverkit.pool_layout import PublishedPool
from dray.drivers.simulated import fleet_file, partitions, templates
from dray.drivers.simulated.fleet_file import FleetError, PoolGroup
from dray.drivers.simulated.templates import DevicePosition
from dray.validation.dra import slices as resource_slices

FLEET_LABEL = "dray.dev/fleet"
_ALL_FEATURES = features.parse("AllAlpha=true,AllBeta=true")
DEFAULT_CAPACITY: dict[str, int | str] = {"cpu": 64, "memory": "512Gi", "pods": 110}


@dataclass(frozen=True)
class FleetNode:
    """One node of a fleet."""

    name: str
    number: int
    block: int
    group: fleet_file.NodeGroup
    fleet: Fleet

    @property
    def place(self) -> DevicePosition:
        return DevicePosition(self.name, self.number, self.block)

    def node(self) -> Node:
        sizes = {
            name: str(quantity.parse(str(value)))
            for name, value in {**DEFAULT_CAPACITY, **self.group.capacity}.items()
        }
        info = NodeSystemInfo(
            machine_id=templates.unique_id(self.name).replace("-", ""),
            operating_system="linux",
            architecture=self.group.architecture,
        )
        status = NodeStatus(capacity=sizes, allocatable=sizes, node_info=info)
        return Node(metadata=ObjectMeta(name=self.name, labels=self._labels()), status=status)

    def _labels(self) -> dict[str, str]:
        own = {name: self.place.fill(value) for name, value in self.group.labels.items()}
        return {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": self.group.architecture,
            FLEET_LABEL: self.fleet.name,
            **own,
        }

    @property
    def drivers(self) -> list[str]:
        """The drivers of this node's devices and of pools that it can reach."""
        shared = (driver for group in self._reachable() for driver in group.devices)
        return list(dict.fromkeys([*self.group.devices, *shared]))

    def reachable_pools(self) -> Iterator[PublishedPool]:
        """Yield the pools that belong to no node and can be used on this one."""
        for group in self._reachable():
            yield from self.fleet.pools_of(group)

    def _reachable(self) -> Iterator[PoolGroup]:
        labels = self._labels()
        for group in self.fleet.blueprint.pools:
            if group.all_nodes or group.node_labels.items() <= labels.items():
                yield group

    def pools(self) -> Iterator[PublishedPool]:
        """Yield the pool of each driver on this node."""
        for driver, groups in self.group.devices.items():
            devices, counters = self.fleet.build(driver, groups, self.place)
            yield PublishedPool(driver, self.name, devices, counters, node_name=self.name)


@dataclass(frozen=True)
class Fleet:
    name: str
    blueprint: fleet_file.FleetBlueprint
    catalog: fleet_file.Catalog

    @property
    def description(self) -> str:
        return self.blueprint.description

    @functools.cached_property
    def machines(self) -> dict[str, FleetNode]:
        nodes: dict[str, FleetNode] = {}
        for group in self.blueprint.nodes:
            for number in range(group.count):
                machine = self.machine(group, number)
                if nodes.setdefault(machine.name, machine) is not machine:
                    raise FleetError(f"{self.name}: two nodes have the name {machine.name!r}")
        return nodes

    def machine(self, group: fleet_file.NodeGroup, number: int) -> FleetNode:
        """Return a machine of a group; the number may be larger than the group is."""
        block = number // group.block_size
        name = DevicePosition("", number, block).fill(group.name)
        return FleetNode(name, number, block, group, self)

    def nodes(self) -> Iterator[Node]:
        return (machine.node() for machine in self.machines.values())

    def pools(self) -> Iterator[PublishedPool]:
        """Yield every pool: those of the nodes, then those that belong to none."""
        for machine in self.machines.values():
            yield from machine.pools()
        yield from self.shared_pools()

    def shared_pools(self) -> Iterator[PublishedPool]:
        for group in self.blueprint.pools:
            yield from self.pools_of(group)

    def pools_of(self, group: PoolGroup) -> Iterator[PublishedPool]:
        for driver, devices in group.devices.items():
            pool_devices, counters = self.build(driver, devices, DevicePosition(group.name))
            yield PublishedPool(
                driver,
                group.name,
                pool_devices,
                counters,
                node_selector=_node_selector(group),
                all_nodes=True if group.all_nodes else None,
            )

    def models(self) -> Counter[tuple[str, str]]:
        """Return the number of devices by driver and model, without partitions."""
        counts: Counter[tuple[str, str]] = Counter()
        places = [machine.group.devices for machine in self.machines.values()]
        places += [pool.devices for pool in self.blueprint.pools]
        for by_driver in places:
            for driver, groups in by_driver.items():
                for group in groups:
                    counts[driver, group.model] += group.count
        return counts

    def slices(self) -> Iterator[dra.ResourceSlice]:
        for pool in self.pools():
            yield from pool_layout.lay_out(pool)

    def classes(self) -> list[DeviceClass]:
        """Return the classes of every driver that has a device in the fleet."""
        places: list[fleet_file.NodeGroup | PoolGroup] = [
            *self.blueprint.nodes,
            *self.blueprint.pools,
        ]
        used = {driver: None for place in places for driver in place.devices}
        return [
            _device_class(name, description)
            for driver in used
            if driver in self.catalog.drivers
            for name, description in self.catalog.drivers[driver].classes.items()
        ]

    def build(
        self, driver: str, groups: tuple[fleet_file.DeviceGroup, ...], place: DevicePosition
    ) -> tuple[tuple[Device, ...], tuple[dra.CounterSet, ...]]:
        """Return the devices of one driver in one pool, numbered, and their counters."""
        devices: list[Device] = []
        counters: list[dra.CounterSet] = []
        indexes: dict[str, int] = {}
        for group in groups:
            model = self._model(group)
            template = _DeviceTemplate(group, model)
            for position in range(group.count):
                index = indexes.get(model.name, 0)
                indexes[model.name] = index + 1
                identity = f"{place.node}/{driver}/{model.name}/{index}"
                where = place.of_device(index, position, group.count, identity)
                whole = template.device(where)
                if group.partitioned and model.partitions is not None:
                    counters.append(partitions.counter_set(whole, model.partitions))
                    devices.append(partitions.whole_device(whole, model.partitions))
                    devices += partitions.partitions(whole, model.partitions, where.identity)
                else:
                    devices.append(whole)
        return tuple(devices), tuple(counters)

    def _model(self, group: fleet_file.DeviceGroup) -> fleet_file.Model:
        model = self.catalog.models.get(group.model)
        if model is None:
            names = ", ".join(sorted(self.catalog.models))
            raise FleetError(f"{self.name}: no model {group.model!r}; there are {names}")
        if group.partitioned and model.partitions is None:
            raise FleetError(f"{self.name}: {group.model} cannot be partitioned")
        return model


def load(name_or_path: str | Path, *, nodes: int | None = None) -> Fleet:
    """Load a shipped fleet by its name, or a file; `nodes` overrides the size of every group."""
    source = _find(name_or_path)
    described = fleet_file.read(
        source.read_text("utf-8"), fleet_file.FleetBlueprint, str(name_or_path)
    )
    if nodes is not None:
        groups = tuple(msgspec.structs.replace(group, count=nodes) for group in described.nodes)
        described = msgspec.structs.replace(described, nodes=groups)
    fleet = build(described, name=_object_name(source.name.removesuffix(".yaml")))
    _check(fleet, str(name_or_path))
    return fleet


def _object_name(file_name: str) -> str:
    """Return the name that the objects of a fleet bear: `my-fleet` for `my_fleet.yaml`."""
    if not names.label_value_errors(file_name) and not names.dns_subdomain_errors(file_name):
        return file_name
    words = "-".join(re.findall("[a-z0-9]+", file_name.lower()))
    return words[: names.LABEL_VALUE_MAX_BYTES].strip("-") or "fleet"


def _check(fleet: Fleet, source: str) -> None:
    """Raise FleetError if the API server would refuse the first node or pool of a group."""
    for index, group in enumerate(fleet.blueprint.nodes):
        machine, place = fleet.machine(group, 0), f"{source}: nodes[{index}]"
        for error in names.dns_subdomain_errors(machine.name):
            raise FleetError(
                f"{place}.name: {machine.name!r} cannot be the name of a node: {error}"
            )
        for key, value in machine.node().metadata.labels.items():
            for error in names.qualified_name_errors(key) + names.label_value_errors(value):
                raise FleetError(f"{place}.labels: {key}={value}: {error}")
        _check_pools(machine.pools(), place)
    for index, pool in enumerate(fleet.blueprint.pools):
        _check_pools(fleet.pools_of(pool), f"{source}: pools[{index}]")


def _check_pools(pools: Iterable[PublishedPool], place: str) -> None:
    for pool in pools:
        for resource_slice in pool_layout.lay_out(pool):
            for error in resource_slices.resource_slice(resource_slice, _ALL_FEATURES):
                raise FleetError(f"{place}: {pool.driver} cannot publish its devices: {error}")


def build(described: fleet_file.FleetBlueprint, *, name: str) -> Fleet:
    """Build a fleet; its own models and drivers come before those of the catalogue."""
    builtin = _catalog()
    catalog = fleet_file.Catalog(
        drivers={**builtin.drivers, **described.drivers},
        models={**builtin.models, **described.models},
    )
    return Fleet(name, described, catalog)


def shipped() -> list[str]:
    """Return the names of the fleets that come with dray."""
    files = resources.files(__package__).joinpath("fleets").iterdir()
    return sorted(
        entry.name.removesuffix(".yaml") for entry in files if entry.name.endswith(".yaml")
    )


def _find(name_or_path: str | Path) -> Any:
    text = str(name_or_path)
    if text in shipped():
        return resources.files(__package__).joinpath("fleets", f"{text}.yaml")
    path = Path(text)
    if not path.is_file():
        raise FleetError(f"{text} is neither a file nor one of {', '.join(shipped())}")
    return path


@functools.cache
def _catalog() -> fleet_file.Catalog:
    text = resources.files(__package__).joinpath("catalog.yaml").read_text("utf-8")
    return fleet_file.read(text, fleet_file.Catalog, "catalog.yaml")


class _DeviceTemplate:
    """The devices of one group on one node."""

    def __init__(self, group: fleet_file.DeviceGroup, model: fleet_file.Model) -> None:
        self._name = model.name
        self._attributes = templates.AttributeTemplates({**model.attributes, **group.attributes})
        self._capacity = templates.capacities({**model.capacity, **group.capacity})
        self._shared = True if group.shared else None

    def device(self, place: DevicePosition) -> Device:
        return Device(
            name=place.fill(self._name),
            attributes=self._attributes.fill(place),
            capacity=self._capacity,
            allow_multiple_allocations=self._shared,
        )


def _node_selector(group: PoolGroup) -> NodeSelector | None:
    if group.all_nodes:
        return None
    labels = tuple(
        NodeSelectorRequirement(key=label, operator="In", values=(value,))
        for label, value in group.node_labels.items()
    )
    return NodeSelector((NodeSelectorTerm(match_expressions=labels),))


def _device_class(name: str, description: fleet_file.ClassBlueprint) -> DeviceClass:
    selector = dra.DeviceSelector(cel=dra.CELDeviceSelector(description.selector))
    spec = dra.DeviceClassSpec(
        selectors=(selector,), extended_resource_name=description.extended_resource_name
    )
    return DeviceClass(ObjectMeta(name=name, labels=description.labels), spec)

"""The devices of a host, and the hardware behind each device's name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from dray.api.types.dra import CounterSet, Device
from dray.drivers.nvidia import devices, partitions
from dray.drivers.nvidia.devices import HostTopology
from dray.drivers.nvidia.hardware import ComputeInstance, Gpu, Hardware, Instance, MigProfile, Place
from dray.drivers.nvidia.host import Host
from dray.drivers.nvidia.partition_state import GpuState
from dray.drivers.nvidia.partitions import Cut

HOPPER: Final = (9, 0)


@dataclass(frozen=True)
class Settings:
    """Settings: what the driver may do with the GPUs of its host."""

    node: str = ""
    makes_partitions: bool = True
    """Publish every MIG profile at every placement, and create partitions for claims."""
    shares_memory: bool = False
    """Let several claims share a GPU by memory; such GPUs are not partitioned."""


@dataclass(frozen=True)
class WholeGpu:
    gpu: Gpu


@dataclass(frozen=True)
class PossiblePartition:
    """A partition that is made when it is claimed."""

    gpu: Gpu
    cut: Cut


@dataclass(frozen=True)
class ExistingPartition:
    """A partition that was made by hand; the driver never removes it."""

    gpu: Gpu
    instance: Instance
    compute: ComputeInstance


Compute = tuple[ComputeInstance, ...]
Part = WholeGpu | PossiblePartition | ExistingPartition
Offered = tuple[Device, Part]


@dataclass(frozen=True)
class Inventory:
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    parts: dict[str, Part] = field(default_factory=dict)


class Machine:
    """The GPUs of a host. What cannot change while the driver runs is read once."""

    def __init__(self, hardware: Hardware, host: Host, settings: Settings) -> None:
        self._hardware = hardware
        self._settings = settings
        versions = hardware.versions()
        self._gpus: dict[str, tuple[Gpu, Device]] = {}
        for gpu in hardware.gpus():
            root, numa_node = host.pcie_root(gpu.pci_bus_id), host.numa_node(gpu.pci_bus_id)
            topology = HostTopology(settings.node, versions, root, numa_node)
            self._gpus[gpu.uuid] = gpu, devices.whole(gpu, topology)
        self._profiles: dict[str, Sequence[MigProfile]] = {}
        self._views: list[_GpuView] = []
        self._inventory = Inventory()

    @property
    def gpus(self) -> list[str]:
        return list(self._gpus)

    def take_inventory(self, state: GpuState) -> Inventory:
        """Return the current offer; the same object as before if nothing has changed."""
        views = [self._view(gpu, device, state) for gpu, device in self._gpus.values()]
        if views != self._views:
            self._views, self._inventory = views, _inventory(views)
        return self._inventory

    def _view(self, gpu: Gpu, device: Device, state: GpuState) -> _GpuView:
        if not gpu.can_partition:
            return _GpuView(gpu, device, self._settings)
        uuid = gpu.uuid
        if not self._profiles.get(uuid):
            # Before Hopper, GPUs know their profiles in MIG mode only.
            self._profiles[uuid] = self._hardware.profiles(uuid)
        is_on = self._hardware.is_partitioned(uuid)
        existing = self._hardware.instances(uuid) if is_on else ()
        foreign = tuple(
            (instance, tuple(self._hardware.compute_instances(uuid, instance.id)))
            for instance in existing
            if not state.is_ours(uuid, instance)
        )
        profiles, in_use = self._profiles[uuid], frozenset(state.held_places(uuid))
        return _GpuView(gpu, device, self._settings, profiles, is_on, foreign, in_use)


@dataclass(frozen=True)
class _GpuView:
    """One GPU as it is now."""

    gpu: Gpu
    device: Device
    settings: Settings
    profiles: Sequence[MigProfile] = ()
    is_on: bool = False
    foreign: tuple[tuple[Instance, Compute], ...] = ()
    in_use: frozenset[Place] = frozenset()

    @property
    def _is_cut_on_demand(self) -> bool:
        enabled = self.settings.makes_partitions and not self.settings.shares_memory
        return enabled and bool(self.profiles)

    @property
    def _can_be_whole(self) -> bool:
        """Whether the whole GPU is usable: in MIG mode it is not, unless the mode can be ended."""
        can_switch = self.settings.makes_partitions and self.gpu.compute_capability >= HOPPER
        return not self.foreign and (not self.is_on or can_switch)

    def wholes(self) -> Iterator[Offered]:
        if not self._can_be_whole:
            return
        device = self.device
        if self.settings.shares_memory:
            device = devices.shared(device)
        elif self._is_cut_on_demand:
            device = partitions.partitionable(device, self.profiles)
        yield device, WholeGpu(self.gpu)

    def partitions(self) -> Iterator[Offered]:
        for instance, compute in self.foreign:
            yield from self._existing(instance, compute)
        if not self._is_cut_on_demand:
            return
        for cut in partitions.in_order(self.profiles):
            # Beside a layout that somebody else has made, only what claims hold already stays.
            if not self.foreign or (cut.profile.id, cut.placement) in self.in_use:
                device = partitions.partition(self.gpu, self.device, cut)
                yield device, PossiblePartition(self.gpu, cut)

    def _existing(self, instance: Instance, parts: Compute) -> Iterator[Offered]:
        parent = next(
            (profile for profile in self.profiles if profile.id == instance.profile), None
        )
        if parent is None:
            return
        name = devices.partition_name(self.gpu, parent, instance.placement)
        for compute in parts:
            own_name = name if len(parts) == 1 else f"{name}-ci{compute.id}"
            profile = _narrowed(parent, compute)
            device = devices.partition(self.device, own_name, profile, instance.placement)
            uuid = {devices.UUID: devices.text(compute.uuid)}
            yield (
                msgspec.structs.replace(device, attributes={**device.attributes, **uuid}),
                ExistingPartition(self.gpu, instance, compute),
            )

    def counter_sets(self) -> Iterator[CounterSet]:
        if self._is_cut_on_demand and (not self.foreign or self.in_use):
            yield partitions.counter_set(self.device, self.profiles)


def _inventory(views: Sequence[_GpuView]) -> Inventory:
    """List partitions first and from the last GPU, whole GPUs from the first: first fit then keeps
    GPUs whole for as long as it can."""
    cut = itertools.chain.from_iterable(view.partitions() for view in reversed(views))
    whole = itertools.chain.from_iterable(view.wholes() for view in views)
    offered = [*cut, *whole]
    return Inventory(
        tuple(device for device, _ in offered),
        tuple(itertools.chain.from_iterable(view.counter_sets() for view in views)),
        {device.name: part for device, part in offered},
    )


def _narrowed(profile: MigProfile, compute: ComputeInstance) -> MigProfile:
    """Return the profile of a compute instance that has some of its partition's slices."""
    slices, of_all = compute.compute_slices, profile.compute_slices
    if slices >= of_all:
        return profile
    return replace(
        profile,
        name=f"{slices}c.{profile.name}",
        multiprocessors=profile.multiprocessors * slices // of_all,
    )

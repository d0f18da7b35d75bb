"""Lays out the devices of a pool over ResourceSlices. Pure.

Shared counters have slices of their own. A slice holds 128 devices, or 64 where one of them has a
field that makes slices large. Names follow from the pool, so that publishing twice changes nothing,
and sort in the order of the devices, which is the order of allocation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from dray.api.types import dra
from dray.api.types.dra import Device, ResourceSlice
from dray.api.types.meta import NodeSelector, ObjectMeta, OwnerReference, Wire

MAX_DEVICES: Final = 128
MAX_ADVANCED_DEVICES: Final = 64
MAX_COUNTER_SETS: Final = 8
COUNTERS: Final = "counters"

Item = TypeVar("Item")


class PublishedPool(Wire, frozen=True):
    """The devices of a driver under one pool name, and the nodes that can reach them."""

    driver: str
    name: str
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[dra.CounterSet, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    skip_node_operations: tuple[str, ...] = ()


def lay_out(
    pool: PublishedPool, generation: int = 1, owner: OwnerReference | None = None
) -> Slices:
    """Return the slices of one generation; an empty pool has one slice without devices."""
    counters = _chunks(pool.shared_counters, MAX_COUNTER_SETS)
    is_large = any(map(_is_advanced, pool.devices))
    devices = _chunks(pool.devices, MAX_ADVANCED_DEVICES if is_large else MAX_DEVICES) or [()]
    count = len(counters) + len(devices)
    template = dra.ResourceSliceSpec(
        driver=pool.driver,
        pool=dra.ResourcePool(pool.name, generation, count),
        node_name=pool.node_name,
        node_selector=pool.node_selector,
        all_nodes=pool.all_nodes,
        skip_node_operations=pool.skip_node_operations,
    )
    owners = (owner,) if owner else ()
    replace = msgspec.structs.replace
    slices = []
    for name, chunk in zip(_names(pool, len(devices)), devices, strict=True):
        slices.append(ResourceSlice(_metadata(name, owners), replace(template, devices=chunk)))
    for name, sets in zip(_names(pool, len(counters), COUNTERS), counters, strict=True):
        slices.append(
            ResourceSlice(_metadata(name, owners), replace(template, shared_counters=sets))
        )
    return tuple(slices)


Slices = tuple[ResourceSlice, ...]


def _metadata(name: str, owners: tuple[OwnerReference, ...]) -> ObjectMeta:
    return ObjectMeta(name=name, owner_references=owners)


def _names(pool: PublishedPool, count: int, kind: str = "") -> Iterator[str]:
    stem = f"{pool.name.replace('/', '-')}-{pool.driver}" + (f"-{kind}" if kind else "")
    digits = len(str(count - 1))
    for number in range(count):
        yield stem if count == 1 else f"{stem}-{number:0{digits}}"


def _chunks(items: Sequence[Item], size: int) -> list[tuple[Item, ...]]:
    return [tuple(items[start : start + size]) for start in range(0, len(items), size)]


def _is_advanced(device: Device) -> bool:
    if device.taints or device.consumes_counters:
        return True
    return any(map(_is_list, device.attributes.values()))


def _is_list(value: dra.DeviceAttribute) -> bool:
    lists = (value.int_values, value.bool_values, value.string_values, value.version_values)
    return any(lists)

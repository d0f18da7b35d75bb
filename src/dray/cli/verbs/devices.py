"""`dray get devices`: every device with its attributes, state, taints and holders."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec

from dray.allocator.checks import taints
from dray.allocator.inventory.device_counts import device_state
from dray.api import errors, kinds
from dray.api.conversion import canonical, versions
from dray.api.formats.durations import since
from dray.api.ids import DeviceId
from dray.api.kinds import Kind
from dray.api.semantics import pools
from dray.api.types.dra import (
    Device,
    DeviceAttribute,
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from dray.cli.command_errors import ObjectNotFound, WrongUsage
from dray.cli.output import formats, tables
from dray.cli.session import progress
from dray.cli.session.connection import Session
from dray.cli.verbs import listing
from dray.cli.verbs.listing import GetRequest
from dray.client.api_client import ObjectSelection
from dray.clock import utc_now

NAMES = ("devices", "device", "dev")


class ClaimHolder(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A claim that holds a device, or a share of it."""

    namespace: str
    claim: str
    request: str
    since: str = ""
    used_by: tuple[str, ...] = ()
    share_id: str = msgspec.field(default="", name="shareID")
    consumed_capacity: dict[str, str] = {}
    admin_access: bool = False


class PublishedDevice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A device of the newest generation of its pool."""

    driver: str
    pool: str
    name: str
    node: str = ""
    attributes: dict[str, Any] = {}
    capacity: dict[str, str] = {}
    taints: tuple[DeviceTaint, ...] = ()
    shareable: bool = False
    holders: tuple[ClaimHolder, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.pool}/{self.name}"


async def show(session: Session, request: GetRequest) -> None:
    """Print the devices. Names on the command line are POOL/DEVICE, POOL or DEVICE."""
    if request.watch:
        raise WrongUsage("devices cannot be watched", "Watch what publishes them: resourceslices")
    with progress.shown("Asking the cluster"):
        published = await published_devices(session)
    selected = [device for device in published if _is_meant(device, request.words[1:])]
    if request.format.name == "name":
        for device in selected:
            click.echo(f"device/{device.label}")
    elif request.format.is_table:
        now = utc_now()
        rows = [_row(device, now, wide=request.format.is_wide) for device in selected]
        tables.show([_header(wide=request.format.is_wide), *rows], has_header=True)
    else:
        formats.show_document({"kind": "DeviceList", "items": selected}, request.format)


def _is_meant(device: PublishedDevice, names: Sequence[str]) -> bool:
    return not names or any(
        name in (device.label, device.pool, device.name, device.node) for name in names
    )


async def published_devices(session: Session) -> list[PublishedDevice]:
    """Read every device of a cluster that the user may read."""
    slices, claims, rules = await _inputs(session)
    holders = _holders(claims)
    return [_device(*tainted, holders) for tainted in _tainted(slices, rules)]


async def published_states(session: Session) -> dict[DeviceId, str]:
    """Read the state of every device, which is quicker than the devices themselves."""
    return states(*await _inputs(session))


async def _inputs(
    session: Session,
) -> tuple[list[ResourceSlice], list[ResourceClaim], list[DeviceTaintRule]]:
    slices = await _read(session, kinds.RESOURCE_SLICE, ResourceSlice)
    claims = await _read(session, kinds.RESOURCE_CLAIM, ResourceClaim)
    try:
        rules = await _read(session, kinds.DEVICE_TAINT_RULE, DeviceTaintRule)
    except (ObjectNotFound, errors.Forbidden):
        # Not every cluster has rules, and not everybody may read them.
        rules = []
    return slices, claims, rules


async def _read(session: Session, kind: Kind, type_: type[Any]) -> list[Any]:
    (served,) = await session.resources.named(f"{kind.plural}.{kind.group}")
    documents = await listing.listed(session, served, ObjectSelection())
    stored = [canonical.prune_nulls(versions.to_storage(document)) for document in documents]
    return [msgspec.convert(document, type_) for document in stored]


def states(
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim],
    rules: Sequence[DeviceTaintRule] = (),
) -> dict[DeviceId, str]:
    """Return the state of every device of every pool's newest generation."""
    holders = _holders(claims)
    result = {}
    for resource_slice, device in _tainted(slices, rules):
        key = DeviceId(*resource_slice.pool_id, device.name)
        result[key] = _state(device.taints, holders.get(key, ()))
    return result


def _tainted(
    slices: Iterable[ResourceSlice], rules: Sequence[DeviceTaintRule]
) -> Iterator[tuple[ResourceSlice, Device]]:
    """Yield every device with its own taints and those of rules."""
    for resource_slice in pools.current_slices_of_pools(slices):
        concerned = taints.rules_for_pool(*resource_slice.pool_id, rules)
        for device in resource_slice.spec.devices:
            if not concerned:
                yield resource_slice, device
                continue
            tainted = taints.with_rules(device.taints, device.name, concerned)
            yield resource_slice, msgspec.structs.replace(device, taints=tainted)


def _holders(claims: Iterable[ResourceClaim]) -> dict[DeviceId, list[ClaimHolder]]:
    by_device: dict[DeviceId, list[ClaimHolder]] = {}
    for claim in claims:
        allocation = claim.status.allocation
        if allocation is None:
            continue
        users = (f"{consumer.resource}/{consumer.name}" for consumer in claim.status.reserved_for)
        used_by = tuple(users)
        for result in allocation.devices.results:
            holder = ClaimHolder(
                *claim.key,
                result.request,
                allocation.allocation_timestamp or "",
                used_by,
                result.share_id or "",
                result.consumed_capacity,
                bool(result.admin_access),
            )
            by_device.setdefault(result.device_id, []).append(holder)
    return by_device


def _device(
    resource_slice: ResourceSlice, device: Device, holders: Mapping[DeviceId, list[ClaimHolder]]
) -> PublishedDevice:
    spec = resource_slice.spec
    key = DeviceId(*resource_slice.pool_id, device.name)
    return PublishedDevice(
        driver=spec.driver,
        pool=spec.pool.name,
        name=device.name,
        node=device.node_name or spec.node_name or "",
        attributes={name: _value(value) for name, value in device.attributes.items()},
        capacity={name: value.value for name, value in device.capacity.items()},
        taints=device.taints,
        shareable=bool(device.allow_multiple_allocations),
        holders=tuple(holders.get(key, ())),
    )


def _value(attribute: DeviceAttribute) -> Any:
    """Return the one value that is set."""
    return next(iter(msgspec.to_builtins(attribute).values()), None)


def text_of(attribute: DeviceAttribute) -> str:
    """Return the value as tables show it."""
    return tables.cell_text(_value(attribute))


def _header(*, wide: bool) -> list[str]:
    header = ["DEVICE", "DRIVER", "NODE", "STATE", "TAINTS", "HELD BY", "USED BY", "SINCE"]
    return [*header, "CAPACITY", "ATTRIBUTES"] if wide else [*header, "CAPACITY"]


def _row(device: PublishedDevice, now: datetime.datetime, *, wide: bool) -> list[str]:
    row = [
        device.label,
        device.driver,
        device.node or "<any>",
        _state(device.taints, device.holders),
        _some([f"{taint.key}:{taint.effect}" for taint in device.taints]),
        _some([f"{holder.namespace}/{holder.claim}" for holder in device.holders]),
        _some([user for holder in device.holders for user in holder.used_by]),
        _some([since(holder.since, now) for holder in device.holders if holder.since]),
        _pairs(device.capacity),
    ]
    return [*row, _pairs(device.attributes)] if wide else row


def _state(tainted: Iterable[DeviceTaint], holders: Iterable[ClaimHolder]) -> str:
    exclusive = [not holder.share_id for holder in holders if not holder.admin_access]
    return device_state(is_owned=any(exclusive), is_shared=bool(exclusive), taints=tainted)


def _some(values: Sequence[str]) -> str:
    """Return the first values in one line, and the number of the others."""
    if not values:
        return "<none>"
    shown = ",".join(values[:2])
    return f"{shown} +{len(values) - 2} more..." if len(values) > 2 else shown


def _pairs(values: Mapping[str, Any]) -> str:
    texts = (f"{name}={tables.cell_text(value)}" for name, value in sorted(values.items()))
    return ",".join(texts) or "<none>"

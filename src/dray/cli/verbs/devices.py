"""`dray get devices`: every device with its state, model, memory, taints and holders."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec

from dray.api.formats.durations import since
from dray.api.selectors import field_selectors, label_selectors
from dray.cli.command_errors import ObjectNotFound, WrongUsage
from dray.cli.inputs import device_watch, published_devices
from dray.cli.inputs.published_devices import PublishedDevice
from dray.cli.output import colours, formats, tables
from dray.cli.session import progress
from dray.cli.session.connection import Session
from dray.cli.verbs import listing
from dray.cli.verbs.listing import GetRequest
from dray.clock import utc_now

NONE = "-"
FIELDS = ("driver", "pool", "name", "node", "state", "model", "partitionOf", "tainted", "unhealthy")
"""Fields for --field-selector, besides attributes.NAME and capacity.NAME."""
_HONOURED = frozenset(
    {
        *("words", "format", "label_selector", "field_selector", "sort_by", "watch", "headers"),
        *("show_labels", "ignore_not_found", "all_namespaces", "show_partitions"),
    }
)


async def show(session: Session, request: GetRequest) -> None:
    """Print the devices. Names on the command line are POOL/DEVICE, POOL, DEVICE or NODE."""
    _refuse_others(request)
    select = _Selector(request)
    with progress.shown("Asking the cluster"):
        found, objects = await published_devices.read(session)
    for line in published_devices.limits(objects):
        click.echo(line, err=True)
    _print(chosen(found, request), request, headers=request.headers)
    if request.watch:
        async for changed in device_watch.changes(session, found):
            _print(_sorted(filter(select, changed), request), request, headers=False)


def chosen(found: Sequence[PublishedDevice], request: GetRequest) -> list[PublishedDevice]:
    """Return the devices that a request names and selects, in its order.

    Raises ObjectNotFound for a name without a device.
    """
    _require_named(found, request)
    return _sorted(filter(_Selector(request), found), request)


def document(selected: Sequence[PublishedDevice]) -> dict[str, Any]:
    return {"kind": "DeviceList", "items": list(selected)}


def _refuse_others(request: GetRequest) -> None:
    """Raise WrongUsage for an option that does nothing for devices."""
    for field in dataclasses.fields(request):
        if field.name not in _HONOURED and getattr(request, field.name):
            option = "--filename" if field.name == "files" else f"--{field.name.replace('_', '-')}"
            raise WrongUsage(f"{option} has no meaning for devices", "Leave it out.")


def _require_named(found: Sequence[PublishedDevice], request: GetRequest) -> None:
    for name in request.words[1:]:
        if not request.ignore_not_found and not any(_is_meant(item, [name]) for item in found):
            raise ObjectNotFound(f"there is no device {name}", "See: dray get devices")


def _is_meant(device: PublishedDevice, names: Sequence[str]) -> bool:
    return not names or any(
        name in (device.label, device.pool, device.name, device.node) for name in names
    )


class _Selector:
    """Decides which devices are shown: by name, by attributes and by fields."""

    def __init__(self, request: GetRequest) -> None:
        self._names = request.words[1:]
        try:
            self._attributes = label_selectors.parse(request.label_selector)
            self._fields = field_selectors.parse_fields(request.field_selector)
        except label_selectors.SelectorError as error:
            raise WrongUsage(str(error)) from error
        for term in self._fields.terms:
            if term.field not in FIELDS and not term.field.startswith(("attributes.", "capacity.")):
                known = ", ".join((*FIELDS, "attributes.NAME", "capacity.NAME"))
                raise WrongUsage(
                    f"--field-selector: devices have no field {term.field}", f"Use one of: {known}"
                )

    def __call__(self, device: PublishedDevice) -> bool:
        return (
            _is_meant(device, self._names)
            and self._attributes.matches(_Attributes(device))
            and self._fields.matches(
                {term.field: _field(device, term.field) for term in self._fields.terms}
            )
        )


class _Attributes(Mapping[str, str]):
    """The attributes of a device as labels; each also without its domain."""

    def __init__(self, device: PublishedDevice) -> None:
        self._device = device

    def __getitem__(self, name: str) -> str:
        value = published_devices.attribute(self._device, name)
        if value is None:
            raise KeyError(name)
        return tables.cell_text(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._device.attributes)

    def __len__(self) -> int:
        return len(self._device.attributes)


def _field(device: PublishedDevice, name: str) -> str:
    kind, _, rest = name.partition(".")
    if kind == "attributes":
        return _Attributes(device).get(rest, "")
    if kind == "capacity":
        return device.capacity.get(rest, "")
    value = msgspec.to_builtins(device).get(name, "" if name not in _FLAGS else False)
    return tables.cell_text(value)


_FLAGS = ("tainted", "unhealthy")


def _sorted(selected: Iterable[PublishedDevice], request: GetRequest) -> list[PublishedDevice]:
    if not request.sort_by:
        return list(selected)
    return sorted(
        selected,
        key=lambda device: listing.sort_key(msgspec.to_builtins(device), request.sort_by),
    )


def _print(selected: Sequence[PublishedDevice], request: GetRequest, *, headers: bool) -> None:
    if request.format.name == "name":
        for device in selected:
            click.echo(f"device/{device.label}")
    elif request.format.is_table:
        rows = list(_rows(selected, request, utc_now()))
        if headers and rows:
            rows.insert(0, _header(request))
        tables.show(rows, has_header=headers)
        if not selected and headers:
            click.echo("No devices found", err=True)
    elif selected or headers:
        formats.show_document(document(selected), request.format, headers=headers)


def _header(request: GetRequest) -> list[str]:
    header = ["DEVICE", "DRIVER", "NODE", "MODEL", "MEMORY", "STATE", "TAINTS", "UNHEALTHY"]
    header += ["HELD BY", "USED BY", "SINCE"]
    if request.format.is_wide:
        header.append("CAPACITY")
    return [*header, "ATTRIBUTES"] if request.format.is_wide or request.show_labels else header


def _rows(
    selected: Sequence[PublishedDevice], request: GetRequest, now: datetime.datetime
) -> Iterator[list[str]]:
    """Yield the lines; the partitions of a device that nobody holds are one line.

    Partitions are listed one by one if asked for, if devices are named, and in another order.
    """
    one_by_one = request.show_partitions or request.words[1:] or request.sort_by
    if one_by_one:
        for device in selected:
            yield _row(device, request, now)
        return
    for group in published_devices.groups(selected):
        collapsed = [item for item in group if item.partition_of and not item.holders]
        hidden = {id(item) for item in collapsed} if len(collapsed) > 1 else set()
        for device in group:
            if id(device) not in hidden:
                yield _row(device, request, now)
        if hidden:
            yield _collapsed(collapsed, request)


def _collapsed(partitions: Sequence[PublishedDevice], request: GetRequest) -> list[str]:
    first = partitions[0]
    counts = published_devices.count_by_state(partitions)
    state = ", ".join(f"{number} {name}" for name, number in counts.items())
    details = {item.described_state for item in partitions}
    if len(counts) == 1 and len(details) == 1:
        state = f"{len(partitions)} {details.pop()}"
    colour = next(iter(colours.STATES[name] for name in counts))
    row = [
        f"{first.pool}/{first.partition_of} ({len(partitions)} partitions)",
        first.driver,
        first.node or "<any>",
        *(NONE, NONE),
        colours.coloured(state, colour),
    ]
    return row + [NONE] * (len(_header(request)) - len(row))


def _row(device: PublishedDevice, request: GetRequest, now: datetime.datetime) -> list[str]:
    holders = device.holders
    row = [
        device.label,
        device.driver,
        device.node or ("<any>" if device.state != "missing" else NONE),
        device.model or NONE,
        device.memory or NONE,
        colours.state(device.described_state),
        _tainted(device),
        colours.coloured("yes", colours.BAD) if device.unhealthy else NONE,
        _some([f"{holder.namespace}/{holder.claim}" for holder in holders]),
        _some([user for holder in holders for user in holder.used_by]),
        _some([since(holder.since, now) for holder in holders if holder.since]),
    ]
    if request.format.is_wide:
        row.append(_pairs(device.capacity))
    if request.format.is_wide or request.show_labels:
        row.append(_pairs(device.attributes))
    return row


def _tainted(device: PublishedDevice) -> str:
    text = _some([f"{taint.key}:{taint.effect}" for taint in device.taints])
    return colours.coloured(text, colours.WARNING) if device.tainted else text


def _some(values: Sequence[str]) -> str:
    """Return the first values in one line, and the number of the others."""
    if not values:
        return NONE
    shown = ",".join(values[:2])
    return f"{shown} +{len(values) - 2} more..." if len(values) > 2 else shown


def _pairs(values: Mapping[str, Any]) -> str:
    texts = (f"{name}={tables.cell_text(value)}" for name, value in sorted(values.items()))
    return ",".join(texts) or NONE

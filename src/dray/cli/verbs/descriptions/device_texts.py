"""`dray describe device`: a device with its attributes, capacity, taints and holders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dray.cli.command_errors import ObjectNotFound
from dray.cli.inputs import published_devices
from dray.cli.inputs.published_devices import PublishedDevice
from dray.cli.output import tables
from dray.cli.session.connection import Session
from dray.cli.verbs.descriptions import pods
from dray.explain.text import phrases

PADDING = 2


async def texts(session: Session, names: Sequence[str]) -> list[str]:
    """Return the description of every named device. Raises ObjectNotFound."""
    published, _ = await published_devices.read(session)
    for name in names:
        if not any(name in _names(device) for device in published):
            raise ObjectNotFound(f"there is no device {name}", "See: dray get devices")
    return [
        "\n".join(
            tables.aligned(
                (line.split("\t") for line in _lines(device)), min_width=0, padding=PADDING
            )
        )
        for device in published
        if not names or _names(device) & set(names)
    ]


def _names(device: PublishedDevice) -> set[str]:
    """Return what a device can be called: POOL/DEVICE, DRIVER/POOL/DEVICE or DEVICE."""
    return {device.label, f"{device.driver}/{device.label}", device.name}


def _lines(device: PublishedDevice) -> Iterator[str]:
    yield f"Name:\t{device.name}"
    yield f"Pool:\t{device.pool}"
    yield f"Driver:\t{device.driver}"
    yield f"Node:\t{device.node or '<any>'}"
    yield f"State:\t{device.described_state}"
    yield f"Unhealthy:\t{str(device.unhealthy).lower()}"
    yield from _pairs("Attributes", device.attributes)
    yield from _pairs("Capacity", device.capacity)
    yield f"Allow Multiple Allocations:\t{str(device.shareable).lower()}"
    taints = [phrases.taint(taint) for taint in device.taints]
    yield from pods.multiline("Taints", taints)
    yield "Held By:" if device.holders else "Held By:\t<none>"
    for holder in device.holders:
        yield f"  Claim:\t{holder.namespace}/{holder.claim} (request {holder.request})"
        yield f"    Used By:\t{', '.join(holder.used_by) or '<none>'}"
        if holder.since:
            yield f"    Since:\t{holder.since}"
        if holder.admin_access:
            yield "    Admin Access:\ttrue"
        yield from (
            f"    Consumed {name}:\t{amount}"
            for name, amount in sorted(holder.consumed_capacity.items())
        )


def _pairs(title: str, values: dict[str, object] | dict[str, str]) -> Iterator[str]:
    yield f"{title}:" if values else f"{title}:\t<none>"
    for name, value in sorted(values.items()):
        yield f"  {name}:\t{tables.cell_text(value)}"

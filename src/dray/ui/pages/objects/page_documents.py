"""The parts of the page of one object: facts, the chain of what it is joined with, events, YAML."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from dray.api import errors, kinds
from dray.api.formats import serialization
from dray.api.ids import DeviceId
from dray.api.types.core import CoreEvent
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client, ObjectSelection

EVENTS_SHOWN: Final = 100
YAML_BYTES: Final = 2**18
"""Longer objects are shown as JSON: a YAML writer takes long for them."""
STEPS_SHOWN: Final = 512


class Link(msgspec.Struct, frozen=True, omit_defaults=True):
    """Another page of the dashboard."""

    kind: str
    ns: str = ""
    name: str = ""
    key: str = ""


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    label: str
    value: str
    link: Link | None = None


class ChainStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One object in the chain claim, request, device, node, container, and its state."""

    step: str
    text: str
    state: str
    link: Link | None = None


class EventLine(msgspec.Struct, frozen=True):
    time: str | None
    type: str
    reason: str
    message: str
    count: int


class ObjectPage(msgspec.Struct, frozen=True):
    """The page of one object, as it is on the wire."""

    title: str
    kind: str
    facts: Sequence[Fact]
    chain: Sequence[ChainStep]
    events: Sequence[EventLine]
    yaml: str


def fact(label: str, value: object, link: Link | None = None) -> list[Fact]:
    """Return a fact; nothing without a value."""
    return [Fact(label, str(value), link)] if value not in (None, "") else []


def device_link(device: DeviceId | str) -> Link:
    return Link("device", key=str(device))


def node_link(name: str) -> Link:
    return Link("node", name=name)


def pod_link(namespace: str, name: str) -> Link:
    return Link("pod", namespace, name)


def claim_link(namespace: str, name: str) -> Link:
    return Link("claim", namespace, name)


async def events_about(
    client: Client, kind: str, name: str, namespace: str = ""
) -> list[EventLine]:
    """Return the events about an object, the newest first; none if they may not be read."""
    fields = f"involvedObject.kind={kind},involvedObject.name={name}"
    selection = ObjectSelection(namespace, field_selector=fields)
    try:
        page = await client.list(kinds.EVENT, selection)
    except errors.StatusError:
        return []
    found = [msgspec.json.decode(item, type=CoreEvent) for item in page.items]
    lines = [_line(event) for event in found]
    return sorted(lines, key=lambda line: line.time or "", reverse=True)[:EVENTS_SHOWN]


def _line(event: CoreEvent) -> EventLine:
    series = event.series
    time = (series.last_observed_time if series else None) or event.last_timestamp
    count = (series.count if series else 0) or event.count or 1
    return EventLine(
        time or event.event_time or event.metadata.creation_timestamp,
        event.type,
        event.reason,
        event.message,
        count,
    )


async def yaml_of(document: JsonObject) -> str:
    """Return an object as text, without the owners of its fields."""
    shown = dict(document)
    metadata = dict(shown.get("metadata") or {})
    metadata.pop("managedFields", None)
    if metadata:
        shown["metadata"] = metadata
    size = len(msgspec.json.encode(shown))
    if size > YAML_BYTES:
        return await asyncio.to_thread(serialization.write_json, shown, indent=2)
    return await asyncio.to_thread(serialization.write_yaml, shown)


def labels_text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))


def shown(steps: Iterable[ChainStep]) -> list[ChainStep]:
    """Return the first steps: an object may have thousands."""
    found: list[ChainStep] = []
    for step in steps:
        if len(found) == STEPS_SHOWN:
            found.append(ChainStep(step.step, "and more", ""))
            break
        found.append(step)
    return found

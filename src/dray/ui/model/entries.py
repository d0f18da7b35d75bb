"""The parts of the state that the page gets, as they are on the wire. Names are short on purpose:
a large fleet has tens of thousands of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class CellShape(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Devices of one model. `slots` is 0 for devices without partitions at places."""

    driver: str
    model: str
    slots: int = msgspec.field(name="slots")
    classes: tuple[str, ...] = msgspec.field(name="classes")
    attributes: Mapping[str, Any] = msgspec.field(name="attributes")
    memory: str = ""


class NodeCard(msgspec.Struct, frozen=True, gc=False):
    """A node as the map of devices shows it."""

    ready: bool
    cordoned: bool
    labels: Mapping[str, str]
    simulated: bool


class Part(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A partition: its key, first slot, number of slots, state, holders, users and marks."""

    k: str
    o: int = msgspec.field(name="o")
    w: int = msgspec.field(name="w")
    st: str = msgspec.field(name="st")
    h: tuple[str, ...] = ()
    u: tuple[str, ...] = ()
    m: tuple[str, ...] = ()


class Cell(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A device with its partitions: node, shape, state, text, how full, marks, holders, users."""

    n: str
    s: str
    st: str
    t: str = ""
    f: int = 0
    m: tuple[str, ...] = ()
    h: tuple[str, ...] = ()
    u: tuple[str, ...] = ()
    p: tuple[Part, ...] = ()


class WaitingEntry(msgspec.Struct, frozen=True, gc=False):
    """A pod or claim that waits, and why."""

    since: str
    kind: str
    ns: str
    name: str
    reason: str = ""
    short: str = ""
    fix: str = ""

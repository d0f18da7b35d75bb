"""The base class of a driver: its devices, their preparation and their health.

Only `devices` must be written. `prepare`, `unprepare` and `health` may be plain or async functions;
plain ones should not wait for long, as they run on the event loop. Whatever they raise concerns one
claim or one look at the devices; it never ends the driver.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dray.api.types import dra
from dray.api.types.dra import Device, DeviceAttribute
from dray.api.types.meta import Condition, ObjectMeta
from dray.api.well_known import NO_EXECUTE, UNHEALTHY_TAINT
from dray.driverkit.cdi import NO_EDITS, Edits


class PrepareError(Exception):
    """A claim cannot be prepared or unprepared now; the text reaches the pod's events."""


class Health(enum.Enum):
    UNKNOWN = 0
    HEALTHY = 1
    UNHEALTHY = 2


@dataclass(frozen=True)
class DeviceHealth:
    """The health of a device. Unhealthy devices are tainted with `effect`, unless it is None."""

    device: str
    health: Health
    message: str = ""
    effect: str | None = NO_EXECUTE
    reason: str = ""
    """The value of the taint: a word, of the form that a label's value has."""


def unhealthy_key(driver: str) -> str:
    """The key of the taint that unhealthy devices of a driver have."""
    return f"{driver}/{UNHEALTHY_TAINT}"


class DeviceStatus(msgspec.Struct, frozen=True):
    """The public status of a device in use; becomes part of its claim's status."""

    conditions: tuple[Condition, ...] = ()
    data: Any = None
    """Anything that JSON can hold, up to 10 KiB."""
    network: dra.NetworkDeviceData | None = None


def condition(type_: str, is_true: bool, reason: str, message: str = "") -> Condition:
    """Return a condition of a device; the kit adds the time of its last change."""
    return Condition(type_, "True" if is_true else "False", reason=reason, message=message)


@dataclass(frozen=True)
class Prepared:
    """The result of `prepare` where it has more than edits."""

    edits: Edits = NO_EDITS
    status: DeviceStatus | None = None
    attributes: Mapping[str, DeviceAttribute] = field(default_factory=dict)
    """Attributes for the device metadata file, besides the published ones."""


@dataclass(frozen=True)
class Allocated:
    """One device of a claim on this node, to be prepared."""

    claim: dra.ResourceClaim
    result: dra.DeviceRequestAllocationResult
    device: Device
    config: tuple[Any, ...] = ()
    """Parameters of the class and the claim for this driver and request, in that order."""

    @property
    def name(self) -> str:
        return self.result.device

    @property
    def is_shared(self) -> bool:
        """Whether another claim may have the device at the same time."""
        return self.result.share_id is not None or bool(self.result.admin_access)

    def attribute(self, name: str) -> Any:
        """Return the value of one of the device's attributes, or None where it is missing."""
        value = self.device.attributes.get(name)
        return next(iter(msgspec.to_builtins(value).values()), None) if value else None


@dataclass(frozen=True)
class Released:
    """A device that was prepared and is not needed any more; its claim may be gone already."""

    namespace: str
    claim: str
    claim_uid: str
    pool: str
    name: str
    share_id: str | None = None


Outcome = Edits | Prepared


class Driver(abc.ABC):
    """One kind of devices on one node."""

    name: str
    """The driver's name in slices and classes: a DNS name that its vendor owns."""
    skip_node_operations: tuple[str, ...] = ()
    """Calls its devices do not need: NodePrepareResources, NodeUnprepareResources, * for both."""

    def __init__(self) -> None:
        self.changed: Callable[[], object] = lambda: None
        """Call this when what `devices` or `health` return has changed, from any thread."""
        self.abort: Callable[[Exception], object] = lambda _error: None
        """Call this when the driver cannot go on. It ends; a supervisor has to start it again."""
        self.report: Callable[[str, str, DeviceStatus], None] = lambda _uid, _device, _status: None
        """Call this with a claim's uid, a device and its status when that has changed since
        `prepare`, from any thread."""

    @abc.abstractmethod
    def devices(self) -> Iterable[Device]:
        """Return the devices of the node at this moment."""

    def devices_elsewhere(self) -> Mapping[str, Iterable[Device]]:
        """Return network devices by pool, which this node prepares and something else publishes."""
        return {}

    def shared_counters(self) -> Iterable[dra.CounterSet]:
        """Return the counter sets that partitionable devices consume."""
        return ()

    def prepare(self, allocated: Allocated) -> Outcome | Awaitable[Outcome]:
        """Make the device ready and return the changes to its containers. May be called again.

        Raises PrepareError; then `unprepare` is called for it.
        """
        return NO_EDITS

    def unprepare(self, released: Released) -> Awaitable[None] | None:
        """Undo `prepare`, also where that has failed halfway. May be called again."""
        return None

    def node_changed(self, node: ObjectMeta) -> None:
        """The labels and annotations of this driver's Node, first and whenever they change."""
        return None

    def health(self) -> Iterable[DeviceHealth] | Awaitable[Iterable[DeviceHealth]]:
        """Return the health of devices; those that are left out are healthy."""
        return ()


@dataclass(frozen=True)
class DeviceOptions:
    """The optional parts of a device besides its attributes."""

    capacity: Mapping[str, str] = field(default_factory=dict)
    share: bool = False


def device(name: str, options: DeviceOptions | None = None, **attributes: Any) -> Device:
    """Return a device with attributes from plain values: ints, bools, strings and lists of them.

    Names with a domain and versions need `driverkit.DeviceAttribute`, which is kept as it is.
    """
    chosen = options or DeviceOptions()
    return Device(
        name=name,
        attributes={key: _attribute(key, value) for key, value in attributes.items()},
        capacity={key: dra.DeviceCapacity(value) for key, value in chosen.capacity.items()},
        allow_multiple_allocations=True if chosen.share else None,
    )


def _attribute(name: str, value: Any) -> DeviceAttribute:
    match value:
        case DeviceAttribute():
            return value
        case bool():
            return DeviceAttribute(bool_value=value)
        case int():
            return DeviceAttribute(int_value=value)
        case str():
            return DeviceAttribute(string_value=value)
        case [bool(), *_]:
            return DeviceAttribute(bool_values=tuple(value))
        case [int(), *_]:
            return DeviceAttribute(int_values=tuple(value))
        case [str(), *_]:
            return DeviceAttribute(string_values=tuple(value))
    raise TypeError(f"attribute {name} cannot be {value!r}; capacity is in DeviceOptions")

"""The base class of a driver: what there is, how to prepare it, how it is.

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

from dray.api.types.dra import (
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceRequestAllocationResult,
    NetworkDeviceData,
    ResourceClaim,
)
from dray.api.types.meta import Condition, ObjectMeta
from dray.api.well_known import NO_EXECUTE
from dray.driverkit.cdi import NO_EDITS, Edits


class PrepareError(Exception):
    """A claim cannot be prepared or unprepared now; the text reaches the pod's events."""


class Health(enum.Enum):
    UNKNOWN = 0
    HEALTHY = 1
    UNHEALTHY = 2


@dataclass(frozen=True)
class DeviceHealth:
    """How a device is. Unhealthy devices are tainted with `effect`, if there is one."""

    device: str
    health: Health
    message: str = ""
    effect: str | None = NO_EXECUTE
    reason: str = ""
    """The value of the taint: a word, of the form that a label's value has."""


def unhealthy_key(driver: str) -> str:
    """The key of the taint that unhealthy devices of a driver have."""
    return f"{driver}/unhealthy"


class DeviceStatus(msgspec.Struct, frozen=True):
    """What everybody may know of a device in use: it becomes part of its claim's status."""

    conditions: tuple[Condition, ...] = ()
    data: Any = None
    """Anything that JSON can hold, up to 10 KiB."""
    network: NetworkDeviceData | None = None


def condition(type_: str, is_true: bool, reason: str, message: str = "") -> Condition:
    """A condition of a device; the kit notes when it changed last."""
    return Condition(type_, "True" if is_true else "False", reason=reason, message=message)


@dataclass(frozen=True)
class Prepared:
    """What `prepare` returns where edits are not all there is to say."""

    edits: Edits = NO_EDITS
    status: DeviceStatus | None = None
    attributes: Mapping[str, DeviceAttribute] = field(default_factory=dict)
    """Told to the container besides the published ones, in the device metadata file."""


@dataclass(frozen=True)
class Allocated:
    """One device of a claim on this node: what to prepare."""

    claim: ResourceClaim
    result: DeviceRequestAllocationResult
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
        """The value of one of the device's attributes; None where it has none."""
        found = self.device.attributes.get(name)
        return next(iter(msgspec.to_builtins(found).values()), None) if found else None


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
        """Call this when the driver cannot go on: it ends, and whoever runs it starts it again."""
        self.report: Callable[[str, str, DeviceStatus], None] = lambda _uid, _device, _status: None
        """Call this with a claim's uid, a device and its status when that has changed since
        `prepare`, from any thread."""

    @abc.abstractmethod
    def devices(self) -> Iterable[Device]:
        """What there is now."""

    def devices_elsewhere(self) -> Mapping[str, Iterable[Device]]:
        """By pool: devices on a network that this node can prepare and something else publishes."""
        return {}

    def shared_counters(self) -> Iterable[CounterSet]:
        """What partitionable devices draw on."""
        return ()

    def prepare(self, allocated: Allocated) -> Outcome | Awaitable[Outcome]:
        """Make the device ready and say what changes in its containers. May be called again.

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
        """How the devices are; those not named are healthy."""
        return ()


@dataclass(frozen=True)
class DeviceOptions:
    """What a device may have besides attributes."""

    capacity: Mapping[str, str] = field(default_factory=dict)
    share: bool = False


def device(name: str, options: DeviceOptions | None = None, **attributes: Any) -> Device:
    """A device from plain values: ints, bools, strings and lists of them.

    Names with a domain and versions need `dray.api.types.dra.DeviceAttribute`; it is kept as it is.
    """
    chosen = options or DeviceOptions()
    return Device(
        name=name,
        attributes={key: _attribute(value) for key, value in attributes.items()},
        capacity={key: DeviceCapacity(value) for key, value in chosen.capacity.items()},
        allow_multiple_allocations=True if chosen.share else None,
    )


def _attribute(value: Any) -> DeviceAttribute:
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
    raise TypeError(f"an attribute cannot be {value!r}")

"""Rejections of devices and requests, as data, and the errors of an allocation.

A `Rejection` names the check, the objects and the numbers; texts are made elsewhere. Checks return
device rejections; proofs and the search return request rejections. An `AllocationError` is
something else: input that cannot be evaluated, in upstream's words.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from dray.api.ids import ClaimKey, DeviceId
from dray.api.types.dra import DeviceTaint, ResourceClaim


class CheckName(enum.StrEnum):
    """Every check, in upstream's order."""

    USAGE = "usage"
    BINDING_CONDITIONS = "binding conditions"
    CLASS_SELECTORS = "class selectors"
    REQUEST_SELECTORS = "request selectors"
    NODE_SELECTION = "node selection"
    CAPACITY = "capacity"
    NODE_OPERATIONS = "node operations"
    GROUPS = "compatibility groups"
    COUNTERS = "counters"
    TAINTS = "taints"
    CONSTRAINTS = "constraints"


class Rejection(msgspec.Struct, frozen=True, tag_field="rejection", tag=True):
    """A reason why something cannot be allocated."""


class DeviceRejection(Rejection, frozen=True):
    """One check rejects one device."""

    device: DeviceId

    @property
    def check(self) -> CheckName:
        return _CHECK_OF[type(self)]


class DeviceInUse(DeviceRejection, frozen=True):
    """Another claim holds the device for itself."""

    holders: tuple[ClaimKey, ...] = ()


class DevicePicked(DeviceRejection, frozen=True):
    """The same pod has already picked the device in this attempt."""


class BindingConditionsDisabled(DeviceRejection, frozen=True):
    conditions: tuple[str, ...]


class SelectorNotMatched(DeviceRejection, frozen=True):
    """A selector is false; of the class if `device_class` is set, else of the request."""

    index: int
    expression: str
    device_class: str | None = None

    @property
    def check(self) -> CheckName:
        return CheckName.CLASS_SELECTORS if self.device_class else CheckName.REQUEST_SELECTORS


class NodeMismatch(DeviceRejection, frozen=True):
    """The device is on other nodes only."""

    node: str


class CapacityMissing(DeviceRejection, frozen=True):
    """The device does not have the requested capacity."""

    capacity: str


class CapacityAgainstPolicy(DeviceRejection, frozen=True):
    """The device's request policy does not allow the amount, after rounding."""

    capacity: str
    needed: str


class InsufficientCapacity(DeviceRejection, frozen=True):
    capacity: str
    needed: str
    available: str
    total: str
    holders: tuple[ClaimKey, ...] = ()


class NodeOperationsDisabled(DeviceRejection, frozen=True):
    """The gate is off, or the node does not declare the feature."""

    operations: tuple[str, ...]
    node_lacks_feature: bool


class CountersDisabled(DeviceRejection, frozen=True):
    """The device is a partition and the gate is off."""


class GroupsIncompatible(DeviceRejection, frozen=True):
    counter_set: str
    groups: tuple[str, ...]
    present: tuple[str, ...]
    holders: tuple[ClaimKey, ...] = ()


class InsufficientCounter(DeviceRejection, frozen=True):
    counter_set: str
    counter: str
    needed: str
    available: str
    holders: tuple[ClaimKey, ...] = ()


class TaintNotTolerated(DeviceRejection, frozen=True):
    taint: DeviceTaint


class AttributeAbsent(DeviceRejection, frozen=True):
    constraint: int
    attribute: str


class AttributeIncomparable(DeviceRejection, frozen=True):
    """The attribute has a form that the constraint cannot compare."""

    constraint: int
    attribute: str


class AttributeDiffers(DeviceRejection, frozen=True):
    """matchAttribute: the devices picked before have another value."""

    constraint: int
    attribute: str
    value: str
    wanted: str


class AttributeRepeated(DeviceRejection, frozen=True):
    """distinctAttribute: a device picked before has the same value."""

    constraint: int
    attribute: str
    value: str


class RequestRejection(Rejection, frozen=True):
    """A whole request is rejected; `claim` is the position of its claim in the search."""

    claim: int
    request: str


class TooFewDevices(RequestRejection, frozen=True):
    """Fewer devices are eligible and free than the request needs."""

    needed: int
    matching: int
    free: int


class TooFewDevicesCombined(RequestRejection, frozen=True):
    """The requests of all claims together need more devices than are free."""

    needed: int
    free: int


class NoCommonValue(RequestRejection, frozen=True):
    """No value of the matchAttribute has enough free devices."""

    attribute: str
    needed: int
    best: int
    best_value: str


class TooFewValues(RequestRejection, frozen=True):
    """Fewer different values of the distinctAttribute than devices needed."""

    attribute: str
    needed: int
    values: int


class NoMatchForAllMode(RequestRejection, frozen=True):
    """allocationMode All, and no device matches."""


class TooManyResults(RequestRejection, frozen=True):
    """The chosen alternatives need more devices than one claim may have."""

    needed: int


class NoCombination(RequestRejection, frozen=True):
    """The search found no combination; `last` stopped its deepest attempt."""

    last: DeviceRejection | None = None


class NoDevices(Rejection, frozen=True):
    """The node has no free device."""


_CHECK_OF: dict[type[DeviceRejection], CheckName] = {
    DeviceInUse: CheckName.USAGE,
    DevicePicked: CheckName.USAGE,
    BindingConditionsDisabled: CheckName.BINDING_CONDITIONS,
    NodeMismatch: CheckName.NODE_SELECTION,
    CapacityMissing: CheckName.CAPACITY,
    CapacityAgainstPolicy: CheckName.CAPACITY,
    InsufficientCapacity: CheckName.CAPACITY,
    NodeOperationsDisabled: CheckName.NODE_OPERATIONS,
    CountersDisabled: CheckName.COUNTERS,
    GroupsIncompatible: CheckName.GROUPS,
    InsufficientCounter: CheckName.COUNTERS,
    TaintNotTolerated: CheckName.TAINTS,
    AttributeAbsent: CheckName.CONSTRAINTS,
    AttributeIncomparable: CheckName.CONSTRAINTS,
    AttributeDiffers: CheckName.CONSTRAINTS,
    AttributeRepeated: CheckName.CONSTRAINTS,
}


class AllocationError(Exception):
    """The claims cannot be allocated on any node, or not on this one if `on_node_only`.

    A cached error is raised for every claim of one signature, so it has the claim's position, and
    `text` needs the claims. `request` names a request, a subrequest or a constraint as upstream
    does.
    """

    def __init__(
        self,
        detail: str,
        *,
        claim: int | None = None,
        request: str = "",
        on_node_only: bool = False,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.claim = claim
        self.request = request
        self.on_node_only = on_node_only

    def text(self, claims: Sequence[ResourceClaim]) -> str:
        """Return upstream's message."""
        if self.claim is None:
            return self.detail
        where = f", {self.request}" if self.request else ""
        return f"claim {object_reference(claims[self.claim])}{where}: {self.detail}"


class SearchTimeout(AllocationError):
    """The search reached its time limit: `should_stop` returned True."""


def object_reference(claim: ResourceClaim) -> str:
    """Return the claim's name for upstream's messages (klog.KObj)."""
    namespace, name = claim.metadata.namespace, claim.metadata.name
    return f"{namespace}/{name}" if namespace else name

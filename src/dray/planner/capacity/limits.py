"""The checks that limit a number of pods, in short words."""

from __future__ import annotations

from collections.abc import Iterator

from dray.allocator.model import rejections
from dray.allocator.model.rejections import CheckName, Rejection
from dray.scheduling import fit_counts
from dray.scheduling.claims import device_fit
from dray.scheduling.fit_counts import NodeFitCount
from dray.scheduling.nodes import node_fit
from dray.scheduling.nodes.node_fit import FilterReason, ReasonKind

PODS, DEVICES, COUNTERS = "pods", "devices", "counters"
NO_DEVICES = "no suitable devices"
SHARED_CAPACITY, CONSTRAINTS, DEVICE_TAINTS = "shared capacity", "constraints", "device taints"
AFFINITY, CLAIM, NODE = "pod affinity", "allocated claim", "node"

_OF_REASON = {
    node_fit.TOO_MANY_PODS: PODS,
    node_fit.PORTS_TAKEN: "host ports",
    node_fit.WERE_UNSCHEDULABLE: "unschedulable node",
    node_fit.HAD_TAINTS: "node taints",
    node_fit.NOT_SELECTED: "node selector",
    node_fit.NOT_NAMED: "node selector",
    device_fit.NOT_AVAILABLE: CLAIM,
    fit_counts.SELECTOR_FAILS: "failing selectors",
}
_OF_KIND = {
    ReasonKind.NODE: NODE,
    ReasonKind.POD_AFFINITY: AFFINITY,
    ReasonKind.DEVICES: DEVICES,
    ReasonKind.CLAIM: CLAIM,
}
_OF_CHECK = {
    CheckName.COUNTERS: COUNTERS,
    CheckName.GROUPS: COUNTERS,
    CheckName.CAPACITY: SHARED_CAPACITY,
    CheckName.CONSTRAINTS: CONSTRAINTS,
    CheckName.TAINTS: DEVICE_TAINTS,
}


def limits_of(counted: NodeFitCount) -> tuple[str, ...]:
    """Return the checks that the next pod does not pass on a node: all of them together."""
    return tuple(dict.fromkeys(_words(counted)))


def _words(counted: NodeFitCount) -> Iterator[str]:
    for reason in counted.reasons:
        if reason.kind is ReasonKind.DEVICES and counted.rejection is not None:
            yield _of_rejection(counted.rejection)
        else:
            yield _of_reason(reason)


def _of_reason(reason: FilterReason) -> str:
    if reason in _OF_REASON:
        return _OF_REASON[reason]
    if reason.kind is ReasonKind.NODE_RESOURCES:
        return reason.text.removeprefix("Insufficient ")
    return _OF_KIND[reason.kind]


def _of_rejection(rejection: Rejection) -> str:
    match rejection:
        case rejections.NoMatchForAllMode() | rejections.TooFewDevices(matching=0):
            return NO_DEVICES
        case rejections.NoCommonValue() | rejections.TooFewValues():
            return CONSTRAINTS
        case rejections.NoCombination(last=rejections.DeviceRejection() as last):
            return _OF_CHECK.get(last.check, DEVICES)
        case _:
            return DEVICES

"""Objects of the API as structs, and what the scheduler's writes make of them."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterable
from typing import Any

import msgspec

from dray.api.conversion import defaults
from dray.api.types.core import Namespace, PodDisruptionBudget
from dray.api.types.dra import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decision
from dray.scheduling.state import SchedulingObject, SchedulingState

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

TYPES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Node, ResourceSlice, DeviceClass, DeviceTaintRule, ResourceClaim, Pod, PodGroup,
        PodDisruptionBudget, Namespace,
    )
}  # fmt: skip


def convert(body: JsonObject) -> SchedulingObject:
    """Return the struct of an object as the API server would store it, with namespace and uid."""
    stored = copy.deepcopy(body)
    stored["metadata"].setdefault("namespace", "default")
    stored["metadata"].setdefault("uid", f"{body['kind']} {body['metadata']['name']}".lower())
    defaults.fill(stored, "2026-01-01T00:00:00Z")
    converted: SchedulingObject = msgspec.convert(stored, TYPES[body["kind"]])
    return converted


def build(*bodies: JsonObject, **options: Any) -> SchedulingState:
    return SchedulingState.of(map(convert, bodies), **options)


def pods(*bodies: JsonObject) -> list[Pod]:
    converted = [convert(body) for body in bodies]
    return [pod for pod in converted if isinstance(pod, Pod)]


def devices(assignment: NodeAssignment) -> list[str]:
    """Return pool/device of each device that an assignment allocates or uses."""
    return [
        f"{result.pool}/{result.device}"
        for _, allocation in assignment.fit.allocations()
        for result in allocation.devices.results
    ]


def outcome(decision: Decision) -> tuple[str, list[str]] | str:
    """Return node and devices of an assignment, or the name of the reason."""
    if isinstance(decision, NodeAssignment):
        return decision.node, devices(decision)
    return decision.category


def written(assignment: NodeAssignment) -> Iterable[SchedulingObject]:
    """Yield the claims and the pod as they are after an assignment is written."""
    for assigned in assignment.fit.claims:
        claim = assigned.claim
        status = msgspec.structs.replace(
            claim.status,
            allocation=assigned.allocation or claim.status.allocation,
            reserved_for=(*claim.status.reserved_for, assigned.consumer),
        )
        yield msgspec.structs.replace(claim, status=status)
    spec = msgspec.structs.replace(assignment.pod.spec, node_name=assignment.node)
    yield msgspec.structs.replace(assignment.pod, spec=spec)

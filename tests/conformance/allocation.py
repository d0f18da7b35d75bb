"""Recorded allocation problems as dray's objects, and results as the recorded ones are written."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import msgspec

from dray.allocator import placement
from dray.allocator.inventory.cluster_inventory import AllocatedState, ClusterInventory
from dray.allocator.model.rejections import AllocationError
from dray.api import features
from dray.api.formats import quantity
from dray.api.ids import DeviceId, SharedDeviceId
from dray.api.types.dra import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from dray.api.types.nodes import Node

SHARE_ID = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


class Outcome(NamedTuple):
    """What came out: results, or an error; neither means that the claims do not fit."""

    results: list[dict[str, Any]] | None
    error: str | None = None
    is_node_local: bool = False


def run(case: dict[str, Any]) -> Outcome:
    fleet = build_fleet(case)
    claims = [msgspec.convert(each, ResourceClaim) for each in case["claimsToAllocate"] or ()]
    asked = placement.Allocator(fleet, new_share_id=lambda: SHARE_ID)
    try:
        answer = asked.allocate_on(claims, case["node"]["metadata"]["name"])
    except AllocationError as failure:
        return Outcome(None, failure.text(claims))
    if isinstance(answer, placement.Fit):
        return Outcome([as_recorded(allocation) for allocation in answer.allocations])
    if answer.failure is not None:
        return Outcome(None, answer.failure.text(claims), is_node_local=True)
    return Outcome(None)


def as_recorded(result: AllocationResult) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result))
    built.setdefault("devices", {})
    return built


def gates(case: dict[str, Any]) -> features.Features:
    on = case["features"]
    return msgspec.structs.replace(
        features.DEFAULT,
        admin_access=on["AdminAccess"],
        consumable_capacity=on["ConsumableCapacity"],
        derived_attributes=on["DerivedAttributes"],
        device_binding_conditions=on["DeviceBindingAndStatus"],
        device_compatibility_groups=on["CompatibilityGroups"],
        device_taints=on["DeviceTaints"],
        fractional_capacity_range=on["FractionalCapacityRange"],
        list_type_attributes=on["ListTypeAttributes"],
        optional_node_operations=on["OptionalNodeOperations"],
        partitionable_devices=on["PartitionableDevices"],
        prioritized_list=on["PrioritizedList"],
        resource_claim_device_status=on["DeviceBindingAndStatus"],
    )


def build_fleet(case: dict[str, Any]) -> ClusterInventory:
    fleet = ClusterInventory(gates(case))
    fleet.put_node(msgspec.convert(case["node"], Node))
    for device_class in case["classes"] or ():
        fleet.put_class(msgspec.convert(device_class, DeviceClass))
    for piece in _uniquely_named(case["slices"] or ()):
        fleet.put_slice(msgspec.convert(piece, ResourceSlice))
    state = case["allocatedState"]
    fleet.record_state(
        AllocatedState(
            [device_id(device) for device in state["allocatedDevices"]],
            [
                SharedDeviceId(*device_id(id_), id_["shareID"])
                for id_ in state["allocatedSharedDeviceIDs"]
            ],
            {device_id(each): each["capacity"] for each in state["aggregatedCapacity"]},
        )
    )
    return fleet


def device_id(each: dict[str, str]) -> DeviceId:
    return DeviceId(each["driver"], each["pool"], each["device"])


def _uniquely_named(slices: Any) -> list[dict[str, Any]]:
    """Some tables name two slices alike, which an API server would not accept."""
    seen: Counter[str] = Counter()
    found = []
    for piece in slices:
        name = piece["metadata"]["name"]
        seen[name] += 1
        if seen[name] > 1:
            piece = {**piece, "metadata": {**piece["metadata"], "name": f"{name}#{seen[name]}"}}
        found.append(piece)
    return found


def is_like(outcome: Outcome, run: dict[str, Any]) -> bool:
    """Whether an upstream allocator has given this: same devices in the same order, same error."""
    if run.get("error"):
        return bool(outcome.error == run["error"])
    if outcome.error is not None:
        return False
    return bool(_comparable(outcome.results or []) == _comparable(run["results"] or []))


def assert_consists_of(
    results: list[dict[str, Any]], expected: list[dict[str, Any]], ordered: list[bool]
) -> None:
    """The results are the expected ones in any order; the inside too, where not `ordered`."""
    remaining = [_comparable(result) for result in results]
    for wanted, is_ordered in zip(expected, ordered, strict=True):
        wanted = _comparable(wanted)
        match = next((each for each in remaining if _agrees(each, wanted, is_ordered)), None)
        assert match is not None, f"{wanted} is not in {remaining}"
        remaining.remove(match)
    assert not remaining


def _agrees(result: Any, wanted: Any, is_ordered: bool) -> bool:
    if is_ordered:
        return bool(result == wanted)
    has_config = "config" in result["devices"]
    return not has_config and _without_order(result) == _without_order(wanted)


def _without_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_order(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_without_order(each) for each in value), key=repr)
    return value


def _comparable(value: Any) -> Any:
    """Absent and empty are the same, and quantities are compared by value."""
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, each in value.items():
        if key == "consumedCapacity":
            found[key] = {name: quantity.parse(text).nano for name, text in each.items()}
        elif each not in ({}, [], None) or key == "devices":
            found[key] = _comparable(each)
    return found

"""What the server decides about pods: the first status, the quality of service, the generation."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from dray.api.formats import quantity
from dray.api.types.meta import JsonObject

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_COMPUTE = ("cpu", "memory")
_KEPT_STATUS = ("qosClass", "resourceClaimStatuses", "nodeAllocatableResourceClaimStatuses")


def initial_status(pod: JsonObject) -> JsonObject:
    status: JsonObject = {"phase": "Pending", "qosClass": quality_of_service(pod.get("spec", {}))}
    if pod.get("spec", {}).get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return status


def prepare_update(new: JsonObject, old: JsonObject, _now: datetime.datetime) -> None:
    """What an update leaves out of the pod's resources stays; a lost last gate is no condition."""
    if "resources" in old.get("spec", {}):
        new.setdefault("spec", {}).setdefault("resources", old["spec"]["resources"])
    if not old.get("spec", {}).get("schedulingGates") or new.get("spec", {}).get("schedulingGates"):
        return
    status = new.get("status", {})
    kept = [
        condition
        for condition in status.get("conditions") or ()
        if condition.get("reason") != "SchedulingGated"
    ]
    status["conditions"] = kept
    if not kept:
        del status["conditions"]


def prepare_status(new: JsonObject, old: JsonObject, _now: datetime.datetime) -> None:
    """Owners are not the status's business, and some of it stays where an update leaves it out."""
    owners = old["metadata"].get("ownerReferences")
    if owners is None:
        new["metadata"].pop("ownerReferences", None)
    else:
        new["metadata"]["ownerReferences"] = owners
    status = new.setdefault("status", {})
    for field in _KEPT_STATUS:
        kept = old.get("status", {}).get(field)
        if kept and not status.get(field):
            status[field] = kept


def quality_of_service(spec: JsonObject) -> str:
    """As pkg/apis/core/helper/qos, ComputePodQOS."""
    blocks = list(_resource_blocks(spec))
    if not any(map(_asks_for_something, blocks)):
        return BEST_EFFORT
    return GUARANTEED if all(map(_is_guaranteed, blocks)) else BURSTABLE


def _resource_blocks(spec: JsonObject) -> Iterator[JsonObject]:
    if spec.get("resources"):
        yield spec["resources"]
        return
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        yield container.get("resources") or {}


def _asks_for_something(block: JsonObject) -> bool:
    return any(
        amounts is not None and name in amounts and quantity.parse(str(amounts[name])).sign() > 0
        for amounts in (block.get("requests"), block.get("limits"))
        for name in _COMPUTE
    )


def _is_guaranteed(block: JsonObject) -> bool:
    """Limits for cpu and memory, and requests equal to them where they are set."""
    limits, requests = block.get("limits") or {}, block.get("requests") or {}
    return all(
        name in limits and str(requests.get(name, limits[name])) == str(limits[name])
        for name in _COMPUTE
    )

"""What the server decides about pods: the first status, the quality of service, the generation."""

from __future__ import annotations

import datetime

import msgspec

from dray.api.semantics import pod_resources
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod

_KEPT_STATUS = ("qosClass", "resourceClaimStatuses", "nodeAllocatableResourceClaimStatuses")


def initial_status(pod: JsonObject) -> JsonObject:
    status: JsonObject = {"phase": "Pending", "qosClass": _qos_class(pod.get("spec", {}))}
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


def _qos_class(spec: JsonObject) -> str:
    """Return the QoS class; of the spec, only the resources are decoded."""
    resources: JsonObject = {
        key: [{"resources": container.get("resources") or {}} for container in spec.get(key) or ()]
        for key in ("initContainers", "containers")
    }
    if spec.get("resources"):
        resources["resources"] = spec["resources"]
    return pod_resources.qos_class(msgspec.convert({"spec": resources}, Pod))

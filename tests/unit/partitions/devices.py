"""An A100 in every MIG profile, its classes, and partition requests in every form."""

from __future__ import annotations

from dray.api import well_known
from dray.api.types.meta import JsonObject

DRIVER = "gpu.example.com"
ASKED = {"count": 1, "resources": {"memory": "20Gi", "compute": 2}}
A100 = {
    "1g.10gb": "9856Mi",
    "1g.20gb": "19968Mi",
    "2g.20gb": "19968Mi",
    "3g.40gb": "40192Mi",
    "4g.40gb": "40192Mi",
    "7g.80gb": "81152Mi",
}


def partition(profile: str, memory: str, number: int = 0) -> JsonObject:
    return {
        "name": f"gpu-{number}-{profile.replace('.', '-')}",
        "attributes": {
            "type": {"string": "mig"},
            "profile": {"string": profile},
            "productName": {"string": "A100"},
            "uuid": {"string": f"MIG-{number}-{profile}"},
        },
        "capacity": {"memory": {"value": memory}},
        "consumesCounters": [
            {"counterSet": f"gpu-{number}", "counters": {"memory": {"value": "1"}}}
        ],
    }


def whole(number: int = 0) -> JsonObject:
    return {
        "name": f"gpu-{number}",
        "attributes": {"type": {"string": "gpu"}, "productName": {"string": "A100"}},
        "capacity": {"memory": {"value": "80Gi"}},
        "consumesCounters": [
            {"counterSet": f"gpu-{number}", "counters": {"memory": {"value": "8"}}}
        ],
    }


def device_class(name: str, type_name: str, **labels: str) -> JsonObject:
    expression = f'device.attributes["{DRIVER}"].type == "{type_name}"'
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


GPU_CLASS = device_class(DRIVER, "gpu")
MIG_CLASS = device_class("mig.example.com", "mig", **{well_known.PARTITIONS_OF_ANNOTATION: DRIVER})
DEVICES = [whole(), *(partition(profile, memory) for profile, memory in A100.items())]


FLAT = {"name": "gpu", "deviceClassName": DRIVER, "partitionRequest": ASKED}
BESIDE = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}, "partitionRequest": ASKED}
INSIDE = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "partitionRequest": ASKED}}

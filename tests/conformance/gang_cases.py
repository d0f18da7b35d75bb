"""Plays recorded cases of gangs and preemption on an API server with a scheduler, to record them.

There are no controllers and no nodes that run anything: claims are made by name, and pods that have
a node stay as they are.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

from tests import waiting
from tests.unit.scheduler.test_podgroups import group, member
from tests.unit.scheduler.world import DRIVER, claim, device_class, gpu, gpu_slice, node, pod

Json = dict[str, Any]
Send = Callable[..., tuple[int, Json]]
"""Takes method, path, body and content type; returns the status and the body."""
PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/default/pods",
    "PodGroup": "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
}
LAST = ("PodGroup", "Pod", "ResourceClaim", "ResourceSlice", "DeviceClass", "PriorityClass", "Node")
SETTLED_SECONDS = 8.0
"""For so long, nothing changes any more."""


def card(name: str) -> list[Json]:
    """A GPU that can be used as a whole or as two halves; the whole one comes first."""
    return [
        gpu(
            f"{name}{half}",
            attributes={"kind": {"string": "half" if half else "whole"}},
            consumesCounters=[
                {"counterSet": name, "counters": {"halves": {"value": "1" if half else "2"}}}
            ],
        )
        for half in ("", "-a", "-b")
    ]


def with_cards(*names: str) -> list[Json]:
    """A node with such GPUs."""
    pool = {"name": "one", "generation": 1, "resourceSliceCount": 2}
    devices = gpu_slice("one", 0, *(device for name in names for device in card(name)), pool=pool)
    counters = gpu_slice("one", 0, {}, pool=pool)
    del counters["spec"]["devices"]
    counters["metadata"]["name"] = "one-counters"
    counters["spec"]["sharedCounters"] = [
        {"name": name, "counters": {"halves": {"value": "2"}}} for name in names
    ]
    return [device_class(), node("one"), devices, counters]


def any_part(name: str) -> Json:
    return claim(name, {"name": "gpu", "exactly": {"deviceClassName": DRIVER}})


def priority_class(name: str, value: int) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def with_claim(name: str, **options: Any) -> list[Json]:
    claims = [claim(name, {"name": "gpu", "exactly": {"deviceClassName": DRIVER}})]
    return [*claims, pod(name, name, **options)]


CASES: list[Json] = [
    {
        "name": "a-gang-fits-only-if-no-pod-takes-the-whole-gpu",
        "objects": [
            *with_cards("gpu-0"),
            *map(any_part, "ab"),
            group("pg", 2),
            member("a", claim_name="a"),
            member("b", claim_name="b"),
        ],
    },
    {
        "name": "a-gang-that-fits-pod-by-pod",
        "objects": [
            *with_cards("gpu-0", "gpu-1"),
            *map(any_part, "ab"),
            group("pg", 2),
            member("a", claim_name="a"),
            member("b", claim_name="b"),
        ],
    },
    {
        "name": "a-device-held-by-a-pod-of-lower-priority",
        "objects": [
            *[device_class(), node("one"), gpu_slice("one", 1)],
            *[priority_class("low", 10), priority_class("high", 1000)],
            *with_claim("batch", priorityClassName="low"),
        ],
        "later": with_claim("urgent", priorityClassName="high"),
    },
    {
        "name": "devices-held-by-pods-of-lower-priority-than-a-gang",
        "objects": [
            *[device_class(), node("one"), gpu_slice("one", 2)],
            *[priority_class("low", 10), priority_class("high", 1000)],
            *with_claim("batch-a", priorityClassName="low"),
            *with_claim("batch-b", priorityClassName="low"),
        ],
        "later": [
            *map(any_part, "ab"),
            group("pg", 2, priorityClassName="high"),
            member("a", claim_name="a", priorityClassName="high"),
            member("b", claim_name="b", priorityClassName="high"),
        ],
    },
    {
        "name": "cpu-held-by-a-pod-of-lower-priority",
        "objects": [
            *[device_class(), node("one", cpu="4"), gpu_slice("one", 2)],
            *[priority_class("low", 10), priority_class("high", 1000)],
            *with_claim("batch", priorityClassName="low", requests={"cpu": "3"}),
        ],
        "later": with_claim("urgent", priorityClassName="high", requests={"cpu": "3"}),
    },
]


def play(case: Json, send: Send) -> Json:
    """Create the objects, wait until every pod has an answer, delete all, and return the case."""
    for body in case["objects"]:
        _create(body, send)
    answers = _answers(send)
    if "later" in case:
        for body in case["later"]:
            _create(body, send)
        answers = _answers(send)
    for kind in LAST:
        _, found = send("GET", PATHS[kind])
        for item in found["items"]:
            path = f"{PATHS[kind]}/{item['metadata']['name']}"
            if kind in ("ResourceClaim", "PodGroup", "Pod"):
                patch = {"metadata": {"finalizers": None}}
                send("PATCH", path, patch, "application/merge-patch+json")
            if not item["metadata"]["name"].startswith("system-"):
                send("DELETE", path, {"gracePeriodSeconds": 0})
    return {**case, "answers": answers}


def _create(body: Json, send: Send) -> None:
    body = copy.deepcopy(body)
    kind, status = body["kind"], body.get("status")
    code, created = send("POST", PATHS[kind], body)
    assert code == 201, created
    if kind == "Node":
        path = f"{PATHS[kind]}/{body['metadata']['name']}"
        merge = "application/merge-patch+json"
        send("PATCH", path, {"spec": {"taints": None}}, merge)
        send("PATCH", f"{path}/status", {"status": status}, merge)


def _answers(send: Send) -> Json:
    """Return what is said about each pod when nothing changes any more."""
    found, since = _now(send), time.monotonic()
    deadline = since + waiting.DEADLINE_SECONDS
    while time.monotonic() - since < SETTLED_SECONDS and time.monotonic() < deadline:
        time.sleep(0.5)
        again = _now(send)
        if again != found:
            found, since = again, time.monotonic()
    return found


def _now(send: Send) -> Json:
    _, found = send("GET", PATHS["Pod"])
    answers: Json = {}
    for item in found["items"]:
        conditions = {one["type"]: one for one in item["status"].get("conditions", ())}
        answers[item["metadata"]["name"]] = {
            "node": item["spec"].get("nodeName", ""),
            "nominated": item["status"].get("nominatedNodeName", ""),
            "isLeaving": "deletionTimestamp" in item["metadata"],
            "message": conditions.get("PodScheduled", {}).get("message", ""),
            "disruption": conditions.get("DisruptionTarget", {}).get("message", ""),
        }
    return answers

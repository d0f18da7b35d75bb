"""Random small fleets, and random workloads that use their devices."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from dray.api.types.meta import JsonObject
from dray.node.runtimes import simulated

PROFILES = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
CLASSES = {"whole": "gpu.nvidia.com", "partition": "mig.nvidia.com", "share": "gpu.nvidia.com"}
IS_SHARED = "device.allowMultipleAllocations"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ORDERED_LABEL = "ordered"
"""A label of pods that are made one after the other."""


def fleet(dice: random.Random, directory: Path) -> Path:
    """Write a fleet of few machines: whole GPUs, partitioned ones, shared ones."""
    groups = [_machines(dice, "whole", {"model": "l4", "count": dice.randint(1, 3)})]
    if dice.random() < 0.6:
        device = {"model": "a100-sxm4-80gb", "count": 1, "partitioned": True}
        groups.append(_machines(dice, "partition", device, most=1))
    if dice.random() < 0.5:
        policy = {"default": "10Gi", "validRange": {"min": "1Gi", "max": "40Gi", "step": "1Gi"}}
        memory = {"value": "40Gi", "requestPolicy": policy}
        device = {"model": "a100-sxm4-40gb", "count": 1, "shared": True}
        groups.append(_machines(dice, "share", {**device, "capacity": {"memory": memory}}, most=1))
    path = directory / "fleet.yaml"
    path.write_text(yaml.safe_dump({"description": "random", "nodes": groups}))
    return path


def _machines(dice: random.Random, name: str, device: JsonObject, most: int = 3) -> JsonObject:
    return {
        "name": f"{name}-{{number}}",
        "count": dice.randint(1, most),
        "capacity": {"cpu": dice.choice((4, 6, 8)), "memory": dice.choice(("8Gi", "16Gi"))},
        "labels": {"kind": name},
        "devices": {"gpu.nvidia.com": [device]},
    }


def templates(dice: random.Random) -> Iterator[JsonObject]:
    """Yield a claim template of each kind of device, named after it."""
    whole = {"deviceClassName": CLASSES["whole"], "count": dice.choice((1, 1, 2))}
    profile = dice.choice(PROFILES)
    selector = f'device.attributes["gpu.nvidia.com"].profile == "{profile}"'
    partition = {
        "deviceClassName": CLASSES["partition"],
        "selectors": [{"cel": {"expression": selector}}],
    }
    share = {
        "deviceClassName": CLASSES["share"],
        "selectors": [{"cel": {"expression": IS_SHARED}}],
        "capacity": {"requests": {"memory": dice.choice(("5Gi", "10Gi", "15Gi"))}},
    }
    exclusive = {**whole, "selectors": [{"cel": {"expression": f"!{IS_SHARED}"}}]}
    for name, request in (("whole", exclusive), ("partition", partition), ("share", share)):
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}},
        }


def shared_claim() -> JsonObject:
    request = {"deviceClassName": CLASSES["whole"]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "together"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}},
    }


def priority_classes() -> Iterator[JsonObject]:
    for name, value in (("low", -10), ("high", 100)):
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }


def gang(dice: random.Random, name: str, count: int) -> list[JsonObject]:
    """Return a PodGroup with its pods."""
    policy = {"gang": {"minCount": dice.randint(1, count)}}
    group: JsonObject = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": policy},
    }
    spec = {**_pod_spec(dice), "schedulingGroup": {"podGroupName": name}}
    pods = [_pod(f"{name}-{number}", spec) for number in range(count)]
    return [group, *pods]


def workload(dice: random.Random, name: str) -> JsonObject:
    """Return a pod, or something that makes pods."""
    kind = dice.choice((*_MAKERS, "Pod", "Pod"))
    spec = _pod_spec(dice)
    if kind == "Pod":
        return _pod(name, spec)
    return _MAKERS[kind](dice, name, spec)


def _pod(name: str, spec: JsonObject) -> JsonObject:
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _pod_spec(dice: random.Random) -> JsonObject:
    requests = {"cpu": dice.choice(("100m", "1", "2")), "memory": dice.choice(("64Mi", "2Gi"))}
    container: JsonObject = {"name": "c", "image": "pause", "resources": {"requests": requests}}
    spec: JsonObject = {"containers": [container]}
    chosen = dice.choice(("", "whole", "whole", "partition", "share", "together", "missing"))
    if chosen:
        field = "resourceClaimName" if chosen == "together" else "resourceClaimTemplateName"
        spec["resourceClaims"] = [{"name": "gpu", field: chosen}]
        container["resources"]["claims"] = [{"name": "gpu"}]
    if dice.random() < 0.2:
        spec["nodeSelector"] = {"kind": dice.choice(("whole", "partition", "none"))}
    if dice.random() < 0.3:
        spec["priorityClassName"] = dice.choice(("low", "high"))
    if dice.random() < 0.15:
        term = {
            "labelSelector": {"matchLabels": {"app": dice.choice(("w0", "w1", "w2"))}},
            "topologyKey": "kubernetes.io/hostname",
        }
        side = dice.choice(("podAffinity", "podAntiAffinity"))
        spec["affinity"] = {side: {REQUIRED: [term]}}
    return spec


def avoid_races(documents: Sequence[JsonObject]) -> None:
    """Turn affinity to pods that will be made at once into anti-affinity.

    A pod that waits for such pods follows the first one that is placed, and which one that is
    depends on time.
    """
    at_once: set[str] = set()
    for document in reversed(documents):
        if _makes_pods_at_once(document):
            at_once.add(document["metadata"]["name"])
        spec = document["spec"].get("template", document)["spec"]
        affinity = spec.get("affinity", {})
        for term in affinity.get("podAffinity", {}).get(REQUIRED, ()):
            if term["labelSelector"]["matchLabels"]["app"] in at_once:
                spec["affinity"] = {"podAntiAffinity": affinity["podAffinity"]}


def _makes_pods_at_once(document: JsonObject) -> bool:
    policy = document["spec"].get("podManagementPolicy")
    return document["kind"] in _MAKERS and policy != "OrderedReady"


def _controlled(kind: str, name: str, spec: JsonObject, **more: Any) -> JsonObject:
    selected: JsonObject = {"matchLabels": {"app": name}}
    labels = {"app": name}
    if more.get("podManagementPolicy") == "OrderedReady":
        labels[ORDERED_LABEL] = "yes"
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": selected,
            "template": {"metadata": {"labels": labels}, "spec": spec},
            **more,
        },
    }


def _deployment(dice: random.Random, name: str, spec: JsonObject) -> JsonObject:
    return _controlled("Deployment", name, spec, replicas=dice.randint(1, 4))


def _replica_set(dice: random.Random, name: str, spec: JsonObject) -> JsonObject:
    return _controlled("ReplicaSet", name, spec, replicas=dice.randint(1, 3))


def _stateful_set(dice: random.Random, name: str, spec: JsonObject) -> JsonObject:
    policy = dice.choice(("OrderedReady", "OrderedReady", "Parallel"))
    return _controlled(
        "StatefulSet", name, spec, replicas=dice.randint(1, 4), podManagementPolicy=policy
    )


def _daemon_set(dice: random.Random, name: str, spec: JsonObject) -> JsonObject:
    return _controlled("DaemonSet", name, spec)


def _job(dice: random.Random, name: str, spec: JsonObject) -> JsonObject:
    is_indexed = dice.random() < 0.5
    more: JsonObject = {"parallelism": dice.randint(1, 3), "completions": dice.randint(1, 4)}
    if is_indexed:
        more["completionMode"] = "Indexed"
    # A simulated pod of a job would end at once, and free what it has.
    metadata = {"labels": {"app": name}, "annotations": {simulated.RUN_SECONDS: "3600"}}
    template = {"metadata": metadata, "spec": {**spec, "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **more},
    }


_MAKERS = {
    "DaemonSet": _daemon_set,
    "Deployment": _deployment,
    "Job": _job,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
}

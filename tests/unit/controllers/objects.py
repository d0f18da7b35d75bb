"""Short spellings of the objects the loops' tests begin with."""

from __future__ import annotations

from typing import Any

from dray.api.types.meta import JsonObject


def claim_template(name: str = "one-gpu", **metadata: Any) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"metadata": metadata, "spec": claim_spec()},
    }


def claim_spec() -> JsonObject:
    exactly = {"deviceClassName": "gpu.example.com"}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def claim(name: str) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": claim_spec(),
    }


def pod(name: str, *, template: str = "", claim: str = "", **spec: Any) -> JsonObject:
    sources = []
    if template:
        sources.append({"name": "gpu", "resourceClaimTemplateName": template})
    if claim:
        sources.append({"name": "shared", "resourceClaimName": claim})
    spec = {**pod_spec(), **spec}
    if sources:
        spec["resourceClaims"] = sources
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def pod_spec(**more: Any) -> JsonObject:
    return {"containers": [{"name": "c", "image": "pause"}], **more}


def allocation(device: str = "gpu-0", node: str = "node-1") -> JsonObject:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": device}
    return {"devices": {"results": [result]}}


def consumer(pod: JsonObject) -> JsonObject:
    metadata = pod["metadata"]
    return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}


def node(name: str, **spec: Any) -> JsonObject:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"conditions": [ready]},
    }

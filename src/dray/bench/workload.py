"""The objects that the API server benchmarks create: claims with a selector, and their pods.

They differ in what differs in a cluster: names, and the claim of a pod.
"""

from __future__ import annotations

from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client

NAMESPACE = "default"
CLASS = "gpu.example.com"
DRIVER = "gpu.example.com"
SELECTOR = (
    f'device.attributes["{DRIVER}"].productName == "NVIDIA H200" && '
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
)
DEVICES_PER_NODE = 8

USER = "bench"
_CLUSTER_ROLE = kinds.served("rbac.authorization.k8s.io", "ClusterRole")
_ROLE: JsonObject = {
    **_CLUSTER_ROLE.type_meta,
    "metadata": {"name": USER},
    "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]},
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims", "resourceclaims/status", "resourceclaims/binding"],
            "verbs": ["*"],
        },
    ],
}
_BINDING: JsonObject = {
    **kinds.CLUSTER_ROLE_BINDING.type_meta,
    "metadata": {"name": USER},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER},
    "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}],
}


async def allow(admin: Client) -> None:
    """Give the benchmarks' user its role."""
    await admin.create(_CLUSTER_ROLE, _ROLE)
    await admin.create(kinds.CLUSTER_ROLE_BINDING, _BINDING)


_CLAIM_RULE, _POD_RULE = ("resource.k8s.io", "resourceclaims"), ("", "pods")
_POLICIES = (
    (_POD_RULE, "object.spec.containers.all(c, !c.image.endsWith(':latest'))"),
    (_POD_RULE, "!has(object.spec.hostNetwork) || !object.spec.hostNetwork"),
    (_CLAIM_RULE, "object.spec.devices.requests.size() < 10"),
    (_CLAIM_RULE, "!object.metadata.name.startsWith('forbidden')"),
    (("resource.k8s.io", "resourceslices"), "has(object.spec.nodeName)"),
    (("", "configmaps"), "object.data.all(key, key != 'password')"),
    (("", "secrets"), "object.type != 'Opaque'"),
    (("apps", "deployments"), "object.spec.replicas < 100"),
    (("apps", "statefulsets"), "object.spec.replicas < 100"),
    (("batch", "jobs"), "object.spec.parallelism < 100"),
)
"""What a policy is about, and what it requires: a claim or a pod meets two of them."""


async def enforce_policies(admin: Client) -> None:
    """Create ten policies that let the benchmarks' objects through, and bind them."""
    for number, ((group, resource), expression) in enumerate(_POLICIES):
        rule = {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": [resource],
        }
        metadata = {"name": f"policy-{number}"}
        spec = {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression}],
        }
        kind = kinds.VALIDATING_ADMISSION_POLICY
        await admin.create(kind, {**kind.type_meta, "metadata": metadata, "spec": spec})
        bound = {"policyName": metadata["name"], "validationActions": ["Deny"]}
        kind = kinds.VALIDATING_ADMISSION_POLICY_BINDING
        await admin.create(kind, {**kind.type_meta, "metadata": metadata, "spec": bound})


def claim(name: str) -> JsonObject:
    exactly = {"deviceClassName": CLASS, "selectors": [{"cel": {"expression": SELECTOR}}]}
    return {
        **kinds.RESOURCE_CLAIM.type_meta,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def pod(name: str, claim_name: str) -> JsonObject:
    resources = {"requests": {"cpu": "4", "memory": "16Gi"}, "claims": [{"name": "gpu"}]}
    container = {
        "name": "train",
        "image": "registry.example.com/train:1.4",
        "command": ["python", "-m", "train"],
        "env": [{"name": "EPOCHS", "value": "3"}],
        "resources": resources,
    }
    return {
        **kinds.POD.type_meta,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "train"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
        },
    }


def allocation(number: int) -> JsonObject:
    """Return the status of the claim with this number: a device that no other number has."""
    node = f"node-{number // DEVICES_PER_NODE}"
    device = f"gpu-{number % DEVICES_PER_NODE}"
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    node_selector = {"nodeSelectorTerms": [term]}
    return {"allocation": {"devices": {"results": [result]}, "nodeSelector": node_selector}}

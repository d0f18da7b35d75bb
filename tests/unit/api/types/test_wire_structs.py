"""Structs: every field has the name the API gives it, and a real object survives them."""

from __future__ import annotations

import msgspec
import pytest

from dray.api.schema import field_types
from dray.api.types import containers, core, dra, meta, nodes, pods, volumes, workloads

PACKAGES = {
    containers: ["core.v1"],
    core: ["core.v1", "coordination.v1", "scheduling.v1", "policy.v1", "events.v1"],
    meta: ["meta.v1", "core.v1"],
    nodes: ["core.v1"],
    pods: ["core.v1"],
    dra: ["resource.v1", "resource.v1alpha3"],
    volumes: ["core.v1"],
    workloads: ["apps.v1", "batch.v1", "core.v1", "scheduling.v1beta1"],
}

# Where one struct of ours stands for several of the API, or the API uses a name twice.
NAMES_IN_THE_API = {
    "ContainerClaim": ["core.v1.ResourceClaim"],
    "ControllerReference": ["scheduling.v1beta1.TypedLocalObjectReference"],
    "CoreEvent": ["core.v1.Event"],
    "CoreEventSeries": ["core.v1.EventSeries"],
    "Event": ["events.v1.Event"],
    "EventSeries": ["events.v1.EventSeries"],
    "RuntimeClass": ["node.v1.RuntimeClass"],
    "RuntimeOverhead": ["node.v1.Overhead"],
    "RuntimeScheduling": ["node.v1.Scheduling"],
    "WorkloadCondition": ["apps.v1.DeploymentCondition", "batch.v1.JobCondition"],
}


STRUCTS = [
    pytest.param(struct, packages, id=f"{module.__name__}.{struct.__name__}")
    for module, packages in PACKAGES.items()
    for struct in vars(module).values()
    if isinstance(struct, type)
    and issubclass(struct, meta.Wire)
    and struct.__module__ == module.__name__
    and struct not in (meta.Wire, meta.WireWithJson)
]


@pytest.mark.parametrize(("struct", "packages"), STRUCTS)
def test_every_field_is_one_of_the_api(struct: type[meta.Wire], packages: list[str]) -> None:
    names = NAMES_IN_THE_API.get(
        struct.__name__, [f"{package}.{struct.__name__}" for package in packages]
    )
    types = [field_types.fields(name) for name in names if field_types.has(name)]
    assert types, f"the API has no {struct.__name__}"
    known = {field for fields in types for field in fields}
    assert {field.encode_name for field in msgspec.structs.fields(struct)} <= known


def through(struct: type[meta.Wire], wire: object) -> object:
    decoded = msgspec.json.decode(msgspec.json.encode(wire), type=struct)
    return msgspec.json.decode(msgspec.json.encode(decoded))


def test_a_pod_survives_decoding_and_encoding() -> None:
    pod = {
        "metadata": {"name": "train", "namespace": "ml", "labels": {"app": "x"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "cuda",
                    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}],
                    "ports": [{"containerPort": 80, "hostIP": "10.0.0.1"}],
                    "resources": {"claims": [{"name": "gpu", "request": "big"}]},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
                }
            ],
            "hostPID": True,
            "setHostnameAsFQDN": True,
            "schedulingGroup": {"podGroupName": "gang"},
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "volumes": [{"name": "v", "downwardAPI": {"items": [{"path": "labels"}]}}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
                        ]
                    }
                }
            },
        },
        "status": {
            "podIP": "10.0.0.2",
            "podIPs": [{"ip": "10.0.0.2"}],
            "hostIPs": [{"ip": "10.0.0.1"}],
            "containerStatuses": [
                {
                    "name": "main",
                    "imageID": "sha256:1",
                    "containerID": "dray://1",
                    "state": {"terminated": {"exitCode": 1, "containerID": "dray://0"}},
                    "allocatedResourcesStatus": [
                        {
                            "name": "claim:gpu",
                            "resources": [{"resourceID": "gpu-0", "health": "Unhealthy"}],
                        }
                    ],
                }
            ],
        },
    }
    assert through(pods.Pod, pod) == pod


def test_a_node_survives_decoding_and_encoding() -> None:
    node = {
        "metadata": {"name": "n1"},
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "x"},
        "status": {
            "capacity": {"cpu": "8"},
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {"machineID": "m", "systemUUID": "s", "bootID": "b", "osImage": "o"},
            "declaredFeatures": ["DRANodeAllocatableResources"],
        },
    }
    assert through(nodes.Node, node) == node

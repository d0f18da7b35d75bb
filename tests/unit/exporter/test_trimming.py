"""Trimmed objects decide the same, and equal parts are one object."""

from __future__ import annotations

import msgspec

from dray.api.types.dra import ResourceClaimSpec
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod, PodSpec
from dray.exporter.trimming import Trimmer
from dray.scheduling import state
from dray.scheduling.nodes import pod_requirements
from tests import builders

POD: JsonObject = {
    "metadata": {
        "name": "p",
        "namespace": "shop",
        "uid": "u",
        "labels": {"app": "train"},
        "annotations": {"long": "x" * 100},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {
        "nodeName": "n1",
        "hostNetwork": True,
        "nodeSelector": {"zone": "a"},
        "overhead": {"cpu": "10m"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "initContainers": [
            {"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
        ],
        "containers": [
            {
                "name": "c",
                "image": "train",
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"hostPort": 80, "containerPort": 80}],
                "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
            }
        ],
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu"}],
        "containerStatuses": [
            {
                "name": "c",
                "allocatedResources": {"cpu": "3"},
                "resources": {"requests": {"cpu": "3", "memory": "1Gi"}},
            }
        ],
    },
}


def pod(**metadata: object) -> Pod:
    return msgspec.convert({**POD, "metadata": {**POD["metadata"], **metadata}}, Pod)


def test_a_pod_uses_and_requires_the_same() -> None:
    whole, trimmed = pod(), Trimmer().pod(pod())
    assert pod_requirements.requirements_of(trimmed) == pod_requirements.requirements_of(whole)
    assert state._usage_of(trimmed) == state._usage_of(whole)
    assert trimmed.metadata.key == whole.metadata.key
    assert trimmed.spec.node_name == "n1"
    assert trimmed.spec.resource_claims == whole.spec.resource_claims
    assert trimmed.status.resource_claim_statuses == whole.status.resource_claim_statuses
    assert trimmed.spec.volumes == ()
    assert trimmed.status.conditions == ()
    assert trimmed.metadata.annotations == {}


def test_equal_parts_are_one_object_and_other_parts_are_not() -> None:
    trimmer = Trimmer()
    one, other = trimmer.pod(pod(name="a")), trimmer.pod(pod(name="b", labels={"app": "other"}))
    assert one.spec.containers is other.spec.containers
    assert one.metadata.labels == {"app": "train"}
    assert other.metadata.labels == {"app": "other"}
    claims = [trimmer.claim(builders.claim(builders.request(), name=name)) for name in "ab"]
    assert claims[0].spec is claims[1].spec
    assert [claim.metadata.name for claim in claims] == ["a", "b"]
    # An empty spec of another kind has the same bytes.
    assert isinstance(trimmer.pod(Pod()).spec, PodSpec)
    assert isinstance(trimmer.claim(builders.claim()).spec, ResourceClaimSpec)


def test_a_claim_keeps_its_devices_and_a_node_its_resources() -> None:
    trimmer = Trimmer()
    held = builders.allocated(builders.claim(builders.request()), "gpu-0")
    assert trimmer.claim(held).status.allocation == held.status.allocation
    node = msgspec.convert(
        {
            "metadata": {"name": "n", "labels": {"a": "b"}},
            "spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"pods": "10"},
                "capacity": {"pods": "11"},
                "declaredFeatures": ["A"],
                "images": [{"names": ["x"]}],
            },
        },
        Node,
    )
    trimmed = trimmer.node(node)
    assert trimmed.spec == node.spec
    assert trimmed.metadata.labels == node.metadata.labels
    assert trimmed.status.allocatable == {"pods": "10"}
    assert trimmed.status.declared_features == ("A",)
    assert not trimmed.status.images

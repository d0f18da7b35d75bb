"""Tests with a cluster of their own: `pytest examples/testing`."""

from __future__ import annotations

import pytest

from dray.testing import Cluster

TRAINER = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpus}
spec:
  devices:
    requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}]
---
apiVersion: v1
kind: Pod
metadata: {name: trainer}
spec:
  containers: [{name: main, image: busybox, resources: {claims: [{name: gpus}]}}]
  resourceClaims: [{name: gpus, resourceClaimName: gpus}]
"""


def test_the_trainer_gets_two_gpus_of_one_node(cluster: Cluster) -> None:
    cluster.apply(TRAINER)
    pod = cluster.wait_for_pod("trainer", "Running")
    node = pod["spec"]["nodeName"]
    assert cluster.devices_of("gpus") == [f"{node}/gpu-0", f"{node}/gpu-1"]


@pytest.mark.dray(fleet="h100", nodes=1)
def test_a_broken_gpu_is_left_out(cluster: Cluster) -> None:
    cluster.fail("h100-0", "gpu-0")
    cluster.wait_for(lambda: "unhealthy" in str(cluster.list("resourceslices")), "the taint")
    cluster.apply(TRAINER)
    cluster.wait_for_pod("trainer")
    assert cluster.devices_of("gpus") == ["h100-0/gpu-1", "h100-0/gpu-2"]


@pytest.mark.dray(fleet="l4", nodes=1)
def test_one_gpu_is_not_enough(cluster: Cluster) -> None:
    cluster.apply(TRAINER)
    cluster.wait_until_unschedulable("trainer")
    assert "fewer than 2 devices" in cluster.explain("trainer").text

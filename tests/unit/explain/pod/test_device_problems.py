"""Problems of the devices of a pod, and the names of these devices."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.ids import ClaimKey
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.explain.pod import device_problems, obstacles
from dray.explain.pod.obstacles import Obstacle
from tests import builders
from tests.builders import DRIVER


def pod_with(*containers: dict[str, Any]) -> Pod:
    status = {"containerStatuses": containers}
    return builders.pod(namespace="team", claims={"gpu": "one"}, status=status)


def container(resource: str, identity: str, health: str = "Unhealthy") -> dict[str, Any]:
    status = {"name": resource, "resources": [{"resourceID": identity, "health": health}]}
    return {"name": "main", "allocatedResourcesStatus": [status]}


def claims(*devices: str) -> dict[ClaimKey, ResourceClaim]:
    """Return one claim with devices, each written as `request=device`."""
    claim = builders.allocated(builders.claim(name="one", namespace="team"), *devices)
    return {claim.key: claim}


def problems(pod: Pod, allocated: dict[ClaimKey, ResourceClaim]) -> list[Obstacle]:
    return list(device_problems.device_problems(pod, allocated, (), ()))


@pytest.mark.parametrize(
    ("resource", "identity", "devices", "named"),
    [
        pytest.param(
            "claim:gpu", "x/y=whatever", ["a=gpu-0"], f"{DRIVER}/n1/gpu-0", id="the only one"
        ),
        pytest.param(
            "claim:gpu",
            "x/y=uid-gpu-1",
            ["a=gpu-0", "a=gpu-1"],
            f"{DRIVER}/n1/gpu-1",
            id="by the end of its CDI name",
        ),
        pytest.param(
            "claim:gpu/b",
            "x/y=whatever",
            ["a=gpu-0", "b/large=gpu-1"],
            f"{DRIVER}/n1/gpu-1",
            id="by its request",
        ),
        pytest.param(
            "claim:gpu",
            "x/y=whatever",
            ["a=gpu-0", "a=gpu-1"],
            "x/y=whatever",
            id="by its CDI name where nothing says which",
        ),
        pytest.param("example.com/nic", "nic-7", ["a=gpu-0"], "nic-7", id="of no claim"),
    ],
)
def test_an_unhealthy_device_is_named_as_well_as_it_is_known(
    resource: str, identity: str, devices: list[str], named: str
) -> None:
    found = problems(pod_with(container(resource, identity)), claims(*devices))
    assert found == [obstacles.DeviceUnhealthy(device=named)]


def test_a_device_of_two_containers_is_told_once() -> None:
    both = pod_with(container("claim:gpu", "x/y=0"), container("claim:gpu", "x/y=0"))
    assert len(problems(both, claims("a=gpu-0"))) == 1


@pytest.mark.parametrize("health", ["Healthy", "Unknown"])
def test_devices_that_are_not_said_to_be_unhealthy_are_no_concern(health: str) -> None:
    assert problems(pod_with(container("claim:gpu", "x/y=0", health)), claims("a=gpu-0")) == []

"""Limits as numbers, from the resources of containers and pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.containers import Container, ResourceRequirements
from dray.api.types.pods import Pod, PodSpec
from dray.node.limits import resources
from dray.node.runtimes.interface import ResourceLimits

MI = 2**20


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "resources": fields}


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    return Pod(spec=msgspec.convert({"containers": list(containers), **spec}, PodSpec))


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        ({}, {}, ResourceLimits()),
        ({"cpu": "200m"}, {}, ResourceLimits(cpus=0.2, cpu_request=0.2)),
        ({"cpu": "2"}, {"cpu": "500m"}, ResourceLimits(cpus=2.0, cpu_request=0.5)),
        ({}, {"cpu": "1"}, ResourceLimits(cpu_request=1.0)),
        ({"memory": "100Mi"}, {"memory": "10Mi"}, ResourceLimits(memory_bytes=100 * MI)),
        ({"memory": "1e3"}, {}, ResourceLimits(memory_bytes=1000)),
        ({"cpu": "0", "memory": "0"}, {}, ResourceLimits()),
        ({"memory": "1m"}, {}, ResourceLimits(memory_bytes=1)),
        ({"example.com/gpu": "4"}, {}, ResourceLimits()),
    ],
)
def test_a_container(
    limits: dict[str, str], requests: dict[str, str], expected: ResourceLimits
) -> None:
    asked = Container(name="main", resources=ResourceRequirements(limits, requests))
    assert resources.resource_limits(asked) == expected


def test_a_pod_is_limited_to_the_sum_of_its_containers() -> None:
    both = pod(
        container("a", limits={"cpu": "1", "memory": "100Mi"}),
        container("b", limits={"cpu": "500m", "memory": "50Mi"}),
    )
    found = resources.pod_limits(both, 4096)
    assert (found.cpus, found.memory_bytes, found.pids) == (1.5, 150 * MI, 4096)


def test_a_pod_is_not_limited_where_a_container_is_not() -> None:
    one = pod(container("a", limits={"cpu": "1", "memory": "1Mi"}), container("b"))
    found = resources.pod_limits(one, 0)
    assert (found.cpus, found.memory_bytes, found.pids) == (None, None, None)


def test_an_init_container_without_a_limit_counts() -> None:
    limited = container("a", limits={"memory": "10Mi"})
    assert resources.pod_limits(pod(limited), 0).memory_bytes == 10 * MI
    with_init = pod(limited, initContainers=[container("init")])
    assert resources.pod_limits(with_init, 0).memory_bytes is None


def test_a_pod_may_have_limits_of_its_own() -> None:
    whole = {"limits": {"cpu": "250m", "memory": "64Mi"}, "requests": {"cpu": "100m"}}
    found = resources.pod_limits(pod(container("a"), container("b"), resources=whole), 7)
    assert found == ResourceLimits(cpus=0.25, cpu_request=0.1, memory_bytes=64 * MI, pids=7)

"""What a pod charges a node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.formats import quantity
from dray.api.semantics import pod_resources
from dray.api.semantics.pod_resources import ResourceCountOptions
from dray.api.types.pods import Pod


def pod(**fields: Any) -> Pod:
    return msgspec.convert(fields, Pod)


def container(name: str = "c", limits: Any = None, **requests: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests, "limits": limits or {}}}


def sidecar(**requests: str) -> dict[str, Any]:
    return {**container("s", **requests), "restartPolicy": "Always"}


def texts(amounts: pod_resources.Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param(
            {"containers": [container(cpu="1", memory="1Gi"), container(cpu="500m")]},
            {"cpu": "1500m", "memory": "1Gi"},
            id="containers add up",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="3", memory="1Gi")],
            },
            {"cpu": "3", "memory": "1Gi"},
            id="an init container needs its own for a while",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="2"), container(cpu="3")],
            },
            {"cpu": "3"},
            id="init containers run one after the other",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="2")]},
            {"cpu": "3"},
            id="a sidecar stays",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [sidecar(cpu="2"), container(cpu="3"), sidecar(cpu="1")],
            },
            {"cpu": "5"},
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "100m", "memory": "10Mi"}},
            {"cpu": "1100m", "memory": "10Mi"},
            id="overhead comes on top",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", memory="1Gi", **{"example.com/gpu": "1"})],
                "resources": {"requests": {"cpu": "4"}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": "5", "memory": "1Gi", "example.com/gpu": "1"},
            id="pod-level requests replace the sum",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "resources": {"limits": {"cpu": "4"}}},
            {"cpu": "1"},
            id="pod-level limits are no requests",
        ),
    ],
)
def test_requests(spec: dict[str, Any], requests: dict[str, str]) -> None:
    assert texts(pod_resources.pod_requests(pod(spec=spec))) == requests


def test_limits_take_overhead_only_where_there_is_a_limit() -> None:
    spec = {
        "containers": [container(limits={"cpu": "1"}), container(limits={"cpu": "2"})],
        "overhead": {"cpu": "100m", "memory": "1Gi"},
    }
    assert texts(pod_resources.pod_limits(pod(spec=spec))) == {"cpu": "3100m"}


def test_pod_level_limits_replace_the_sum() -> None:
    spec = {
        "containers": [container(limits={"cpu": "1", "memory": "1Gi"})],
        "resources": {"limits": {"cpu": "8"}},
    }
    assert texts(pod_resources.pod_limits(pod(spec=spec))) == {"cpu": "8", "memory": "1Gi"}


def test_containers_that_do_not_say_are_assumed_to_request_something() -> None:
    counting = ResourceCountOptions(assumed={"cpu": quantity.parse("100m")})
    spec = {"containers": [container(memory="1Gi"), container(cpu="0")]}
    requests = pod_resources.pod_requests(pod(spec=spec), counting)
    assert texts(requests) == {"cpu": "100m", "memory": "1Gi"}


def resized(condition: str = "", **status: Any) -> Pod:
    conditions = [{"type": "PodResizePending", "reason": condition}] if condition else []
    return pod(
        spec={"containers": [container(limits={"cpu": "8"}, cpu="4")]},
        status={"conditions": conditions, "containerStatuses": [{"name": "c", **status}]},
    )


@pytest.mark.parametrize(
    ("condition", "status", "requests", "limits"),
    [
        pytest.param("", {}, "4", "8", id="no report"),
        pytest.param("", {"allocatedResources": {"cpu": "6"}}, "6", "8", id="was promised more"),
        pytest.param(
            "",
            {"resources": {"requests": {"cpu": "7"}, "limits": {"cpu": "9"}}},
            "7",
            "9",
            id="still has more",
        ),
        pytest.param(
            "Infeasible",
            {
                "allocatedResources": {"cpu": "1"},
                "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}},
            },
            "2",
            "3",
            id="will not get what it asks",
        ),
    ],
)
def test_resized_pods_charge_the_most_they_may_hold(
    condition: str, status: dict[str, Any], requests: str, limits: str
) -> None:
    counting = ResourceCountOptions(resized=True)
    changed = resized(condition, **status)
    assert texts(pod_resources.pod_requests(changed, counting)) == {"cpu": requests}
    assert texts(pod_resources.pod_limits(changed, counting)) == {"cpu": limits}
    assert texts(pod_resources.pod_requests(changed)) == {"cpu": "4"}


def test_pods_resized_as_a_whole() -> None:
    changed = pod(
        spec={"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "2"}}},
        status={"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "4"}}},
    )
    as_a_whole = ResourceCountOptions(resized=True, resized_as_a_whole=True)
    assert texts(pod_resources.pod_requests(changed, as_a_whole)) == {"cpu": "4"}
    assert texts(pod_resources.pod_requests(changed, ResourceCountOptions(resized=True))) == {
        "cpu": "2"
    }


CLAIM_STATUS = {
    "resourceClaimName": "cpus",
    "containers": ["a", "b"],
    "mapping": [{"name": "cpu", "quantity": "4"}],
    "overhead": [{"name": "memory", "perPod": "1Gi", "perContainer": "256Mi"}],
}


def test_devices_that_bring_node_resources_are_counted_on_demand() -> None:
    claiming = pod(
        spec={"containers": [container(limits={"cpu": "2"}, cpu="1")]},
        status={"nodeAllocatableResourceClaimStatuses": [CLAIM_STATUS]},
    )
    counting = ResourceCountOptions(node_allocatable_claims=True)
    assert texts(pod_resources.pod_requests(claiming)) == {"cpu": "1"}
    assert texts(pod_resources.pod_requests(claiming, counting)) == {"cpu": "5", "memory": "1536Mi"}
    assert texts(pod_resources.pod_limits(claiming, counting)) == {"cpu": "6"}


@pytest.mark.parametrize(
    ("name", "is_extended"),
    [
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/batteries", False),
        ("deviceclass.resource.kubernetes.io/gpu", False),
        ("nvidia.com/gpu", True),
        ("requests.nvidia.com/gpu", False),
        ("nvidia.com/", False),
    ],
)
def test_extended_resources(name: str, is_extended: bool) -> None:
    assert pod_resources.is_extended_resource(name) is is_extended


EQUAL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "qos"),
    [
        pytest.param({}, "BestEffort", id="no container"),
        pytest.param({"containers": [container()]}, "BestEffort", id="nothing stated"),
        pytest.param({"containers": [container(limits=EQUAL, **EQUAL)]}, "Guaranteed", id="equal"),
        pytest.param({"containers": [container(cpu="1")]}, "Burstable", id="no limit"),
        pytest.param(
            {"containers": [container(limits={"cpu": "1"}, cpu="1")]}, "Burstable", id="cpu only"
        ),
        pytest.param(
            {"containers": [container(limits=EQUAL, **EQUAL), container()]},
            "Burstable",
            id="one has nothing",
        ),
        pytest.param(
            {"containers": [container(**{"example.com/gpu": "1"})]},
            "BestEffort",
            id="devices do not matter",
        ),
        pytest.param(
            {"containers": [container()], "resources": {"requests": EQUAL, "limits": EQUAL}},
            "Guaranteed",
            id="pod-level",
        ),
    ],
)
def test_qos_class(spec: dict[str, Any], qos: str) -> None:
    assert pod_resources.qos_class(pod(spec=spec)) == qos

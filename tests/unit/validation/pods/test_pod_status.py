"""Rules for the status of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types import pods
from tests.unit.validation import objects

CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]


def changed(new: dict[str, Any], old: dict[str, Any] | None = None, **spec: Any) -> list[str]:
    """Errors of an update from the old status to the new one."""
    content = objects.pod_spec(resourceClaims=CLAIMS, **spec)
    return objects.status_updated(
        "Pod", objects.pod(content, status=new), objects.pod(content, status=old or {})
    )


def test_an_ordinary_status_is_valid() -> None:
    assert not changed(
        {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "hostIP": "192.168.0.1",
            "hostIPs": [{"ip": "192.168.0.1"}],
            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "example-gpu-x7k2f"}],
        }
    )


def test_a_claim_of_the_status_is_one_of_the_spec() -> None:
    statuses = [{"name": "nic"}, {"name": "nic"}]
    assert changed({"resourceClaimStatuses": statuses}) == [
        'status.resourceClaimStatuses[0].name: Invalid value: "nic": '
        "must match the name of an entry in `spec.resourceClaims`",
        'status.resourceClaimStatuses[1].name: Invalid value: "nic": '
        "must match the name of an entry in `spec.resourceClaims`",
        'status.resourceClaimStatuses[1].name: Duplicate value: "nic"',
    ]


def test_the_claim_for_extended_resources_maps_requests_of_containers() -> None:
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r-0"}
    status = {"resourceClaimName": "c", "requestMappings": [mapping]}
    assert changed({"extendedResourceClaimStatus": status}) == [
        "status.extendedResourceClaimStatus.requestMappings[0].resourceName: Invalid value: "
        '"example.com/gpu": must match the extended resource name of an entry in '
        "spec.initContainers.resources.requests or spec.containers.resources.requests"
    ]
    assert changed({"extendedResourceClaimStatus": {}}) == [
        "status.extendedResourceClaimStatus.requestMappings: Required value: "
        "at least one request mapping is required",
        "status.extendedResourceClaimStatus.resourceClaimName: Required value",
    ]


def test_what_devices_bring_to_a_node_belongs_to_a_claim_of_the_pod() -> None:
    mapping = [{"name": "pods", "quantity": "-1"}]
    status = {"resourceClaimName": "other", "mapping": mapping}
    path = "status.nodeAllocatableResourceClaimStatuses[0]"
    assert changed({"nodeAllocatableResourceClaimStatuses": [status]}) == [
        f'{path}.resourceClaimName: Invalid value: "other": no mapping found in pod reference',
        f'{path}.mapping[0].name: Invalid value: "pods": must be a node allocatable resource name',
        f'{path}.mapping[0].quantity: Invalid value: "-1": must be non-negative',
    ]


def test_what_devices_bring_to_a_node_has_a_name_and_an_amount() -> None:
    status = {"resourceClaimName": "", "mapping": [{"name": "cpu"}]}
    path = "status.nodeAllocatableResourceClaimStatuses[0]"
    assert changed({"nodeAllocatableResourceClaimStatuses": [status]}) == [
        f"{path}.resourceClaimName: Required value",
        f"{path}.mapping[0].quantity: Required value",
    ]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            pods.PodStatus(pod_ip="10.0.0.1", pod_ips=(pods.PodIP("10.0.0.2"),)),
            'status.podIPs[0].ip: Invalid value: "10.0.0.2": must be equal to `podIP`',
        ),
        (
            pods.PodStatus(pod_ip="10.0.0.1"),
            "status.podIPs: Invalid value: null: "
            "podIP and podIPs must either both be set or both be unset",
        ),
        (
            pods.PodStatus(host_ip="10.0.0.1", host_ips=(pods.HostIP("10.0.0.2"),)),
            'status.hostIPs[0].ip: Invalid value: "10.0.0.2": must be equal to `hostIP`',
        ),
    ],
)
def test_addresses_agree(status: pods.PodStatus, message: str) -> None:
    pod = objects.pod()
    new = pods.Pod(metadata=pod.metadata, spec=pod.spec, status=status)
    old = pods.Pod(metadata=pod.metadata, spec=pod.spec)
    assert objects.status_updated("Pod", new, old) == [message]


def test_there_is_one_address_of_each_family() -> None:
    ips = [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]
    (message,) = changed({"podIP": "10.0.0.1", "podIPs": ips})
    assert message == (
        'status.podIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}]: '
        "may specify no more than one IP for each IP family"
    )


def test_a_bad_address_may_stay() -> None:
    bad = {"podIP": "010.0.0.1", "podIPs": [{"ip": "010.0.0.1"}]}
    assert not changed(bad, bad)
    assert changed(bad) == [
        'status.podIPs[0]: Invalid value: "010.0.0.1": must not have leading 0s'
    ]


def test_the_quality_of_service_stays() -> None:
    assert changed({"qosClass": "Guaranteed"}, {"qosClass": "Burstable"}) == [
        'status.qosClass: Invalid value: "Guaranteed": field is immutable'
    ]


def test_a_bound_pod_is_not_nominated() -> None:
    assert changed({"nominatedNodeName": "m"}, nodeName="n") == [
        "status.nominatedNodeName: Forbidden: "
        "may not be set on pods that are already bound to a node"
    ]
    assert not changed({"nominatedNodeName": "m"})


def container_status(exit_code: int | None) -> dict[str, Any]:
    state: dict[str, Any] = {"running": {}}
    if exit_code is not None:
        state = {"terminated": {"exitCode": exit_code}}
    return {"containerStatuses": [{"name": "main", "state": state}]}


@pytest.mark.parametrize(
    ("policy", "exit_code", "may_restart"),
    [
        ("Always", 0, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_a_container_that_has_ended_for_good_does_not_run_again(
    policy: str, exit_code: int, may_restart: bool
) -> None:
    errors = changed(container_status(None), container_status(exit_code), restartPolicy=policy)
    refusal = (
        "status.containerStatuses[0].state: Forbidden: "
        "may not be transitioned to non-terminated state"
    )
    assert errors == ([] if may_restart else [refusal])


def test_a_restart_rule_allows_what_the_policy_does_not() -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    main = {
        "name": "main",
        "image": "busybox",
        "restartPolicy": "Never",
        "restartPolicyRules": [rule],
    }
    spec = {"restartPolicy": "Never", "containers": [main]}
    assert not changed(container_status(None), container_status(42), **spec)
    assert changed(container_status(None), container_status(41), **spec)


def test_health_is_reported_for_what_a_container_uses() -> None:
    def health(name: str, *devices: dict[str, Any]) -> dict[str, Any]:
        resource = {"name": name, "resources": list(devices)}
        return {"containerStatuses": [{"name": "main", "allocatedResourcesStatus": [resource]}]}

    main = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    device = {"resourceID": "gpu-0", "health": "Healthy"}
    assert not changed(health("claim:gpu", device), containers=[main])
    (unused,) = changed(health("claim:nic", device), containers=[main])
    assert "must match one of the container's resource claims" in unused
    assert changed(
        health("claim:gpu", device, {**device, "health": "Fine"}), containers=[main]
    ) == [
        "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].health: "
        'Unsupported value: "Fine": supported values: "Healthy", "Unhealthy", "Unknown"',
        "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID: "
        'Duplicate value: "gpu-0"',
    ]


def test_a_condition_of_ones_own_has_a_qualified_name() -> None:
    (message,) = changed({"conditions": [{"type": "not a name", "status": "True"}]})
    assert message.startswith('status.conditions[0].Type: Invalid value: "not a name"')

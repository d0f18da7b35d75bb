"""What a ResourceQuota counts."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from dray.api.formats import quantity
from dray.api.ids import GroupResource
from dray.api.semantics import pod_resources, quota
from dray.api.types.core import ResourceQuota, ScopedResourceSelectorRequirement
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
CLAIMS = "count/resourceclaims.resource.k8s.io"
GPUS = "gpu.deviceclass.resource.k8s.io/devices"
IMPLICIT_GPUS = "requests.deviceclass.resource.kubernetes.io/gpu"


def pod(metadata: Any = None, status: Any = None, **spec: Any) -> Pod:
    wire = {"metadata": metadata or {}, "spec": spec, "status": status or {}}
    return msgspec.convert(wire, Pod)


def claim(*requests: dict[str, Any], **metadata: Any) -> ResourceClaim:
    wire = {"metadata": metadata, "spec": {"devices": {"requests": list(requests)}}}
    return msgspec.convert(wire, ResourceClaim)


def exactly(count: int = 0, mode: str = "ExactCount", of: str = "gpu") -> dict[str, Any]:
    return {"deviceClassName": of, "allocationMode": mode, "count": count}


def texts(amounts: pod_resources.Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


@pytest.mark.parametrize(
    ("requests", "gpus"),
    [
        pytest.param([{"exactly": exactly(3)}], "3", id="count"),
        pytest.param([{"exactly": exactly(3)}, {"exactly": exactly(2)}], "5", id="requests add up"),
        pytest.param([{"exactly": exactly(mode="All")}], "32", id="all is the most it can be"),
        pytest.param([{"exactly": exactly(3, "Future")}], "0", id="unknown mode"),
        pytest.param(
            [{"firstAvailable": [exactly(1), exactly(4)]}], "4", id="the worst alternative"
        ),
    ],
)
def test_claims_charge_devices_of_their_class(requests: list[dict[str, Any]], gpus: str) -> None:
    charges = texts(quota.claim_charges(claim(*requests), {}))
    assert charges[CLAIMS] == "1"
    assert charges[GPUS] == gpus
    assert charges.get(IMPLICIT_GPUS, "0") == gpus


def test_alternatives_of_several_classes_charge_each_of_them() -> None:
    request = {"firstAvailable": [exactly(2), exactly(1, of="small")]}
    charges = texts(quota.claim_charges(claim(request), {}))
    assert charges[GPUS] == "2"
    assert charges["small.deviceclass.resource.k8s.io/devices"] == "1"


def test_devices_count_as_the_extended_resource_of_their_class() -> None:
    charges = quota.claim_charges(claim({"exactly": exactly(2)}), {"gpu": "example.com/gpu"})
    assert texts(charges)["requests.example.com/gpu"] == "2"


def test_a_claim_for_extended_resources_does_not_charge_what_its_pod_charges() -> None:
    extended = {"gpu": "example.com/gpu"}
    charged = {"requests.example.com/gpu": quantity.parse("1")}
    charges = texts(quota.claim_charges(claim({"exactly": exactly(2)}), extended, charged))
    assert charges["requests.example.com/gpu"] == "1"
    charged["requests.example.com/gpu"] = quantity.parse("2")
    charges = texts(quota.claim_charges(claim({"exactly": exactly(2)}), extended, charged))
    assert "requests.example.com/gpu" not in charges
    assert charges[GPUS] == "2"


def extended_claim(name: str, created: str = "2026-01-01T00:00:00Z", uid: str = "u") -> Any:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    return claim(
        name=name,
        creationTimestamp=created,
        annotations={"resource.kubernetes.io/extended-resource-claim": "true"},
        ownerReferences=[owner],
    )


def test_the_extended_claim_of_a_pod_is_the_one_it_notes() -> None:
    noted = {"extendedResourceClaimStatus": {"resourceClaimName": "b"}}
    owner = pod(metadata={"uid": "u"}, status=noted)
    assert quota.is_extended_claim_of(extended_claim("b"), owner, [])
    assert not quota.is_extended_claim_of(extended_claim("a"), owner, [])
    assert not quota.is_extended_claim_of(extended_claim("b", uid="other"), owner, [])
    assert not quota.is_extended_claim_of(claim(name="b"), owner, [])


def test_without_a_note_the_extended_claim_is_the_oldest() -> None:
    owner = pod(metadata={"uid": "u"})
    first, second = extended_claim("a"), extended_claim("b")
    older = extended_claim("z", "2025-01-01T00:00:00Z")
    assert quota.is_extended_claim_of(first, owner, [first, second])
    assert not quota.is_extended_claim_of(second, owner, [first, second])
    assert not quota.is_extended_claim_of(first, owner, [first, older])


def test_pods_charge_requests_and_limits() -> None:
    resources = {
        "requests": {"cpu": "1", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }
    running = pod(containers=[{"name": "c", "resources": resources}])
    assert texts(quota.pod_charges(running, NOW)) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "1",
        "requests.cpu": "1",
        "limits.cpu": "2",
        "limits.memory": "1Gi",
        "requests.example.com/gpu": "2",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
    }


@pytest.mark.parametrize(
    ("metadata", "status", "is_charged"),
    [
        ({}, {"phase": "Succeeded"}, False),
        ({}, {"phase": "Failed"}, False),
        ({}, {"phase": "Running"}, True),
        (
            {"deletionTimestamp": "2026-01-01T11:59:00Z", "deletionGracePeriodSeconds": 30},
            {},
            False,
        ),
        ({"deletionTimestamp": "2026-01-01T11:59:50Z", "deletionGracePeriodSeconds": 30}, {}, True),
    ],
)
def test_pods_that_ended_are_only_objects(
    metadata: dict[str, Any], status: dict[str, Any], is_charged: bool
) -> None:
    charges = quota.pod_charges(pod(metadata, status), NOW)
    assert "count/pods" in charges
    assert ("pods" in charges) is is_charged


def test_other_kinds_charge_one_object() -> None:
    assert texts(quota.object_charges(GroupResource("apps", "deployments"))) == {
        "count/deployments.apps": "1"
    }
    assert texts(quota.object_charges(GroupResource("", "secrets"))) == {
        "count/secrets": "1",
        "secrets": "1",
    }


@pytest.mark.parametrize(
    ("name", "pods", "claims"),
    [
        ("pods", True, False),
        ("limits.cpu", True, False),
        ("requests.hugepages-1Gi", True, False),
        (CLAIMS, False, True),
        (GPUS, False, True),
        (IMPLICIT_GPUS, True, True),
        ("requests.deviceclass.resource.kubernetes.io/other", True, False),
        ("requests.example.com/gpu", True, True),
        ("requests.example.com/fpga", True, False),
        ("example.com/gpu", False, False),
        ("count/deployments.apps", False, False),
    ],
)
def test_which_names_concern_which_objects(name: str, pods: bool, claims: bool) -> None:
    assert quota.concerns_pods(name) is pods
    assert quota.concerns_claims(name, {"gpu": "example.com/gpu"}) is claims


def test_a_quota_for_cpu_obliges_every_container_to_state_it() -> None:
    stated = {"name": "a", "resources": {"requests": {"cpu": "1"}}}
    silent = pod(containers=[stated, {"name": "c"}], initContainers=[{"name": "b"}])
    names = ["requests.cpu", "limits.memory", "pods"]
    assert quota.missing_statements(silent, names) == (
        "must specify limits.memory for: a,b,c; requests.cpu for: b,c"
    )
    assert quota.missing_statements(pod(containers=[stated]), ["requests.cpu"]) is None
    whole = pod(containers=[{"name": "c"}], resources={"requests": {"cpu": "1"}})
    assert quota.missing_statements(whole, names) is None


OTHER_NAMESPACE = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaces": ["other"]}}
        ]
    }
}


@pytest.mark.parametrize(
    ("scope", "spec", "is_in"),
    [
        ("Terminating", {"activeDeadlineSeconds": 0}, True),
        ("NotTerminating", {}, True),
        ("BestEffort", {"containers": [{"name": "c"}]}, True),
        ("NotBestEffort", {"containers": [{"name": "c"}]}, False),
        ("PriorityClass", {"priorityClassName": "high"}, True),
        ("PriorityClass", {}, False),
        ("CrossNamespacePodAffinity", {"affinity": OTHER_NAMESPACE}, True),
        ("CrossNamespacePodAffinity", {}, False),
        ("Future", {}, False),
    ],
)
def test_scopes(scope: str, spec: dict[str, Any], is_in: bool) -> None:
    hard = {"hard": {"pods": "1"}}
    limit = msgspec.convert({"spec": {"scopes": [scope]}, "status": hard}, ResourceQuota)
    assert quota.concerns_pod(limit, pod(**spec)) is is_in


@pytest.mark.parametrize(
    ("operator", "values", "is_in"),
    [("In", ("high",), True), ("NotIn", ("high",), False), ("DoesNotExist", (), False)],
)
def test_scope_of_some_priority_classes(
    operator: str, values: tuple[str, ...], is_in: bool
) -> None:
    scope = ScopedResourceSelectorRequirement("PriorityClass", operator, values)
    assert quota.is_in_scope(pod(priorityClassName="high"), scope) is is_in


def test_a_quota_that_counts_no_pods_concerns_none() -> None:
    limit = msgspec.convert({"status": {"hard": {"count/secrets": "1"}}}, ResourceQuota)
    assert not quota.concerns_pod(limit, pod())

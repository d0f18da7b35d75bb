"""API defaults: what is filled in, and what is left as the client said it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dray.api.conversion import defaults

NOW = "2026-11-15T01:24:49Z"
RESOURCE = "resource.k8s.io/v1"


def filled(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    stored = {"apiVersion": api_version, "kind": kind, **copy.deepcopy(fields)}
    defaults.fill(stored, NOW)
    again = copy.deepcopy(stored)
    defaults.fill(again, "2030-01-01T00:00:00Z")
    assert again == stored, "a second pass must change nothing"
    return stored


def claim_request(request: dict[str, Any]) -> Any:
    claim = filled(RESOURCE, "ResourceClaim", spec={"devices": {"requests": [request]}})
    return claim["spec"]["devices"]["requests"][0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, {"allocationMode": "ExactCount", "count": 1}, id="both"),
        pytest.param({"count": 0}, {"allocationMode": "ExactCount", "count": 1}, id="zero"),
        pytest.param({"count": 3}, {"allocationMode": "ExactCount", "count": 3}, id="count"),
        pytest.param({"allocationMode": "All"}, {"allocationMode": "All"}, id="all has none"),
        pytest.param(
            {"allocationMode": "All", "tolerations": [{"key": "a"}, {"operator": "Exists"}]},
            {
                "allocationMode": "All",
                "tolerations": [{"key": "a", "operator": "Equal"}, {"operator": "Exists"}],
            },
            id="tolerations",
        ),
    ],
)
def test_requests(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert claim_request({"exactly": given}) == {"exactly": expected}
    assert claim_request({"firstAvailable": [given]}) == {"firstAvailable": [expected]}


def test_null_in_a_list_of_objects_is_an_empty_object_with_defaults() -> None:
    service = filled("v1", "Service", spec={"ports": [None, {"port": 80}]})
    assert service["spec"]["ports"][0] == {"protocol": "TCP", "targetPort": None}
    assert service["spec"]["ports"][1]["protocol"] == "TCP"


def test_a_request_of_neither_kind_is_left_for_validation() -> None:
    assert claim_request({"name": "a"}) == {"name": "a"}


def test_templates_are_filled_inside() -> None:
    spec: dict[str, Any] = {"spec": {"devices": {"requests": [{"exactly": {}}]}}}
    template = filled(RESOURCE, "ResourceClaimTemplate", spec=spec)
    request = template["spec"]["spec"]["devices"]["requests"][0]
    assert request["exactly"]["allocationMode"] == "ExactCount"


def test_tolerations_of_results_are_filled() -> None:
    results: dict[str, Any] = {"allocation": {"devices": {"results": [{"tolerations": [{}]}]}}}
    claim = filled(RESOURCE, "ResourceClaim", spec={}, status=results)
    result = claim["status"]["allocation"]["devices"]["results"][0]
    assert result["tolerations"] == [{"operator": "Equal"}]


def test_taints_are_added_now_unless_they_say_when() -> None:
    taints = [{"key": "a"}, {"key": "b", "timeAdded": "2020-01-01T00:00:00Z"}]
    spec = {"devices": [{"name": "gpu-0", "taints": taints}]}
    resource_slice = filled(RESOURCE, "ResourceSlice", spec=spec)
    times = [taint["timeAdded"] for taint in resource_slice["spec"]["devices"][0]["taints"]]
    assert times == [NOW, "2020-01-01T00:00:00Z"]
    rule = filled(RESOURCE, "DeviceTaintRule", spec={"taint": {"key": "a"}})
    assert rule["spec"]["taint"]["timeAdded"] == NOW


def test_pool_status_requests_are_limited() -> None:
    request = filled("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", spec={"driver": "d"})
    assert request["spec"]["limit"] == 100


def test_a_pod_template_gets_the_defaults_of_a_spec_only() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "cuda"}]}}
    deployment = filled("apps/v1", "Deployment", spec={"template": template})
    assert deployment["spec"] == {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
        },
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "cuda",
                        "imagePullPolicy": "Always",
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                    }
                ],
                "dnsPolicy": "ClusterFirst",
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
            }
        },
    }


def pod_with(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "a:1", **(container or {})}]
    return filled("v1", "Pod", spec={"containers": containers, **spec})


def first_container(**fields: Any) -> Any:
    return pod_with(fields)["spec"]["containers"][0]


def test_a_pod_requests_what_it_limits() -> None:
    container = first_container(
        resources={"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    )
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_a_template_does_not_request_what_it_limits() -> None:
    container = {"name": "c", "resources": {"limits": {"cpu": "2"}}}
    spec = {"template": {"spec": {"containers": [container]}}}
    replica_set = filled("apps/v1", "ReplicaSet", spec=spec)
    filled_container = replica_set["spec"]["template"]["spec"]["containers"][0]
    assert filled_container["resources"] == {"limits": {"cpu": "2"}}
    assert "enableServiceLinks" not in replica_set["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("amount", "rounded"),
    [
        ("100m", "100m"),
        ("1.0001", "1001m"),
        ("0.1m", "1m"),
        (1, 1),
        ("1n", "1m"),
        ("1Gi", "1Gi"),
        (None, None),
    ],
)
def test_resources_are_rounded_up_to_a_thousandth(amount: Any, rounded: Any) -> None:
    container = first_container(resources={"requests": {"cpu": amount}})
    assert container["resources"]["requests"]["cpu"] == rounded


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("cuda", "Always"),
        ("cuda:latest", "Always"),
        ("cuda:12", "IfNotPresent"),
        ("cuda@sha256:" + "0" * 64, "IfNotPresent"),
        ("Not An Image", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert first_container(image=image)["imagePullPolicy"] == policy


def test_a_pull_policy_that_was_chosen_stays() -> None:
    assert first_container(imagePullPolicy="Never")["imagePullPolicy"] == "Never"


def test_probes_and_hooks() -> None:
    container = first_container(
        livenessProbe={"httpGet": {"port": 80}, "periodSeconds": 5},
        readinessProbe={"grpc": {"port": 1}},
        lifecycle={"preStop": {"httpGet": {"port": 80, "path": "/bye"}}},
    )
    assert container["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert container["readinessProbe"]["grpc"] == {"port": 1, "service": ""}
    assert container["lifecycle"]["preStop"]["httpGet"]["path"] == "/bye"


def test_ports_and_variables() -> None:
    container = first_container(
        ports=[{"containerPort": 80}],
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    )
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"


def test_ports_of_the_host_network_are_ports_of_the_host() -> None:
    pod = pod_with({"ports": [{"containerPort": 80}]}, hostNetwork=True)
    assert pod["spec"]["containers"][0]["ports"][0]["hostPort"] == 80


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        ({"hostPath": {"path": "/dev"}}, {"hostPath": {"path": "/dev", "type": ""}}),
        (
            {"image": {"reference": "m:1"}},
            {"image": {"reference": "m:1", "pullPolicy": "IfNotPresent"}},
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "x"}}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "l", "fieldRef": {"fieldPath": "x", "apiVersion": "v1"}}],
                    "defaultMode": 420,
                }
            },
        ),
        ({"futureKind": {}}, {"futureKind": {}}),
    ],
)
def test_volumes(given: dict[str, Any], expected: dict[str, Any]) -> None:
    pod = pod_with(volumes=[{"name": "v", **given}])
    assert pod["spec"]["volumes"] == [{"name": "v", **expected}]


def test_both_names_of_the_service_account_are_kept_in_step() -> None:
    spec = pod_with(serviceAccount="old")["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "old"
    spec = pod_with(serviceAccount="old", serviceAccountName="new")["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "new"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"podIP": "1"}, {"podIP": "1", "podIPs": [{"ip": "1"}]}),
        ({"podIPs": [{"ip": "2"}]}, {"podIP": "2", "podIPs": [{"ip": "2"}]}),
        ({"podIP": "1", "podIPs": [{"ip": "2"}]}, {"podIP": "1", "podIPs": [{"ip": "1"}]}),
    ],
)
def test_addresses_of_a_pod_are_kept_in_step(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert filled("v1", "Pod", spec={}, status=given)["status"] == expected


def test_a_negative_grace_period_of_a_pod_is_one_second() -> None:
    assert pod_with(terminationGracePeriodSeconds=-5)["spec"]["terminationGracePeriodSeconds"] == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"completions": 1, "parallelism": 1, "backoffLimit": 6}),
        ({"parallelism": 3}, {"parallelism": 3, "backoffLimit": 6}),
        ({"completions": 3}, {"completions": 3, "parallelism": 1, "backoffLimit": 6}),
        (
            {"completions": 1, "backoffLimitPerIndex": 1},
            {"completions": 1, "parallelism": 1, "backoffLimit": 2147483647},
        ),
    ],
)
def test_jobs(given: dict[str, Any], expected: dict[str, Any]) -> None:
    spec = filled("batch/v1", "Job", spec=given)["spec"]
    names = ("completions", "parallelism", "backoffLimit")
    assert {name: spec[name] for name in names if name in spec} == expected
    assert spec["completionMode"] == "NonIndexed"
    assert spec["podReplacementPolicy"] == "TerminatingOrFailed"
    assert spec["suspend"] is False


def test_a_job_takes_the_labels_of_its_pods() -> None:
    template = {"metadata": {"labels": {"a": "b"}}}
    job = filled("batch/v1", "Job", metadata={"name": "j"}, spec={"template": template})
    assert job["metadata"]["labels"] == {"a": "b"}
    assert job["metadata"]["labels"] is not job["spec"]["template"]["metadata"]["labels"]


def test_a_named_update_strategy_of_a_stateful_set_gets_no_numbers() -> None:
    named = {"updateStrategy": {"type": "RollingUpdate"}}
    stateful_set = filled("apps/v1", "StatefulSet", spec=named)
    assert stateful_set["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
    stateful_set = filled("apps/v1", "StatefulSet", spec={})
    assert stateful_set["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"partition": 0, "maxUnavailable": 1},
    }


def test_small_kinds() -> None:
    assert filled("v1", "Namespace", metadata={"name": "ml"}) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "ml", "labels": {"kubernetes.io/metadata.name": "ml"}},
        "status": {"phase": "Active"},
    }
    assert filled("v1", "Secret")["type"] == "Opaque"
    secret = filled("v1", "Secret", stringData={"a": "ü"}, data={"a": "eA==", "b": "eA=="})
    assert secret["data"] == {"a": "w7w=", "b": "eA=="}
    assert "stringData" not in secret
    assert filled("v1", "Secret", stringData={"a": None})["data"] == {"a": ""}
    for spec in ({"podCIDR": "10.0.0.0/24"}, {"podCIDRs": ["10.0.0.0/24"]}):
        ranges = filled("v1", "Node", spec=spec)["spec"]
        assert ranges == {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "v"}}]}
    (claim,) = filled("apps/v1", "StatefulSet", spec=claims)["spec"]["volumeClaimTemplates"]
    assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")
    node = filled("v1", "Node", status={"capacity": {"cpu": "8"}})
    assert node["status"]["allocatable"] == {"cpu": "8"}
    group = filled("scheduling.k8s.io/v1beta1", "PodGroup", spec={})
    assert group["spec"]["disruptionMode"] == {"single": {}}
    priority = filled("scheduling.k8s.io/v1", "PriorityClass", value=1)
    assert priority["preemptionPolicy"] == "PreemptLowerPriority"
    rbac = "rbac.authorization.k8s.io"
    subjects = [{"kind": "User"}, {"kind": "ServiceAccount"}]
    binding = filled(f"{rbac}/v1", "RoleBinding", subjects=subjects)
    assert binding["roleRef"] == {"apiGroup": rbac}
    assert binding["subjects"] == [{"kind": "User", "apiGroup": rbac}, {"kind": "ServiceAccount"}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"type": "ClusterIP", "internalTrafficPolicy": "Cluster"}),
        (
            {"type": "NodePort"},
            {
                "type": "NodePort",
                "internalTrafficPolicy": "Cluster",
                "externalTrafficPolicy": "Cluster",
            },
        ),
        ({"type": "ExternalName"}, {"type": "ExternalName"}),
    ],
)
def test_services(given: dict[str, Any], expected: dict[str, Any]) -> None:
    service = filled("v1", "Service", spec={**given, "ports": [{"port": 80}]})
    assert service["spec"] == {
        **expected,
        "sessionAffinity": "None",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    }


def test_kinds_without_defaults_stay_as_they_are() -> None:
    assert filled("example.com/v1", "Widget", spec={}) == {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "spec": {},
    }

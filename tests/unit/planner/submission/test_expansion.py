"""Manifests become the pods and claims that controllers and the API server would make."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from dray.api import features
from dray.api.conversion import typed_objects
from dray.api.templates.workload_types import StatefulSet
from dray.api.types.core import Namespace
from dray.api.types.dra import AllocationResult, ResourceClaim, ResourceClaimTemplate
from dray.api.types.meta import JsonObject, ObjectMeta, OwnerReference
from dray.api.types.nodes import Node, NodeSpec, Taint
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission import expansion, submitted_pods
from dray.planner.submission.expansion import expand
from dray.planner.submission.submitted_pods import SubmittedPod
from tests import builders

TEMPLATE = builders.template_manifest("one")
POD = builders.pod_manifest(templates={"gpu": "one"})["spec"]


def workload(kind: str, name: str = "web", spec: Any = POD, **more: Any) -> JsonObject:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"selector": {"matchLabels": labels}, "template": template, **more}
    if kind == "ReplicationController":
        body["selector"] = labels
    group = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    if kind == "Job":
        del body["selector"]
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": body}


def other(kind: str, name: str, api_version: str = "v1", **fields: Any) -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def names(pods: Sequence[SubmittedPod]) -> list[str]:
    return [item.pod.metadata.name for item in pods]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "ReplicationController"])
def test_replicas_are_equal_pods_with_a_claim_each(kind: str) -> None:
    document = workload(kind, replicas=2)
    before = copy.deepcopy(document)
    pods = expand([TEMPLATE, document], ClusterModel()).pods
    assert names(pods) == ["web-0", "web-1"]
    assert [item.owner for item in pods] == [f"{kind.lower()}/web"] * 2
    assert [item.ordinal for item in pods] == [0, 1]
    assert len({item.pod.metadata.uid for item in pods}) == 2
    for item in pods:
        (claim,) = item.claims
        (status,) = item.pod.status.resource_claim_statuses
        assert status.resource_claim_name == claim.metadata.name
        assert claim.metadata.owner_references[0].uid == item.pod.metadata.uid
        # Defaults of the API server.
        request = claim.spec.devices.requests[0].exactly
        assert request is not None
        assert (request.allocation_mode, request.count) == ("ExactCount", 1)
    assert document == before


def test_what_is_paused_or_suspended_makes_no_pods() -> None:
    documents = [workload("Deployment", paused=True), workload("Job", suspend=True)]
    assert not expand([TEMPLATE, *documents], ClusterModel()).pods


def test_the_pods_of_an_ordered_set_wait_for_each_other() -> None:
    pods = expand([TEMPLATE, workload("StatefulSet", replicas=3)], ClusterModel()).pods
    assert names(pods) == ["web-0", "web-1", "web-2"]
    uids = [item.pod.metadata.uid for item in pods]
    assert [item.after for item in pods] == ["", uids[0], uids[1]]
    parallel = workload("StatefulSet", replicas=2, podManagementPolicy="Parallel")
    assert [item.after for item in expand([TEMPLATE, parallel], ClusterModel()).pods] == ["", ""]


def test_a_daemon_set_has_a_pod_for_each_suitable_node() -> None:
    tainted = Node(ObjectMeta(name="c"), NodeSpec(taints=(Taint("no", effect="NoSchedule"),)))
    nodes = [builders.node("a"), builders.node("b", labels={"gpu": "yes"}), tainted]
    spec = {**POD, "nodeSelector": {"gpu": "yes"}}
    cluster = ClusterModel().with_objects(nodes)
    (pod,) = expand([workload("DaemonSet", spec=spec)], cluster).pods
    affinity = pod.pod.spec.affinity
    assert affinity is not None
    assert "b" in str(affinity.node_affinity)
    assert len(expand([workload("DaemonSet")], cluster).pods) == 2


def test_a_job_begins_with_as_many_pods_as_run_at_once() -> None:
    def count(**spec: Any) -> int:
        return len(expand([workload("Job", **spec)], ClusterModel()).pods)

    assert count() == 1
    assert count(parallelism=3) == 3
    assert count(parallelism=3, completions=2) == 2
    indexed = workload("Job", parallelism=2, completions=2, completionMode="Indexed")
    pods = expand([indexed], ClusterModel()).pods
    assert [item.pod.spec.hostname for item in pods] == ["web-0", "web-1"]


def test_a_claim_of_a_missing_template_is_not_made() -> None:
    (pod,) = expand([workload("ReplicaSet")], ClusterModel()).pods
    assert not pod.claims
    assert not pod.refusal
    assert not pod.pod.status.resource_claim_statuses


def test_pods_of_a_group_share_its_claim() -> None:
    gates = features.parse("GenericWorkload=true,DRAWorkloadResourceClaims=true")
    source = {"name": "gpu", "resourceClaimTemplateName": "one"}
    group = other(
        "PodGroup",
        "gang",
        "scheduling.k8s.io/v1beta1",
        spec={"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": [source]},
    )
    spec = {**POD, "schedulingGroup": {"podGroupName": "gang"}}
    documents = [workload("Job", spec=spec, parallelism=2), TEMPLATE, group]
    submission = expand(documents, ClusterModel(features=gates))
    (claim,) = submission.cluster.of(ResourceClaim)
    assert len(submission.cluster.of(PodGroup)) == 1
    for item in submission.pods:
        assert not item.claims
        (status,) = item.pod.status.resource_claim_statuses
        assert status.resource_claim_name == claim.metadata.name


def test_a_priority_class_gives_the_priority() -> None:
    high = other("PriorityClass", "high", "scheduling.k8s.io/v1", value=7)
    spec = {**POD, "priorityClassName": "high"}
    (pod,) = expand([workload("ReplicaSet", spec=spec), high], ClusterModel()).pods
    assert pod.pod.spec.priority == 7
    (pod,) = expand([workload("ReplicaSet", spec=spec)], ClusterModel()).pods
    assert pod.refusal == "no PriorityClass with name high was found"


def test_a_limit_range_gives_requests_and_refuses_too_much() -> None:
    bounds = {"type": "Container", "defaultRequest": {"cpu": "2"}, "max": {"cpu": "3"}}
    bounds["default"] = {"cpu": "3"}
    limits = other("LimitRange", "sizes", spec={"limits": [bounds]})
    (pod,) = expand([workload("ReplicaSet"), limits], ClusterModel()).pods
    assert pod.pod.spec.containers[0].resources.requests == {"cpu": "2"}
    bounds["max"] = {"cpu": "1"}
    (pod,) = expand([workload("ReplicaSet"), limits], ClusterModel()).pods
    assert "maximum cpu usage per Container is 1" in pod.refusal


def test_a_quota_refuses_what_is_beyond_it() -> None:
    quota = other("ResourceQuota", "small", spec={"hard": {"pods": "3"}})
    running = builders.pod("old", namespace="default", uid="old", nodeName="n")
    cluster = ClusterModel().with_objects([running])
    pods = expand([workload("ReplicaSet", replicas=3), quota], cluster).pods
    assert [bool(item.refusal) for item in pods] == [False, False, True]
    assert pods[2].refusal.startswith("exceeded quota: small, requested: pods=1, used: pods=3")
    # The other namespaces have none.
    assert not any(item.refusal for item in expand([workload("ReplicaSet")], cluster, "b").pods)


def test_a_quota_of_devices_refuses_claims() -> None:
    hard = {"gpu.deviceclass.resource.k8s.io/devices": "1"}
    quota = other("ResourceQuota", "devices", spec={"hard": hard})
    pods = expand([TEMPLATE, workload("ReplicaSet", replicas=2), quota], ClusterModel()).pods
    assert [bool(item.refusal) for item in pods] == [False, True]


def test_submitted_claims_count_once_and_may_be_refused() -> None:
    hard = {"gpu.deviceclass.resource.k8s.io/devices": "2"}
    quota = other("ResourceQuota", "devices", spec={"hard": hard})
    claims = [builders.claim_manifest(name) for name in ("a", "b", "c")]
    cluster = expand([quota, *claims], ClusterModel()).cluster
    assert [claim.metadata.name for claim in cluster.of(ResourceClaim)] == ["a", "b"]


def test_a_claim_that_exists_keeps_its_devices() -> None:
    held = builders.claim(builders.request(), name="held", namespace="default")
    status = msgspec.structs.replace(held.status, allocation=AllocationResult())
    held = msgspec.structs.replace(held, status=status)
    again = builders.claim_manifest("held", namespace="default")
    cluster = expand([again], ClusterModel().with_objects([held])).cluster
    assert list(cluster.of(ResourceClaim)) == [held]


def test_a_pod_that_exists_is_refused() -> None:
    running = builders.pod("train", namespace="default", uid="old", nodeName="n")
    cluster = ClusterModel().with_objects([running])
    (pod,) = expand([builders.pod_manifest()], cluster).pods
    assert pod.refusal == 'pods "train" already exists'
    (pod,) = expand([builders.pod_manifest()], cluster, "elsewhere").pods
    assert not pod.refusal


@pytest.mark.parametrize(("kind", "maker"), [("Deployment", "web-x1"), ("ReplicaSet", "web")])
def test_a_workload_that_has_pods_already_is_refused(kind: str, maker: str) -> None:
    running = builders.pod("web-x1-abcde", namespace="default", uid="old", nodeName="n")
    metadata = msgspec.structs.replace(
        running.metadata,
        labels={"pod-template-hash": "x1"},
        owner_references=(OwnerReference("apps/v1", "ReplicaSet", maker, "u", controller=True),),
    )
    cluster = ClusterModel().with_objects([msgspec.structs.replace(running, metadata=metadata)])
    (pod,) = expand([workload(kind)], cluster).pods
    assert pod.refusal == f'{kind.lower()}s "web" already exists and has pods'
    (pod,) = expand([workload(kind, "web-2")], cluster).pods
    assert not pod.refusal


def test_pods_that_this_scheduler_does_not_place_are_refused() -> None:
    (pod,) = expand([builders.pod_manifest(nodeName="n")], ClusterModel()).pods
    assert "spec.nodeName" in pod.refusal
    (pod,) = expand([builders.pod_manifest(schedulerName="mine")], ClusterModel()).pods
    assert "mine" in pod.refusal


def test_objects_in_a_namespace_that_does_not_exist_are_refused() -> None:
    known = ClusterModel().with_objects([Namespace(ObjectMeta(name="a"))])
    (pod,) = expand([builders.pod_manifest()], known, "b").pods
    assert pod.refusal == 'namespaces "b" not found'
    (pod,) = expand([builders.pod_manifest(), other("Namespace", "b")], known, "b").pods
    assert not pod.refusal


def test_waiting_pods_are_in_the_order_of_the_queue() -> None:
    def pod(name: str, **spec: Any) -> Pod:
        return builders.pod(name, uid=name, **spec)

    pods = [
        pod("second"),
        pod("first", priority=5),
        pod("placed", nodeName="n"),
        pod("foreign", schedulerName="mine"),
        builders.pod("ended", uid="ended", status={"phase": "Succeeded"}),
    ]
    waiting = submitted_pods.waiting(ClusterModel().with_objects(pods))
    assert names(waiting) == ["first", "second"]


def stateful_cluster(*pods: Pod, **spec: Any) -> ClusterModel:
    """Return a cluster with a StatefulSet of three pods, and some of these."""
    document = workload("StatefulSet", **{"replicas": 3, **spec})
    document["metadata"]["namespace"] = "default"
    stateful_set = typed_objects.decode(document, StatefulSet)
    template = typed_objects.decode(
        {**TEMPLATE, "metadata": {"name": "one", "namespace": "default"}}, ResourceClaimTemplate
    )
    return ClusterModel().with_objects([stateful_set, template, *pods])


def test_a_stateful_set_of_the_cluster_goes_on_after_its_pod_that_waits() -> None:
    runs, waits = owned("web-0", nodeName="n"), owned("web-1")
    first, second = expand((), stateful_cluster(runs, waits)).waiting
    assert first.pod is waits
    assert (second.pod.metadata.name, second.ordinal, second.after) == ("web-2", 2, "uid-web-1")
    assert [claim.metadata.name for claim in second.claims] == ["web-2-gpu"]
    made, last = expand((), stateful_cluster(owned("web-0"))).waiting[1:]
    assert (made.after, last.after) == ("uid-web-0", made.pod.metadata.uid)


@pytest.mark.parametrize(
    ("pod", "spec"),
    [
        pytest.param({}, {"podManagementPolicy": "Parallel"}, id="parallel"),
        pytest.param({}, {"replicas": 1}, id="complete"),
        pytest.param({"nodeName": "n"}, {}, id="running"),
        pytest.param({"nodeName": "n"}, {"replicas": 2_000_000_000}, id="running-of-many"),
    ],
)
def test_nothing_follows(pod: JsonObject, spec: JsonObject) -> None:
    found = expand((), stateful_cluster(owned("web-0", **pod), **spec))
    assert names(found.waiting) == ([] if pod else ["web-0"])


def test_a_pod_of_another_owner_is_not_that_of_the_set() -> None:
    assert names(expand((), stateful_cluster(builders.pod("web-0", uid="0"))).waiting) == ["web-0"]


def test_pods_that_follow_charge_quotas_last() -> None:
    quota = other("ResourceQuota", "q", spec={"hard": {"pods": "3"}})
    cluster = stateful_cluster(owned("web-0"))
    found = expand([quota, builders.pod_manifest("mine")], cluster)
    assert not found.pods[0].refusal
    assert names(found.waiting) == ["web-0", "web-1"]


def test_a_stateful_set_goes_on_although_it_is_submitted_again() -> None:
    cluster = stateful_cluster(owned("web-0"))
    found = expand([workload("StatefulSet", replicas=3)], cluster)
    assert all("already exists" in item.refusal for item in found.pods)
    assert names(found.waiting) == ["web-0", "web-1", "web-2"]


def test_a_number_of_replicas_cannot_stop_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "FOLLOWING_LIMIT", 5)
    cluster = stateful_cluster(owned("web-0"), replicas=2_000_000_000)
    assert len(expand((), cluster).waiting) == 6


def owned(name: str, **spec: Any) -> Pod:
    """Return a pod of the StatefulSet."""
    pod = builders.pod(name, uid=f"uid-{name}", **spec)
    owner = OwnerReference("apps/v1", "StatefulSet", "web", "web", controller=True)
    metadata = msgspec.structs.replace(pod.metadata, owner_references=(owner,))
    return msgspec.structs.replace(pod, metadata=metadata)


def test_more_pods_than_a_cluster_can_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "PODS_LIMIT", 3)
    assert len(expand([workload("Deployment", replicas=3)], ClusterModel()).pods) == 3
    with pytest.raises(ValueError, match="deployment/web: a plan has at most 3 pods"):
        expand([workload("Deployment", replicas=2_000_000_000)], ClusterModel())

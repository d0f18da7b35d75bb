"""API defaults, on dicts. Nowhere else is a default written.

`fill` is applied to an object in its stored version (`versions.to_storage`), after it was found
well formed (`decoding`) and before admission and validation. Defaults follow the functions of the
same kind in pkg/apis/*/*/defaults.go and zz_generated.defaults.go, with the feature gates as they
are in Kubernetes 1.37.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Final

from dray.api.conversion import pod_defaults
from dray.api.conversion.pod_defaults import absent, child, inside, items, round_resources, zero
from dray.api.types.meta import JsonObject


def fill(stored: JsonObject, now: str) -> None:
    """Write the defaults of its kind into `stored`; `now` is the time of taints added now."""
    filler = _BY_KIND.get((stored["apiVersion"], stored["kind"]))
    if filler:
        filler(stored, now)


_LABELLED_BY_TEMPLATE: Final = frozenset({("v1", "ReplicationController"), ("batch/v1", "Job")})


def fill_labels(stored: JsonObject, *specs: JsonObject | None) -> None:
    """Write the default labels of kinds that have those of their template.

    They come from the first of `specs` that has such labels.
    """
    if (stored["apiVersion"], stored["kind"]) in _LABELLED_BY_TEMPLATE:
        for spec in specs:
            if labels := (inside(spec, "template", "metadata") or {}).get("labels"):
                zero(child(stored, "metadata"), labels=dict(labels))


Filler = Callable[[JsonObject, str], None]


def _without_time(fill_kind: Callable[[JsonObject], None]) -> Filler:
    return lambda stored, now: fill_kind(stored)


def _fill_claim(claim: JsonObject) -> None:
    _fill_claim_spec(claim.get("spec"))
    for result in items(inside(claim, "status", "allocation", "devices"), "results"):
        _fill_tolerations(result)


def _fill_claim_template(template: JsonObject) -> None:
    _fill_claim_spec(inside(template, "spec", "spec"))


def _fill_claim_spec(spec: JsonObject | None) -> None:
    for request in items(inside(spec, "devices"), "requests"):
        if request.get("exactly") is not None:
            _fill_request(request["exactly"])
        for subrequest in items(request, "firstAvailable"):
            _fill_request(subrequest)


def _fill_request(request: JsonObject) -> None:
    zero(request, allocationMode="ExactCount")
    if request["allocationMode"] == "ExactCount":
        zero(request, count=1)
    _fill_tolerations(request)


def _fill_tolerations(target: JsonObject) -> None:
    for toleration in items(target, "tolerations"):
        zero(toleration, operator="Equal")


def _fill_slice(resource_slice: JsonObject, now: str) -> None:
    for device in items(resource_slice.get("spec"), "devices"):
        for taint in items(device, "taints"):
            absent(taint, timeAdded=now)


def _fill_taint_rule(rule: JsonObject, now: str) -> None:
    absent(child(child(rule, "spec"), "taint"), timeAdded=now)


_POOL_STATUS_LIMIT = 100


def _fill_pool_status_request(request: JsonObject) -> None:
    absent(child(request, "spec"), limit=_POOL_STATUS_LIMIT)


def _fill_namespace(namespace: JsonObject) -> None:
    name = (namespace.get("metadata") or {}).get("name")
    if name:
        child(namespace["metadata"], "labels")["kubernetes.io/metadata.name"] = name
    zero(child(namespace, "status"), phase="Active")


def _fill_node(node: JsonObject) -> None:
    status = node.get("status") or {}
    if status.get("capacity") is not None and status.get("allocatable") is None:
        status["allocatable"] = dict(status["capacity"])
    round_resources(status, "capacity", "allocatable")
    spec = node.get("spec") or {}
    # The first range has two names (core/v1/conversion.go).
    if first := spec.get("podCIDR"):
        ranges = spec.get("podCIDRs") or []
        spec["podCIDRs"] = ranges if first in ranges[:1] else [first]
    elif ranges := spec.get("podCIDRs"):
        spec["podCIDR"] = ranges[0]


def _fill_secret(secret: JsonObject) -> None:
    """Also move `stringData`, which is only written, into `data` (core/v1/conversion.go)."""
    zero(secret, type="Opaque")
    texts = secret.pop("stringData", None) or {}
    if texts:
        encoded = {
            # A null is an empty text, as in Go.
            key: base64.b64encode((text or "").encode()).decode()
            for key, text in texts.items()
        }
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _fill_quota(quota: JsonObject) -> None:
    round_resources(quota.get("spec"), "hard")
    round_resources(quota.get("status"), "hard", "used")


_LIMITS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _fill_limit_range(limit_range: JsonObject) -> None:
    for item in items(limit_range.get("spec"), "limits"):
        round_resources(item, *_LIMITS)
        if item.get("type") != "Container":
            continue
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
        item.update({"default": limits} if limits else {})
        item.update({"defaultRequest": requests} if requests else {})


def _fill_volume(volume: JsonObject) -> None:
    zero(child(volume, "status"), phase="Pending")
    spec = child(volume, "spec")
    zero(spec, persistentVolumeReclaimPolicy="Retain")
    absent(spec, volumeMode="Filesystem")
    pod_defaults.fill_volume_source(spec)
    round_resources(spec, "capacity")


def _fill_volume_claim(claim: JsonObject) -> None:
    status = child(claim, "status")
    zero(status, phase="Pending")
    pod_defaults.fill_volume_claim_spec(child(claim, "spec"))
    round_resources(status, "capacity", "allocatedResources")


_CLIENT_AFFINITY_SECONDS = 3 * 60 * 60
_SERVICES_OF_THE_CLUSTER = ("ClusterIP", "NodePort", "LoadBalancer")


def _fill_service(service: JsonObject) -> None:
    spec = child(service, "spec")
    zero(spec, sessionAffinity="None", type="ClusterIP")
    _fill_session_affinity(spec)
    for port in items(spec, "ports"):
        zero(port, protocol="TCP", targetPort=port.get("port"))
    is_balanced = spec["type"] == "LoadBalancer"
    if is_balanced or spec["type"] == "NodePort" or _has_external_address(spec):
        zero(spec, externalTrafficPolicy="Cluster")
    if spec["type"] in _SERVICES_OF_THE_CLUSTER:
        absent(spec, internalTrafficPolicy="Cluster")
    if is_balanced:
        absent(spec, allocateLoadBalancerNodePorts=True)
        for ingress in items(inside(service, "status", "loadBalancer"), "ingress"):
            if ingress.get("ip"):
                absent(ingress, ipMode="VIP")


def _fill_endpoint_slice(endpoints: JsonObject) -> None:
    for port in items(endpoints, "ports"):
        absent(port, name="", protocol="TCP")


def _has_external_address(spec: JsonObject) -> bool:
    return spec["type"] == "ClusterIP" and bool(spec.get("externalIPs"))


def _fill_session_affinity(spec: JsonObject) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = inside(spec, "sessionAffinityConfig", "clientIP") or {}
        if client.get("timeoutSeconds") is None:
            seconds = {"timeoutSeconds": _CLIENT_AFFINITY_SECONDS}
            spec["sessionAffinityConfig"] = {"clientIP": seconds}


def _fill_pod_template(template: JsonObject) -> None:
    pod_defaults.fill_template(child(template, "template"))


def _fill_replication_controller(controller: JsonObject) -> None:
    spec = child(controller, "spec")
    labels = (inside(spec, "template", "metadata") or {}).get("labels")
    if labels is not None:
        zero(spec, selector=dict(labels))
    fill_labels(controller, spec)
    absent(spec, replicas=1)
    if spec.get("template") is not None:
        pod_defaults.fill_template(spec["template"])


def _fill_deployment(deployment: JsonObject) -> None:
    spec = child(deployment, "spec")
    absent(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = child(spec, "strategy")
    zero(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        absent(child(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    pod_defaults.fill_template(child(spec, "template"))


def _fill_replica_set(replica_set: JsonObject) -> None:
    spec = child(replica_set, "spec")
    absent(spec, replicas=1)
    pod_defaults.fill_template(child(spec, "template"))


def _fill_daemon_set(daemon_set: JsonObject) -> None:
    spec = child(daemon_set, "spec")
    absent(spec, revisionHistoryLimit=10)
    strategy = child(spec, "updateStrategy")
    zero(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        absent(child(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    pod_defaults.fill_template(child(spec, "template"))


def _fill_stateful_set(stateful_set: JsonObject) -> None:
    spec = child(stateful_set, "spec")
    zero(spec, podManagementPolicy="OrderedReady")
    absent(spec, replicas=1, revisionHistoryLimit=10)
    retention = child(spec, "persistentVolumeClaimRetentionPolicy")
    zero(retention, whenDeleted="Retain", whenScaled="Retain")
    strategy = child(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        child(strategy, "rollingUpdate")
    # A strategy that was named without numbers gets none.
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        absent(strategy["rollingUpdate"], partition=0, maxUnavailable=1)
    pod_defaults.fill_template(child(spec, "template"))
    for claim in items(spec, "volumeClaimTemplates"):
        zero(claim, apiVersion="v1", kind="PersistentVolumeClaim")
        _fill_volume_claim(claim)


_MAXIMUM_INT32 = 2**31 - 1


def _fill_cron_job(cron_job: JsonObject) -> None:
    spec = child(cron_job, "spec")
    zero(spec, concurrencyPolicy="Allow")
    absent(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    pod_defaults.fill_template(child(child(child(spec, "jobTemplate"), "spec"), "template"))


def _fill_job(job: JsonObject) -> None:
    spec = child(job, "spec")
    template = child(spec, "template")
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    per_index = spec.get("backoffLimitPerIndex") is not None
    has_failure_policy = spec.get("podFailurePolicy") is not None
    absent(
        spec,
        parallelism=1,
        backoffLimit=_MAXIMUM_INT32 if per_index else 6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="Failed" if has_failure_policy else "TerminatingOrFailed",
        manualSelector=False,
    )
    fill_labels(job, spec)
    for rule in items(spec.get("podFailurePolicy"), "rules"):
        for pattern in items(rule, "onPodConditions"):
            zero(pattern, status="True")
    pod_defaults.fill_template(template)


def _fill_priority_class(priority_class: JsonObject) -> None:
    absent(priority_class, preemptionPolicy="PreemptLowerPriority")


def _fill_pod_group(group: JsonObject) -> None:
    absent(child(group, "spec"), disruptionMode={"single": {}})


_RBAC = "rbac.authorization.k8s.io"


def _fill_role_binding(binding: JsonObject) -> None:
    zero(child(binding, "roleRef"), apiGroup=_RBAC)
    for subject in items(binding, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            zero(subject, apiGroup=_RBAC)


def _fill_storage_class(storage_class: JsonObject) -> None:
    absent(storage_class, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _fill_csi_driver(driver: JsonObject) -> None:
    spec = child(driver, "spec")
    absent(
        spec,
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
        preventPodSchedulingIfMissing=False,
    )
    zero(spec, volumeLifecycleModes=["Persistent"])


def _fill_admission_policy(policy: JsonObject) -> None:
    spec = child(policy, "spec")
    absent(spec, failurePolicy="Fail")
    _fill_match_resources(spec.get("matchConstraints"))


def _fill_policy_binding(binding: JsonObject) -> None:
    _fill_match_resources(child(binding, "spec").get("matchResources"))


def _fill_match_resources(match: JsonObject | None) -> None:
    if match is None:
        return
    absent(match, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for rules in ("resourceRules", "excludeResourceRules"):
        for rule in items(match, rules):
            absent(rule, scope="*")


_BY_KIND: Mapping[tuple[str, str], Filler] = {
    ("resource.k8s.io/v1", "ResourceSlice"): _fill_slice,
    ("resource.k8s.io/v1", "DeviceTaintRule"): _fill_taint_rule,
} | {
    identity: _without_time(fill_kind)
    for identity, fill_kind in {
        ("resource.k8s.io/v1", "ResourceClaim"): _fill_claim,
        ("resource.k8s.io/v1", "ResourceClaimTemplate"): _fill_claim_template,
        ("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest"): _fill_pool_status_request,
        ("v1", "Namespace"): _fill_namespace,
        ("v1", "Node"): _fill_node,
        ("v1", "PersistentVolume"): _fill_volume,
        ("v1", "PersistentVolumeClaim"): _fill_volume_claim,
        ("v1", "Pod"): pod_defaults.fill_pod,
        ("v1", "LimitRange"): _fill_limit_range,
        ("v1", "PodTemplate"): _fill_pod_template,
        ("v1", "ReplicationController"): _fill_replication_controller,
        ("v1", "ResourceQuota"): _fill_quota,
        ("v1", "Secret"): _fill_secret,
        ("v1", "Service"): _fill_service,
        ("apps/v1", "DaemonSet"): _fill_daemon_set,
        ("apps/v1", "Deployment"): _fill_deployment,
        ("apps/v1", "ReplicaSet"): _fill_replica_set,
        ("apps/v1", "StatefulSet"): _fill_stateful_set,
        ("batch/v1", "CronJob"): _fill_cron_job,
        ("batch/v1", "Job"): _fill_job,
        ("discovery.k8s.io/v1", "EndpointSlice"): _fill_endpoint_slice,
        (f"{_RBAC}/v1", "ClusterRoleBinding"): _fill_role_binding,
        (f"{_RBAC}/v1", "RoleBinding"): _fill_role_binding,
        ("scheduling.k8s.io/v1", "PriorityClass"): _fill_priority_class,
        ("scheduling.k8s.io/v1beta1", "PodGroup"): _fill_pod_group,
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"): _fill_admission_policy,
        (
            *("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
        ): _fill_policy_binding,
        ("storage.k8s.io/v1", "CSIDriver"): _fill_csi_driver,
        ("storage.k8s.io/v1", "StorageClass"): _fill_storage_class,
    }.items()
}

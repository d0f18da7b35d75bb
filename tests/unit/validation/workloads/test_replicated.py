"""Rules for Deployment, ReplicaSet, StatefulSet and DaemonSet."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validation import objects

KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")


def created(kind: str, **spec: Any) -> list[str]:
    return objects.created(kind, objects.workload(kind, **spec))


def updated(kind: str, new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return objects.updated(
        kind, objects.workload(kind, **new), objects.workload(kind, **(old or {}))
    )


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": objects.pod_spec(**spec)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_workload_is_valid(kind: str) -> None:
    assert not created(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_selector_matches_the_template(kind: str) -> None:
    messages = created(kind, selector={"matchLabels": {"app": "other"}})
    assert messages == [
        'spec.template.metadata.labels: Invalid value: {"app":"web"}: '
        "`selector` does not match template `labels`"
    ]


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("Deployment", "deployment"),
        ("ReplicaSet", "deployment"),
        ("StatefulSet", "statefulset"),
        ("DaemonSet", "daemonset"),
    ],
)
def test_a_selector_is_not_empty(kind: str, word: str) -> None:
    assert created(kind, selector={}) == [
        f"spec.selector: Invalid value: {{}}: empty selector is invalid for {word}"
    ]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_a_selector_is_required(kind: str) -> None:
    assert created(kind, selector=None) == [
        "spec.selector: Required value",
        'spec.template.metadata.labels: Invalid value: {"app":"web"}: '
        "`selector` does not match template `labels`",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_selector_is_immutable(kind: str) -> None:
    both = {"app": "web", "tier": "front"}
    pods = {"metadata": {"labels": both}, "spec": objects.pod_spec()}
    new, old = {"selector": {"matchLabels": both}, "template": pods}, {"template": pods}
    assert updated(kind, new, old) == [
        'spec.selector: Invalid value: {"matchLabels":{"app":"web","tier":"front"}}: '
        "field is immutable"
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_a_workload_always_run(kind: str) -> None:
    assert created(kind, template=template(restartPolicy="Never")) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_template_is_checked_like_a_pod(kind: str) -> None:
    claims = [{"name": "gpu"}]
    (message,) = created(kind, template=template(resourceClaims=claims))
    assert message.startswith("spec.template.spec.resourceClaims[0]: Invalid value: ")


@pytest.mark.parametrize("kind", KINDS)
def test_the_template_may_change(kind: str) -> None:
    assert not updated(kind, {"template": template(hostname="other")})


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_there_are_no_fewer_than_zero_replicas(kind: str) -> None:
    assert created(kind, replicas=-1) == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    ]


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (
            {"type": "Recreate", "rollingUpdate": {}},
            ".rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}},
            ".rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            {"rollingUpdate": {"maxUnavailable": "101%"}},
            '.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
        ),
    ],
)
def test_a_deployment_can_be_rolled_out(strategy: dict[str, Any], message: str) -> None:
    assert created("Deployment", strategy=strategy) == [f"spec.strategy{message}"]


def test_a_deployment_gets_longer_to_progress_than_to_be_ready() -> None:
    assert created("Deployment", minReadySeconds=10, progressDeadlineSeconds=10) == [
        "spec.progressDeadlineSeconds: Invalid value: 10: must be greater than minReadySeconds"
    ]


def test_a_stateful_set_mounts_what_it_claims() -> None:
    mount = {"name": "data", "mountPath": "/data"}
    main = {"name": "main", "image": "busybox", "volumeMounts": [mount]}
    pods = template(containers=[main])
    assert not created(
        "StatefulSet", template=pods, volumeClaimTemplates=[{"metadata": {"name": "data"}}]
    )
    assert created("StatefulSet", template=pods) == [
        'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"'
    ]


def test_a_stateful_set_keeps_its_service() -> None:
    assert updated("StatefulSet", {"serviceName": "b"}, {"serviceName": "a"}) == [
        'spec.serviceName: Invalid value: "b": field is immutable'
    ]


def test_the_name_of_a_stateful_set_becomes_a_host_name() -> None:
    value = objects.workload("StatefulSet")
    named = objects.decode(
        {
            "kind": "StatefulSet",
            "metadata": objects.metadata(name="a.b"),
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template()},
        },
        "apps/v1",
    )
    assert not objects.created("StatefulSet", value)
    assert objects.created("StatefulSet", named) == [
        'metadata.name: Invalid value: "a.b": must not contain dots'
    ]


def test_a_daemon_set_replaces_or_adds_pods() -> None:
    rolling = {"maxUnavailable": 1, "maxSurge": 1}
    assert created("DaemonSet", updateStrategy={"rollingUpdate": rolling}) == [
        "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: "
        "may not be set when maxUnavailable is non-zero"
    ]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            {"unavailableReplicas": -1},
            "unavailableReplicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {"replicas": 1, "readyReplicas": 2},
            "readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        ),
        (
            {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2},
            "availableReplicas: Invalid value: 2: cannot be greater than readyReplicas",
        ),
    ],
)
def test_counts_of_a_status_make_sense(status: dict[str, Any], message: str) -> None:
    def deployment(**content: Any) -> Any:
        spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template()}
        value = {"kind": "Deployment", "metadata": objects.metadata(), "spec": spec, **content}
        return objects.decode(value, "apps/v1")

    messages = objects.status_updated("Deployment", deployment(status=status), deployment())
    assert messages == [f"status.{message}"]

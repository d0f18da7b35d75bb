"""`dray doctor` finds what does not work, and says what it could not check."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from dray.apiserver import standalone
from dray.apiserver.access.certificates import Authority
from dray.cli.doctor import certificate_checks
from dray.cli.inputs import cluster_objects
from dray.client import kubeconfig
from dray.client.kubeconfig import ClusterConnection
from dray.health import health_checks
from dray.health.problems import ClusterProblem, find
from tests.unit.cli.conftest import Cluster, as_list
from tests.unit.cli.doctor.test_problems import (
    DRIVER,
    REQUESTS,
    allocation,
    node,
    piece,
    pod,
    resource,
)

PAST = "2026-01-01T00:00:00Z"
TAINT = {"key": "broken", "effect": "NoExecute"}
POD_UID = "uid-of-p"


def running_pod(**changes: Any) -> JsonObject:
    body = pod("p")
    body["metadata"] |= {"namespace": "default", "uid": POD_UID, "creationTimestamp": PAST}
    body["status"] = {"phase": "Running"}
    for field, value in changes.items():
        body[field] = {**body.get(field, {}), **value}
    return body


def held(device: str = "gpu-0") -> JsonObject:
    claim = resource("ResourceClaim", "held", REQUESTS, namespace="default")
    consumer = {"resource": "pods", "name": "p", "uid": POD_UID}
    return {**claim, "status": {"allocation": allocation(device), "reservedFor": [consumer]}}


def event(reason: str, message: str) -> JsonObject:
    about = {"kind": "Pod", "namespace": "default", "name": "p", "uid": POD_UID}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": about,
        "reason": reason,
        "message": message,
    }


def found(*documents: JsonObject) -> list[ClusterProblem]:
    objects = cluster_objects.from_texts([("test", as_list(list(documents)))])
    return find(objects, {**health_checks.CHECKS, **health_checks.LIVE_CHECKS})


def waiting_pod(**spec: Any) -> JsonObject:
    body = running_pod(status={"phase": "Pending"})
    body["spec"] = {"containers": body["spec"]["containers"], **spec}
    return body


TEMPLATE = resource("ResourceClaimTemplate", "t", {"spec": REQUESTS}, namespace="default")
FROM_TEMPLATE = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
SEEN = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "waits"}]}
SIMULATED = {"metadata": {"name": "s", "labels": {"dray.dev/fleet": "l4"}}}


@pytest.mark.parametrize(
    ("documents", "fault", "words"),
    [
        pytest.param([node("n1", "False")], "node-not-ready", "ready is False", id="node"),
        pytest.param(
            [piece("s", "sound", "gpu-0", taints=[TAINT]), held(), running_pod()],
            "device-tainted",
            "has device gpu.example.com/sound/gpu-0 with the taint broken:NoExecute",
            id="tainted-in-use",
        ),
        pytest.param(
            [{**piece("s", "sound", "gpu-0", taints=[TAINT]), **SIMULATED}],
            "device-tainted",
            "dray fleet heal n1 gpu-0",
            id="tainted",
        ),
        pytest.param([held("gone")], "device-missing", "sound/gone", id="missing"),
        pytest.param(
            [node("n1", annotations={"dray.dev/drivers": DRIVER})],
            "driver-publishes-nothing",
            "is registered on node n1 and publishes no device",
            id="silent-driver",
        ),
        pytest.param(
            [
                piece("s", "sound", "gpu-0"),
                held(),
                running_pod(metadata={"deletionTimestamp": PAST}),
                event(
                    "FailedUnprepareDynamicResources", f"DRA driver {DRIVER} is not registered now"
                ),
            ],
            "pod-stuck-terminating",
            f"Start the driver {DRIVER} on node n1",
            id="killed-driver",
        ),
        pytest.param(
            [
                waiting_pod(),
                event("FailedResourceClaimCreation", "the feature gate GenericWorkload is off"),
            ],
            "gate-off",
            "dray up --feature-gates GenericWorkload=true",
            id="gate",
        ),
        pytest.param([waiting_pod()], "scheduler-not-running", "default/p", id="scheduler"),
        pytest.param(
            [{**waiting_pod(resourceClaims=FROM_TEMPLATE), "status": SEEN}, TEMPLATE],
            "controllers-not-running",
            "dray controllers",
            id="controllers",
        ),
    ],
)
def test_a_fault_is_found_with_its_fix(documents: list[JsonObject], fault: str, words: str) -> None:
    problems = [item for item in found(*documents) if item.fault == fault]
    (problem,) = problems
    assert words in f"{problem.message} {problem.advice}"
    assert problem.advice


def test_an_unhealthy_device_is_found() -> None:
    health = {"resourceID": "x/gpu=gpu-0", "health": "Unhealthy", "message": "hot"}
    status = {"name": "claim:gpu", "resources": [health]}
    containers = [{"name": "c", "allocatedResourcesStatus": [status]}]
    body = running_pod(status={"phase": "Running", "containerStatuses": containers})
    (problem,) = found(body, held(), piece("s", "sound", "gpu-0"))
    assert (problem.fault, "hot" in problem.message) == ("device-unhealthy", True)
    assert "dray delete pod p -n default" in problem.advice


def test_what_works_is_not_reported() -> None:
    annotated = node("n1", annotations={"dray.dev/drivers": DRIVER})
    assert found(annotated, piece("s", "sound", "gpu-0"), held(), running_pod()) == []


def test_certificates_are_reported_in_time(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    pair = Authority.load_or_create(tmp_path).client_pair("somebody")
    connection = ClusterConnection("https://x", client_certificate=pair.certificate)
    assert list(certificate_checks.find(connection, now)) == []
    later = now + datetime.timedelta(days=360)
    (soon,) = certificate_checks.find(connection, later)
    assert soon.message.startswith("expires at ")
    (expired,) = certificate_checks.find(connection, later + datetime.timedelta(days=10))
    assert expired.message.startswith("expired at ")


def test_a_user_without_rights_is_told_what_could_not_be_checked(
    cluster: Cluster, tmp_path: Path
) -> None:
    server = kubeconfig.load(cluster.kubeconfig).server
    connection = standalone.connection(cluster.kubeconfig.parent, server, "nobody-here")
    kubeconfig.write(tmp_path / "kubeconfig", connection)
    nobody = Cluster(tmp_path / "kubeconfig")
    result = nobody.dray("doctor")
    assert result.exit_code == 6, result.output
    assert "could not check: nodes is forbidden" in result.stderr
    assert "Nothing is wrong" not in result.stdout
    assert "not everything could be checked" in result.stdout
    assert json.loads(nobody.dray("doctor", "-o", "json").stdout) == []

"""`dray describe` of workloads is kubectl's, and of DRA objects kubectl's with what uses them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from dray.testing.clusters import Cluster
from tests.cli.mistakes.scoring import dray

OBJECTS = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec:
  spec:
    devices:
      requests:
      - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve, labels: {team: ml}}
spec:
  replicas: 2
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}, annotations: {note: a}}
    spec:
      automountServiceAccountToken: false
      nodeSelector: {kubernetes.io/os: linux}
      initContainers: [{name: first, image: x, command: ["true"]}]
      containers:
      - name: main
        image: x
        env: [{name: A, value: "1"}]
        resources: {limits: {cpu: 1}, claims: [{name: gpu}]}
        volumeMounts: [{name: tmp, mountPath: /tmp}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
      volumes: [{name: tmp, emptyDir: {}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completions: 2
  completionMode: Indexed
  activeDeadlineSeconds: 600
  template:
    metadata: {labels: {app: train}}
    spec:
      automountServiceAccountToken: false
      restartPolicy: Never
      containers: [{name: main, image: x}]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster("h100", nodes=1) as running:
        running.apply(OBJECTS)
        running.wait_for(lambda: _is_settled(running), "workloads that do not change any more")
        yield running


def _is_settled(cluster: Cluster) -> bool:
    """Return whether the deployment is available, the job complete, and both have said so."""
    (deployment,) = cluster.list("deployments")
    reasons = {event["reason"] for event in cluster.list("events")}
    is_available = deployment.get("status", {}).get("availableReplicas") == 2
    return is_available and {"ScalingReplicaSet", "Completed"} <= reasons


def described(cluster: Cluster, *words: str) -> list[str]:
    result = dray(cluster, "describe", *words)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
@pytest.mark.parametrize("words", ["deployment serve", "job train", "job", "deploy"])
def test_a_workload_is_described_as_by_kubectl(cluster: Cluster, words: str) -> None:
    kubectl = subprocess.run(
        ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "describe", *words.split()],
        capture_output=True,
        text=True,
        check=True,
    )
    own = _without_devices(described(cluster, *words.split()))
    assert list(map(_without_ages, own)) == list(map(_without_ages, kubectl.stdout.splitlines()))


def _without_devices(lines: list[str]) -> list[str]:
    """Return the lines without those that kubectl does not print."""
    start = lines.index("Devices:") if "Devices:" in lines else len(lines)
    end = next((at for at in range(start + 1, len(lines)) if not lines[at].startswith(" ")), start)
    return lines[:start] + lines[end:]


def _without_ages(line: str) -> str:
    return re.sub(r"\b\d+[sm]\d*s?\b *", "AGE ", re.sub(r" {2,}", "  ", line)).rstrip()


def test_a_deployment_is_described_with_the_devices_of_its_pods(cluster: Cluster) -> None:
    lines = described(cluster, "deployment", "serve")
    start = lines.index("Devices:")
    assert {line.split()[0] for line in lines[start + 1 : start + 3]} == _held(cluster)


def _held(cluster: Cluster) -> set[str]:
    return {
        f"{result['pool']}/{result['device']}"
        for claim in cluster.list("resourceclaims")
        for result in claim["status"]["allocation"]["devices"]["results"]
    }


def test_a_claim_is_described_with_its_device_and_its_pod(cluster: Cluster) -> None:
    claim = cluster.list("resourceclaims")[0]
    lines = described(cluster, "resourceclaim", claim["metadata"]["name"])
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    at = lines.index("Devices:")
    assert lines[at + 1].split()[:2] == [f"h100-0/{result['device']}", "gpu.nvidia.com"]
    (user,) = claim["status"]["reservedFor"]
    assert ["Used", "By:", f"pod/{user['name']}"] in [line.split() for line in lines]


def test_a_template_is_described_with_its_pods(cluster: Cluster) -> None:
    lines = described(cluster, "resourceclaimtemplate", "one")
    pods = {
        f"pod/{pod['metadata']['name']}"
        for pod in cluster.list("pods")
        if pod["metadata"]["name"].startswith("serve")
    }
    start = next(at for at, line in enumerate(lines) if line.startswith("Used By:"))
    assert {line.split()[-1] for line in lines[start : start + 2]} == pods


def test_a_class_is_described_with_its_devices(cluster: Cluster) -> None:
    lines = [line.split() for line in described(cluster, "deviceclass", "gpu.nvidia.com")]
    assert ["Devices:", "8", "of", "16", "that", "are", "published"] in lines
    assert ["h100-0", "gpu.nvidia.com", "8", "devices"] in lines


def test_a_slice_is_described_with_the_claims_that_hold_its_devices(cluster: Cluster) -> None:
    held = set()
    for line in described(cluster, "resourceslices"):
        match = re.fullmatch(r"  (gpu-\d) +default/serve-\S+", line)
        held |= {f"h100-0/{match[1]}"} if match else set()
    assert held == _held(cluster)

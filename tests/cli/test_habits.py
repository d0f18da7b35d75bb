"""Command lines as users of kubectl type them: they work, or say what to type instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dray.cli.main import main
from dray.testing.clusters import Cluster

OBJECTS = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}
---
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - {name: main, image: x, resources: {claims: [{name: gpu}]}}
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: x}]}
"""
NO_LOGS = "pods on node h100-0 are simulated"
WORKING = {
    "get po": "train",
    "get pod train -owide": "h100-0",
    "get po/train deploy/web": "deployment.apps/web",
    "get -n default pods": "train",
    "-n default get pods": "train",
    "get all -A": "default     deployment.apps/web",
    "get all": "pod/train",
    "get rc": "No resources found in default namespace.",
    "get claims": "allocated,reserved",
    "get resourceclaims.resource.k8s.io gpu": "allocated,reserved",
    "get deploy,rs,po -l app=web": "replicaset.apps",
    "get events --sort-by=.lastTimestamp": "Scheduled",
    "get pods --field-selector status.phase=Running --no-headers": "train",
    "describe po train": "Name:             train",
    "describe claim gpu": "gpu.nvidia.com",
    "describe node h100-0 -n default": "Name:               h100-0",
    "explain pod.spec.resourceClaims": "FIELD: resourceClaims",
    "explain po train": "pod default/train runs",
    "wait --for condition=Ready pod train": "pod/train condition met",
    "label pod train team=a": "pod/train labeled",
    "delete po train --dry-run=client": 'pod "train" deleted from default namespace (dry run)',
    "delete po --all -n nosuch": "No resources found",
    "delete deploy none --ignore-not-found": "",
    "help": "Inspect:",
    "help get": "Usage: dray get",
    "get ev -w=false": "Scheduled",
}
"""Command lines that work, with a part of their output."""
REFUSED = {
    "logs -f deploy/web --tail=1": NO_LOGS,
    "logs deployment web": "Write: dray logs deployment/web",
    "logs pod train": "Write: dray logs pod/train",
    "logs nosuch": "See what there is: dray get pods",
    "logs train -c nosuch": "Its containers: main",
    "exec -it train bash": "Write: dray exec -it train -- bash",
    "exec train -c main bash": "Write: dray exec POD [-c CONTAINER] -- COMMAND",
    "apply pod.yaml": "Write: dray apply -f pod.yaml",
    "apply -k .": "Use: kubectl apply -k",
    "create ns team": "Use: kubectl create ns team",
    "create deployment x --image=y": "Use: kubectl create deployment x --image=y",
    "run x --image=y": "Use kubectl: kubectl run x --image=y",
    "rollout restart deploy/web": "Use kubectl: kubectl rollout restart deploy/web",
    "get gpu": "See them with: dray get devices",
    "get gpus": "See them with: dray get devices",
    "get podss": "Did you mean pods?",
    "describe rc gpu": "See the claims: dray get resourceclaims -n default",
    "describe train": "as in pod/train",
    "delete train": "as in pod/train",
    "delete pod nosuch --force --grace-period=0": "See what there is: dray get pods",
    "delete pod": "delete needs a name",
    "explain train": "dray explain pod/train",
    "top gpu": "Write: dray top",
    "top pods": "kubectl top pods",
    "top node h100-0": "kubectl top node h100-0",
    "events pod/train": "Write: dray events --for pod/train",
    "events pod train": "Write: dray events --for pod/train",
    "wait pod/train": "Write: dray wait pod/train --for=condition=Ready",
    "wait pod/train --for=Ready": "write condition=NAME",
    "patch deploy web -p replicas=2": """-p '{"spec": {"replicas": 2}}'""",
    "port-forward train": "Write: dray port-forward train 8080:80",
    "snapshot file.json": "Write: dray snapshot > file.json",
    "history h100-0/gpu-0": "Write: dray history device h100-0/gpu-0",
    "doctor gpu-0": "About one object: dray explain",
    "gte pods": "Did you mean get?",
    "decribe pod train": "Did you mean describe?",
    "ls pods": "Did you mean dray get?",
    "rm pod train": "Did you mean dray delete?",
    "get pods --all-namespace": "--all-namespaces",
}
"""Command lines that are refused, with what to type instead."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster("h100", nodes=1) as running:
        running.apply(OBJECTS)
        running.wait_for_pod("train", "Running")
        running.wait_for(lambda: len(running.list("pods", labels="app=web")) == 1, "pod of web")
        # The scheduler writes its event after the pod has its node, and nothing waits for it.
        running.wait_for(
            lambda: any(event["reason"] == "Scheduled" for event in running.list("events")),
            "event of the scheduler",
        )
        yield running


def typed(cluster: Cluster, line: str) -> tuple[int, str]:
    """Run a command line; returns its exit code and output, without the cluster's options."""
    chosen = f"--kubeconfig {cluster.kubeconfig}"
    result = CliRunner().invoke(main, shlex.split(f"{chosen} {line}"))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result.exit_code, result.output.replace(f" {chosen}", "")


@pytest.mark.parametrize("line", WORKING)
def test_it_works_as_in_kubectl(cluster: Cluster, line: str) -> None:
    code, output = typed(cluster, line)
    assert code == 0, output
    assert WORKING[line] in output


@pytest.mark.parametrize("line", REFUSED)
def test_it_says_what_to_type_instead(
    cluster: Cluster, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = typed(cluster, line)
    assert code in (1, 2, 4), output
    assert REFUSED[line] in output


@pytest.mark.parametrize(
    "line",
    [
        "top gpu",
        "events pod train",
        "wait pod/train",
        "delete pod nosuch",
        "describe rc gpu",
        "get gpus",
        "explain train",
        "history h100-0/gpu-0",
    ],
)
def test_what_to_type_instead_works(cluster: Cluster, line: str) -> None:
    _, output = typed(cluster, line)
    found = re.search(r": dray ([^\n]*?)\.?$", output.partition(". About")[0], re.MULTILINE)
    assert found, output
    once = " --once" if found[1] == "top" else ""
    code, output = typed(cluster, found[1] + once)
    assert code == 0, output

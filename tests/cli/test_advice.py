"""Commands that dray prints as advice are run as printed, on the cluster that was chosen."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

from dray.cli import printed_commands
from dray.cli.main import main
from dray.testing.clusters import Cluster

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: x, resources: {claims: [{name: gpu}]}}
  resourceClaims: [{name: gpu, resourceClaimName: shared}]
"""
OBJECTS = f"""
{CLAIM}
---
{POD.replace("NAME", "runs")}
---
{CLAIM.replace("shared", "kept")}
---
{POD.replace("NAME", "stays").replace("shared", "kept")}
---
apiVersion: v1
kind: Pod
metadata: {{name: waits}}
spec:
  containers: [{{name: main, image: x, resources: {{limits: {{cpu: 9000}}}}}}]
---
{{apiVersion: v1, kind: Namespace, metadata: {{name: linted}}}}
---
{{apiVersion: v1, kind: Namespace, metadata: {{name: applied}}}}
---
{{apiVersion: v1, kind: Namespace, metadata: {{name: full}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: empty}}
spec: {{selector: {{app: none}}, ports: [{{port: 80}}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: paused}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: x}}]
"""
ADMIN = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: admin, namespace: SPACE}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com, adminAccess: true}}
"""
ELSEWHERE = CLAIM.replace("name: shared", "name: other, namespace: missing")
QUOTA = f"""
apiVersion: v1
kind: ResourceQuota
metadata: {{name: none, namespace: full}}
spec: {{hard: {{gpu.nvidia.com.deviceclass.resource.k8s.io/devices: "0"}}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: one, namespace: full}}
spec:
  spec:
    devices:
      requests:
      - {{name: gpu, exactly: {{deviceClassName: gpu.nvidia.com}}}}
---
{POD.replace("NAME", "limited, namespace: full").replace("Name: shared", "TemplateName: one")}
"""
PRIORITY = """
apiVersion: v1
kind: Pod
metadata: {name: important}
spec:
  priorityClassName: highest
  containers: [{name: main, image: x}]
"""
USED = "---".join(
    text.replace("shared", "used")
    for text in (CLAIM, POD.replace("NAME", "first"), POD.replace("NAME", "second"))
)


class Advice(NamedTuple):
    """A command line, and the command that it prints as advice."""

    typed: str
    printed: str
    again: str = ""
    """What has to succeed afterwards; the command line itself for "."."""
    files: dict[str, str] = {}
    before: Sequence[str] = ()
    """What is run at first."""


ADVICE = {
    "missing-object": Advice("get pod nosuch", "dray get pods -n default"),
    "missing-node": Advice("describe node nosuch", "dray get nodes"),
    "missing-device": Advice("get devices nosuch", "dray get devices"),
    "missing-device-described": Advice("describe device nosuch/x", "dray get devices"),
    "history": Advice("history device nosuch/x", "dray get devices"),
    "unknown-type": Advice("get xyzzyx", "dray api-resources"),
    "devices-deleted": Advice("delete devices gpu-0", "dray get devices"),
    "events-of-a-gone-pod": Advice("explain pod/nosuch", "dray events --for pod/nosuch -n default"),
    "unknown-field": Advice("explain pod.spec.nosuch", "dray explain pod.spec"),
    "wait": Advice(
        "wait pod/waits --for=condition=Ready --timeout=0s", "dray describe pod waits -n default"
    ),
    "logs-by-labels": Advice("logs -l app=none", "dray get pods -n default --show-labels"),
    "logs-of-a-workload": Advice("logs job/paused", "dray describe job paused -n default"),
    "port-forward": Advice(
        "port-forward service/empty 8080:80 --pod-running-timeout=0.1s",
        "dray get pods -n default -l app=none",
    ),
    "fleet": Advice("fleet fail nosuch gpu-0", "dray get nodes"),
    "label-of-a-namespace": Advice(
        "lint --strict {admin.yaml} --against dray",
        "dray label namespace linted resource.kubernetes.io/admin-access=true",
        files={"admin.yaml": ADMIN.replace("SPACE", "linted")},
        again="apply -f {admin.yaml}",
    ),
    "label-of-a-namespace-by-apply": Advice(
        "apply -f {admin.yaml}",
        "dray label namespace applied resource.kubernetes.io/admin-access=true",
        files={"admin.yaml": ADMIN.replace("SPACE", "applied")},
        again=".",
    ),
    "missing-namespace": Advice(
        "apply -f {claim.yaml}", "dray apply -f -", files={"claim.yaml": ELSEWHERE}, again="."
    ),
    "missing-priority-class": Advice(
        "apply -f {pod.yaml}", "dray get priorityclasses", files={"pod.yaml": PRIORITY}
    ),
    "cordoned-node": Advice(
        "explain pod/late",
        "dray patch node h100-0",
        before=[
            """patch node h100-0 -p '{"spec":{"unschedulable":true}}'""",
            "apply -f {late.yaml}",
        ],
        files={"late.yaml": POD.replace("NAME", "late")},
        again="wait pod/late --for=condition=Ready --timeout=60s",
    ),
    "quota": Advice(
        "explain pod/limited -n full",
        "dray describe resourcequota none -n full",
        before=["apply -f {quota.yaml}"],
        files={"quota.yaml": QUOTA},
    ),
    "failed-device": Advice(
        "doctor", "dray fleet heal h100-0 gpu-7", before=["fleet fail h100-0 gpu-7"], again="."
    ),
    "claim-in-use": Advice(
        "delete resourceclaim used --timeout=0.1s",
        "dray delete pod first second -n default",
        before=["apply -f {used.yaml}", "wait pod/first pod/second --for=condition=Ready"],
        files={"used.yaml": USED},
    ),
}


def typed(line: str, *options: str, home: Path, text: str | None = None) -> Result:
    """Run a command line of a user without a kubeconfig of their own."""
    env = {"HOME": str(home), "KUBECONFIG": None, "DRAY_UP_DATA": str(home / "data")}
    result = CliRunner().invoke(main, [*shlex.split(line), *options], env=env, input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster("h100", nodes=1) as running:
        running.apply(OBJECTS)
        running.wait_for_pod("runs", "Running")
        running.wait_for_pod("stays", "Running")
        yield running


@pytest.mark.parametrize("advice", [pytest.param(item, id=name) for name, item in ADVICE.items()])
def test_printed_commands_work_as_printed(advice: Advice, cluster: Cluster, tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in advice.files}
    for name, text in advice.files.items():
        paths[name].write_text(text, "utf-8")
    chosen = ("--kubeconfig", str(cluster.kubeconfig))
    for before in advice.before:
        prepared = typed(_filled(before, paths), *chosen, home=tmp_path)
        assert prepared.exit_code == 0, prepared.output
    line = _filled(advice.typed, paths)
    first = typed(line, *chosen, home=tmp_path)
    assert first.exit_code != 0, first.output
    found = [
        (text_line, match["command"])
        for text_line in first.output.splitlines()
        for match in re.finditer(printed_commands.COMMAND, text_line)
        if match["command"].startswith(advice.printed)
    ]
    assert found, first.output
    whole, command = found[0]
    piped = re.search(r"echo '(.*)' \| ", whole)
    done = typed(command.removeprefix("dray "), home=tmp_path, text=piped[1] if piped else None)
    assert done.exit_code == 0, (command, done.output)
    if advice.again:
        again = line if advice.again == "." else _filled(advice.again, paths)
        result = typed(again, *chosen, home=tmp_path)
        assert result.exit_code == 0, result.output


def _filled(line: str, paths: dict[str, Path]) -> str:
    return re.sub(r"\{([\w.]+)\}", lambda match: str(paths[match[1]]), line)


EXPRESSIONS = [
    'device.capacity["gpu.nvidia.com"].memory >= "40Gi"',
    'device.attributes["gpu.nvidia.com"].memory > 40',
    'device.attributes["gpu.nvidia.com"].productName == "H100"',
    'device.attributes["gpu.nvidia.com"].productname == "NVIDIA H100 80GB HBM3"',
    'device.attributes["nvidia.com"].productName == "NVIDIA H100 80GB HBM3"',
    'device.attributes["gpu.nvidia.com"].driverVersion > "570"',
    'device.driver = "gpu.nvidia.com"',
    "device.driver == 'gpu.nvidia.com' and device.attributes['gpu.nvidia.com'].type == 'gpu'",
    'device.attribute["gpu.nvidia.com"].type == "gpu"',
    'has(device.attributes["gpu.nvidia.com"].type',
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_of_cel_compile_and_match(expression: str, tmp_path: Path) -> None:
    wrong = typed(f"cel {shlex.quote(expression)} --against h100", home=tmp_path)
    found = re.search(r"Did you mean:\n  (.*)", wrong.output)
    assert found, wrong.output
    right = typed(f"cel {shlex.quote(found[1])} --against h100", home=tmp_path)
    assert right.exit_code == 0, (found[1], right.output)
    assert re.search(r"Matches [1-9]\d* of", right.output), (found[1], right.output)


@pytest.mark.parametrize(
    "path",
    [
        ".spec.allocation.devices.results[*].device",
        ".status.allocation.devices[*].device",
        ".status.allocation.result[*].pool",
        ".name",
        ".spec.requests[*].exactly.deviceClassName",
        ".spec.devices.requests[*].deviceClassName",
    ],
)
def test_paths_of_jsonpath_have_values(path: str, cluster: Cluster, tmp_path: Path) -> None:
    chosen = ("--kubeconfig", str(cluster.kubeconfig))

    def printed(template: str) -> Result:
        whole = f"{{range .items[*]}}{{{template}}}{{end}}"
        return typed(f"get resourceclaims -A -o jsonpath='{whole}'", *chosen, home=tmp_path)

    found = re.search(r"Did you mean (\S+)\?", printed(path).stderr)
    assert found, printed(path).output
    assert printed(found[1]).stdout
    assert not printed(found[1]).stderr


def test_the_example_of_columns_works(cluster: Cluster, tmp_path: Path) -> None:
    chosen = ("--kubeconfig", str(cluster.kubeconfig))
    wrong = typed("get pods -A -o custom-columns=NAME", *chosen, home=tmp_path)
    found = re.search("For example: (.*)", wrong.stderr)
    assert found, wrong.output
    shown = typed(f"get nodes {found[1]}", *chosen, home=tmp_path)
    assert shown.exit_code == 0, shown.output
    assert "h100-0" in shown.stdout

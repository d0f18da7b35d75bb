"""`dray explain -f`: mistakes are answered with their cause, and the printed fix works."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner

from dray.cli.main import main
from tests.unit.cli.conftest import run

TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - name: main
    image: x
    resources: {claims: [{name: gpu}]}
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: one-gpu}
"""
ATTRIBUTES = 'device.attributes["gpu.nvidia.com"]'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'


def with_selector(text: str) -> str:
    selector = f"          selectors:\n          - cel:\n              expression: '{text}'\n"
    return f"{TEMPLATE}{selector}---\n{POD}"


def both(pod: str = POD, template: str = TEMPLATE) -> str:
    return f"{template}---\n{pod}"


FIXED = {
    "class": (both(template=TEMPLATE.replace("gpu.nvidia.com", "gpu.nvidia.co")), "did you mean"),
    "domain": (with_selector('device.attributes["nvidia.com"].index == 0'), "in domain nvidia.com"),
    "quantity": (with_selector(f'{MEMORY} >= "40Gi"'), "is a quantity"),
    "memory-as-attribute": (with_selector(f"{ATTRIBUTES}.memory > 40"), "is a capacity on all"),
    "unused-claim": (
        both(POD.replace("    resources: {claims: [{name: gpu}]}\n", "")),
        "no container uses the claim gpu",
    ),
    "claim-is-template": (
        both(POD.replace("resourceClaimTemplateName", "resourceClaimName")),
        "one-gpu is a ResourceClaimTemplate, not a ResourceClaim",
    ),
    "too-many": (
        both(template=f"{TEMPLATE}          count: 8\n"),
        "fewer than 8 devices are of class gpu.nvidia.com",
    ),
    "extended-resource": (
        POD.replace("{claims: [{name: gpu}]}", "{limits: {nvidia.com/gpus: 1}}").partition(
            "  resourceClaims"
        )[0],
        "no node and no DeviceClass provides the resource nvidia.com/gpus; "
        "did you mean nvidia.com/gpu?",
    ),
    "single-equals": (with_selector(f"{ATTRIBUTES}.index = 1"), "does not compile"),
    "product": (with_selector(f'{ATTRIBUTES}.productName == "H100"'), "NVIDIA H100 80GB HBM3"),
    "version": (with_selector(f'{ATTRIBUTES}.driverVersion > "570"'), "is a version"),
    "integer": (with_selector(f'{ATTRIBUTES}.index < "2"'), "is an integer"),
    "node-selector": (
        both(POD.replace("spec:\n", "spec:\n  nodeSelector: {disk: ssd}\n", 1)),
        "no node matches the pod's nodeSelector disk=ssd; no node has the label disk",
    ),
    "unknown-request": (
        both(POD.replace("{name: gpu}]}", "{name: gpu, request: gpus}]}")),
        "container main uses request gpus, which claim gpu does not have",
    ),
    "other-namespace": (
        both(template=TEMPLATE.replace("name: one-gpu", "name: one-gpu, namespace: team")),
        "one of that name exists in namespace team",
    ),
    "other-namespace-and-more": (
        both(
            POD.replace("{name: gpu}]}", "{name: gpu, request: gpus}]}"),
            TEMPLATE.replace("name: one-gpu", "name: one-gpu, namespace: team")
            + "          count: 8\n",
        ),
        "one of that name exists in namespace team",
    ),
    "two-mistakes": (
        both(
            POD.replace("spec:\n", "spec:\n  nodeSelector: {disk: ssd}\n", 1).replace(
                "TemplateName: one-gpu", "TemplateName: one-gpus"
            )
        ),
        "there is no ResourceClaimTemplate one-gpus",
    ),
}


def write(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize("name", FIXED)
def test_the_printed_fix_works(name: str, tmp_path: Path) -> None:
    text, cause = FIXED[name]
    file = write(tmp_path / "mistake.yaml", text)
    explained = run("explain", "-f", file, "--against", "quickstart")
    verdict, fix, *_ = explained.stdout.splitlines()
    assert cause in verdict
    assert fix.startswith("  fix: ")
    printed = run("explain", "-f", file, "--against", "quickstart", "--fix").stdout
    # The fixed objects replace those of the same kind and name; the others stay.
    kept = [] if "kind: ResourceClaimTemplate" in printed else [TEMPLATE]
    kept += [] if "kind: Pod" in printed else [POD]
    fixed = write(tmp_path / "fixed.yaml", "---\n".join([*kept, printed]))
    after = run("explain", "-f", fixed, "--against", "quickstart")
    assert after.exit_code == 0, after.output
    assert after.stdout.startswith("pod default/train can be scheduled\n")


REFUSED = {
    "version": (TEMPLATE.replace("k8s.io/v1", "k8s.io/v2"), "resource.k8s.io/v1"),
    "old-form": (TEMPLATE.replace("k8s.io/v1", "k8s.io/v1beta1"), "exactly"),
    "text-count": (f'{TEMPLATE}          count: "2"\n', "count"),
    "admin-access": (
        f"{TEMPLATE}          adminAccess: true\n",
        "resource.kubernetes.io/admin-access",
    ),
    "not-yaml": ("a: [", "not YAML"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_server_would_reject_is_said_first(name: str, tmp_path: Path) -> None:
    text, words = REFUSED[name]
    file = write(tmp_path / "refused.yaml", text)
    told = run("explain", "-f", file, "--against", "quickstart")
    assert told.exit_code == 1
    assert told.stdout.startswith("The API server would reject this:\n")
    assert words in told.stdout
    printed = run("explain", "-f", file, "--against", "quickstart", "-o", "json")
    assert printed.exit_code == 1
    linted = json.loads(run("lint", file, "-o", "json").stdout)
    assert json.loads(printed.stdout)
    assert all(finding in linted for finding in json.loads(printed.stdout))


def test_workloads_of_files_are_fixed_in_their_template(tmp_path: Path) -> None:
    deployment = dedent("""\
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec:
              nodeSelector: {disk: ssd}
              containers:
              - {name: main, image: x, resources: {claims: [{name: gpu}]}}
              resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
        """)
    file = write(tmp_path / "web.yaml", f"{TEMPLATE}---\n{deployment}")
    printed = run("explain", "-f", file, "--against", "quickstart", "--fix").stdout
    assert "# Save this as fix.yaml, then: dray apply -f fix.yaml\n" in printed
    assert "kind: Deployment" in printed
    assert "nodeSelector" not in printed.partition("kind: Deployment")[2]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("quickstar", "Did you mean quickstart?", id="fleet"),
        pytest.param("prod.json", "no file, no fleet and no context", id="file"),
    ],
)
def test_a_misspelt_source_is_not_taken_for_a_context(
    name: str, words: str, tmp_path: Path
) -> None:
    file = write(tmp_path / "pod.yaml", both())
    told = run("explain", "-f", file, "--against", name)
    assert told.exit_code == 2
    assert words in told.stderr


def test_against_a_file_no_command_for_a_cluster_is_suggested(tmp_path: Path) -> None:
    snapshot = dedent("""\
        apiVersion: v1
        kind: Node
        metadata: {name: n1}
        spec: {unschedulable: true}
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: train}
        spec: {containers: [{name: main, image: x}]}
        """)
    file = write(tmp_path / "snapshot.yaml", snapshot)
    told = run("explain", "pod", "train", "--against", file)
    assert "fix: uncordon node n1" in told.stdout
    assert "dray " not in told.stdout


def test_feature_gates_of_the_cluster_can_be_given(tmp_path: Path) -> None:
    text = both(template=f"{TEMPLATE}          tolerations: []\n")
    file = write(tmp_path / "pod.yaml", text)
    told = run("explain", "-f", file, "--against", "quickstart", "--feature-gates", "Nosuch=true")
    assert told.exit_code == 2
    assert "Nosuch" in told.stderr


def test_without_a_terminal_nothing_is_coloured(tmp_path: Path) -> None:
    file = write(tmp_path / "pod.yaml", FIXED["node-selector"][0])
    assert "\x1b[" not in run("explain", "-f", file, "--against", "quickstart").stdout


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_of_a_terminal(
    no_color: str, coloured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    file = write(tmp_path / "pod.yaml", FIXED["node-selector"][0])
    words = ["explain", "-f", file, "--against", "quickstart"]
    told = CliRunner().invoke(main, words, color=True).stdout
    assert ("\x1b[31m✗ node\x1b[0m" in told) is coloured
    assert ("\x1b[32m  fix: " in told) is coloured

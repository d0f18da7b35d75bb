"""`dray lint` on what people paste: each fault is named with its fix, and `--fix` makes some."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from tests.recorded import SEEDS
from tests.unit.cli.conftest import run


def lint(path: Path, text: str, *options: str) -> list[tuple[str, str, str]]:
    """Rule, message and advice of each finding."""
    path.write_text(dedent(text).lstrip(), "utf-8")
    found = json.loads(run("lint", str(path), "-o", "json", *options).stdout)
    return [(each["rule"], each["message"], each["advice"]) for each in found]


PASTED = [
    pytest.param(
        """
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: c}
        spec:
          devices:
            requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 4}}]
            constraints: [{matchAttribute: gpu.nvidia.com/nvswitch-domain}]
        """,
        "invalid",
        "Did you mean gpu.nvidia.com/nvswitchDomain?",
        id="hyphen-in-an-attribute",
    ),
    pytest.param(
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: fleet}
        spec: {template: {spec: {containers: [{name: c, image: x}]}}}
        """,
        "invalid",
        "Add spec.selector.matchLabels, and the same labels to spec.template.metadata.",
        id="deployment-without-selector",
    ),
    pytest.param(
        """
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: c, namespace: ml-team}
        spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers: [{name: c, image: x, resources: {claims: [{name: g}]}}]
          resourceClaims: [{name: g, resourceClaimName: c}]
        """,
        "other-namespace",
        "A pod and its claims are in one namespace.",
        id="claim-in-another-namespace",
    ),
    pytest.param(
        """
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaimTemplate
        metadata: {name: t}
        spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
        """,
        "unknown-field",
        "It belongs one level down: spec.spec.devices",
        id="template-without-its-inner-spec",
    ),
    pytest.param(
        """
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: c}
        spec: {devices: {requests: [{name: g, exactly: {name: g, deviceClassName: c}}]}}
        """,
        "unknown-field",
        "It belongs one level up, beside exactly.",
        id="name-below-exactly",
    ),
    pytest.param(
        """
        apiVersion: resource.k8s.io/v1
        kind: ResourceSlice
        metadata: {name: s}
        spec:
          driver: d.example.com
          nodeName: n
          pool: {name: n, generation: 1, resourceSliceCount: 1}
          devices: [{name: d, capacity: {memory: {value: 10Gb}}}]
        """,
        "malformed-field",
        "Did you mean 10Gi (powers of 1024) or 10G (powers of 1000)?",
        id="not-a-quantity",
    ),
    pytest.param(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers: [{name: c, image: x, resources: {claims: [{name: g}]}}]
          resourceClaims: [{name: g, resourceClaimTemplateName: absent}]
        """,
        "missing-claim",
        "",
        id="template-that-does-not-exist",
    ),
]


@pytest.mark.parametrize(("text", "rule", "advice"), PASTED)
def test_what_people_paste_is_named_with_its_fix(
    tmp_path: Path, text: str, rule: str, advice: str
) -> None:
    found = lint(tmp_path / "pasted.yaml", text)
    assert any(each[0] == rule and advice in each[2] for each in found), found


@pytest.mark.skipif(not SEEDS.names("003*"), reason=SEEDS.why_absent("003*"))
def test_the_blocks_of_the_seeds_are_linted_without_a_stumble(tmp_path: Path) -> None:
    text = SEEDS.read(SEEDS.names("003*")[0])
    rules = set()
    for block in text.split("apiVersion:")[1:]:
        lines = [
            line for line in block.split("\n\n")[0].splitlines() if not line.startswith("where")
        ]
        (tmp_path / "block.yaml").write_text("apiVersion:" + "\n".join(lines))
        result = run("lint", str(tmp_path / "block.yaml"), "-o", "json")
        assert result.exit_code in (0, 1), result.output
        rules |= {load["rule"] for load in json.loads(result.stdout)}
    assert "unknown-field" in rules


WORKLOAD = """
# a workload
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web   # its name
  namespace: team
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      # what runs
      containers:
      - name: main
        image: x
        resources:
          limits:
            cpu: 2   # two
            nvidia.com/gpu: 2
          requests:
            nvidia.com/gpu: 2
      - name: side
        image: y
        resources:
          limits:
            nvidia.com/gpu: "1"
"""


def test_extended_resources_become_claims_and_comments_stay(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    rules = [each[0] for each in lint(file, WORKLOAD)]
    assert rules == ["extended-resource", "extended-resource"]
    fixed = run("lint", "--fix", str(file))
    assert fixed.exit_code == 0, fixed.output
    text = file.read_text("utf-8")
    for comment in ("# a workload", "# its name", "# what runs", "# two"):
        assert comment in text
    workload, first, second = yaml.safe_load_all(text)
    spec = workload["spec"]["template"]["spec"]
    assert spec["resourceClaims"] == [
        {"name": "gpu", "resourceClaimTemplateName": "web-gpu"},
        {"name": "gpu-2", "resourceClaimTemplateName": "web-gpu-2"},
    ]
    assert [container["resources"] for container in spec["containers"]] == [
        {"claims": [{"name": "gpu"}], "limits": {"cpu": 2}},
        {"claims": [{"name": "gpu-2"}]},
    ]
    exactly = [
        each["spec"]["spec"]["devices"]["requests"][0]["exactly"] for each in (first, second)
    ]
    assert exactly == [
        {"deviceClassName": "gpu.nvidia.com", "count": 2},
        {"deviceClassName": "gpu.nvidia.com"},
    ]
    assert first["metadata"] == {"name": "web-gpu", "namespace": "team"}
    assert run("lint", str(file), "--strict").exit_code == 0
    again = file.read_text("utf-8")
    run("lint", "--fix", str(file))
    assert file.read_text("utf-8") == again


LAYOUTS = [
    pytest.param(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec: {containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]}
        """,
        id="flow",
    ),
    pytest.param(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers:
          - name: c
            image: x
            resources: {limits: {nvidia.com/gpu: 1}}
          resourceClaims:
          - name: gpu
            resourceClaimName: mine
        """,
        id="with-a-claim-of-that-name",
    ),
]


@pytest.mark.parametrize("text", LAYOUTS)
def test_other_layouts_are_written_anew_with_the_same_meaning(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pod.yaml"
    lint(file, text, "--fix")
    pod, template = yaml.safe_load_all(file.read_text("utf-8"))
    made = pod["spec"]["resourceClaims"][0]
    assert made["resourceClaimTemplateName"] == template["metadata"]["name"]
    assert pod["spec"]["containers"][0]["resources"] == {"claims": [{"name": made["name"]}]}


def test_a_class_says_which_resource_it_serves(tmp_path: Path) -> None:
    text = """
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: fpga}
    spec: {extendedResourceName: example.com/fpga}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: p}
    spec:
      containers:
      - {name: c, image: x, resources: {limits: {example.com/fpga: 1, other.com/x: 1}}}
    """
    (found,) = lint(tmp_path / "fpga.yaml", text)
    assert found[:2] == ("extended-resource", "example.com/fpga: 1 could be a claim of class fpga")


def test_standard_input_is_fixed_to_standard_output_and_nothing_else_is() -> None:
    fixed = run("lint", "--fix", "-", input=dedent(WORKLOAD))
    assert fixed.exit_code == 0, fixed.output
    kinds = [each["kind"] for each in yaml.safe_load_all(fixed.stdout)]
    assert kinds == ["Deployment", "ResourceClaimTemplate", "ResourceClaimTemplate"]


def test_containers_ask_for_requests_that_exist_and_every_claim_is_used(tmp_path: Path) -> None:
    text = """
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: t}
    spec: {spec: {devices: {requests: [{name: large, exactly: {deviceClassName: gpu}}]}}}
    ---
    apiVersion: batch/v1
    kind: Job
    metadata: {name: j}
    spec:
      template:
        spec:
          restartPolicy: Never
          resourceClaims:
          - {name: gpu, resourceClaimTemplateName: t}
          - {name: spare, resourceClaimTemplateName: t}
          containers:
          - name: c
            image: x
            resources:
              claims:
              - {name: gpu, request: lage}
    """
    found = lint(tmp_path / "job.yaml", text)
    assert [(rule, advice) for rule, _, advice in found] == [
        (
            "unused-claim",
            "Add to the container that needs it: resources: {claims: [{name: spare}]}",
        ),
        ("unknown-request", "Did you mean large?"),
    ]


def test_a_misspelt_template_is_looked_for_in_the_namespace_of_the_pod(tmp_path: Path) -> None:
    text = """
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: gpu-devices, namespace: SPACE}
    spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu}}]}}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: p}
    spec:
      containers: [{name: c, image: x, resources: {claims: [{name: g}]}}]
      resourceClaims: [{name: g, resourceClaimTemplateName: gpu-device}]
    """
    for space, advice in (("default", "Did you mean gpu-devices?"), ("other", "")):
        found = lint(tmp_path / "pod.yaml", text.replace("SPACE", space))
        assert [each[2] for each in found if each[0] == "missing-claim"] == [advice]


def test_a_toleration_without_an_effect_does_not_stop_evictions(tmp_path: Path) -> None:
    text = """
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: c}
    spec:
      devices:
        requests:
        - name: gpu
          exactly:
            deviceClassName: gpu
            tolerations:
            - {key: example.com/a, operator: Exists, effect: NoSchedule}
            - {operator: Exists}
        - name: other
          firstAvailable:
          - name: any
            deviceClassName: gpu
            tolerations: [{operator: Exists}, {operator: Exists, effect: NoExecute}]
    """
    found = lint(tmp_path / "claim.yaml", text)
    assert [(rule, message.partition(":")[0]) for rule, message, _ in found] == [
        ("toleration-without-effect", "spec.devices.requests[0].exactly.tolerations[1]"),
    ]


def test_descriptions_of_fleets_are_checked_as_what_they_are(tmp_path: Path) -> None:
    fleet = "nodes: [{name: n, devices: {d.example.com: [{model: MODEL}]}}]\n"
    assert lint(tmp_path / "good.yaml", fleet.replace("MODEL", "l4")) == []
    ((rule, message, _),) = lint(tmp_path / "bad.yaml", fleet.replace("MODEL", "nosuch"))
    assert (rule, "nosuch" in message) == ("fleet", True)


def test_one_is_not_many() -> None:
    wrong = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, nope: 1}"
    assert run("lint", "-", input=wrong).stderr == "1 object: 1 error, 0 warnings\n"

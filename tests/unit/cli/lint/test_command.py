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


def test_extended_resources_come_with_the_template_of_a_claim(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    found = lint(file, WORKLOAD)
    assert [rule for rule, _, _ in found] == ["extended-resource", "extended-resource"]
    heads, templates = zip(*(advice.split("\n", 1) for _, _, advice in found), strict=True)
    for claim, head in zip(("gpu", "gpu-2"), heads, strict=True):
        assert (
            f"resourceClaims: [{{name: {claim}, resourceClaimTemplateName: web-{claim}}}]" in head
        )
        assert f"resources: {{claims: [{{name: {claim}}}]}}" in head
    first, second = map(yaml.safe_load, templates)
    assert first["metadata"] == {"name": "web-gpu", "namespace": "team"}
    assert second["metadata"] == {"name": "web-gpu-2", "namespace": "team"}
    exactly = [
        template["spec"]["spec"]["devices"]["requests"][0]["exactly"]
        for template in (first, second)
    ]
    assert exactly == [
        {"deviceClassName": "gpu.nvidia.com", "count": 2},
        {"deviceClassName": "gpu.nvidia.com"},
    ]
    path = tmp_path / "template.yaml"
    for template in templates:
        path.write_text(template, "utf-8")
        assert run("lint", "--strict", str(path)).exit_code == 0


def test_the_template_of_a_claim_is_indented_below_its_finding(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(dedent(WORKLOAD), "utf-8")
    first, *others = run("lint", str(file)).stdout.splitlines()
    assert first.endswith("[extended-resource]")
    assert "    kind: ResourceClaimTemplate" in others


def test_a_claim_that_the_pod_has_keeps_its_name(tmp_path: Path) -> None:
    text = """
    apiVersion: v1
    kind: Pod
    metadata: {name: p}
    spec:
      containers:
      - {name: c, image: x, resources: {limits: {nvidia.com/gpu: 1}, claims: [{name: gpu}]}}
      resourceClaims: [{name: gpu, resourceClaimName: mine}]
    """
    advice = [advice for rule, _, advice in lint(tmp_path / "p.yaml", text) if "extended" in rule]
    assert [" p-gpu-2" in text for text in advice] == [True]


def test_extended_resources_are_not_rewritten(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(dedent(WORKLOAD), "utf-8")
    assert run("lint", "--fix", str(file)).exit_code == 0
    assert file.read_text("utf-8") == dedent(WORKLOAD)


OUTDATED = """
# a claim
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: c}   # its name
spec:
  devices:
    requests:
    - name: gpu
      deviceClassName: gpu.nvidia.com   # any
      count: 2
"""
FLOW = """
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.nvidia.com, count: 2}]}}
"""


@pytest.mark.parametrize(
    ("text", "comments"), [(OUTDATED, ("# a claim", "# its name", "# any")), (FLOW, ())]
)
def test_outdated_versions_are_rewritten_and_comments_stay(
    tmp_path: Path, text: str, comments: tuple[str, ...]
) -> None:
    file = tmp_path / "claim.yaml"
    assert [rule for rule, _, _ in lint(file, text)] == ["outdated-version"]
    fixed = run("lint", "--fix", str(file))
    assert fixed.exit_code == 0, fixed.output
    rewritten = file.read_text("utf-8")
    assert all(comment in rewritten for comment in comments)
    claim = yaml.safe_load(rewritten)
    assert claim["apiVersion"] == "resource.k8s.io/v1"
    assert claim["spec"]["devices"]["requests"] == [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}
    ]
    assert run("lint", str(file), "--strict").exit_code == 0
    run("lint", "--fix", str(file))
    assert file.read_text("utf-8") == rewritten


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
    fixed = run("lint", "--fix", "-", input=OUTDATED + "---" + WORKLOAD)
    assert fixed.exit_code == 0, fixed.output
    versions = [document["apiVersion"] for document in yaml.safe_load_all(fixed.stdout)]
    assert versions == ["resource.k8s.io/v1", "apps/v1"]


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


def test_all_objects_of_a_file_are_fixed(tmp_path: Path) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text("---".join(OUTDATED.replace("name: c}", f"name: c-{n}}}") for n in range(70)))
    assert run("lint", "--fix", "--strict", str(file)).exit_code == 0
    claims = list(yaml.safe_load_all(file.read_text("utf-8")))
    assert [claim["metadata"]["name"] for claim in claims] == [f"c-{n}" for n in range(70)]
    assert {claim["apiVersion"] for claim in claims} == {"resource.k8s.io/v1"}


@pytest.mark.parametrize(
    ("expression", "meant"),
    [
        ('attributes["gpu.nvidia.com"].memory > 40', 'memory.compareTo(quantity("40Gi")) > 0'),
        ('attributes["gpu.nvidia.com"].index < "2"', ".index < 2"),
        ('attributes["gpu.nvidia.com"].driverVersion > "570"', 'semver("570.0.0")) > 0'),
    ],
)
def test_a_suggested_selector_compiles_and_matches(
    tmp_path: Path, expression: str, meant: str
) -> None:
    text = f"""
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {{name: c}}
    spec:
      devices:
        requests:
        - name: gpu
          exactly:
            deviceClassName: gpu.nvidia.com
            selectors: [{{cel: {{expression: 'device.{expression}'}}}}]
    """
    file = tmp_path / "claim.yaml"
    ((_, _, advice),) = lint(file, text, "--against", "h100")
    assert meant in advice
    assert run("lint", "--fix", "--strict", str(file), "--against", "h100").exit_code == 0


def test_exactly_in_an_old_version_is_not_nested_again(tmp_path: Path) -> None:
    file = tmp_path / "claim.yaml"
    old = OUTDATED.replace("deviceClassName: gpu.nvidia.com", "exactly: {deviceClassName: g}")
    file.write_text(old.replace("      count: 2\n", ""), "utf-8")
    assert run("lint", "--fix", "--strict", str(file)).exit_code == 0
    (request,) = yaml.safe_load(file.read_text("utf-8"))["spec"]["devices"]["requests"]
    assert request == {"name": "gpu", "exactly": {"deviceClassName": "g"}}
    assert "# any" in file.read_text("utf-8")

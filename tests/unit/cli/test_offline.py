"""Commands that need no cluster: selectors, manifests and explanations against simulated fleets."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tests.unit.cli.conftest import run

PRODUCT = 'device.attributes["gpu.nvidia.com"].productName'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'


def write(path: Path, text: str) -> str:
    path.write_text(dedent(text).lstrip(), "utf-8")
    return str(path)


def cel(*arguments: str) -> dict:
    result = run("cel", *arguments, "-o", "json")
    found: dict = json.loads(result.stdout)
    return found


def test_a_selector_without_devices_says_what_it_costs_and_reads() -> None:
    result = run("cel", f'{PRODUCT} == "NVIDIA H100"')
    assert result.exit_code == 0
    assert result.output == (
        "Valid; costs at most 6 of 1,000,000.\nReads attribute gpu.nvidia.com/productName.\n"
    )


def test_a_selector_that_does_not_compile_is_pointed_at_and_corrected() -> None:
    result = run("cel", f'{MEMORY} >= "40Gi"')
    assert result.exit_code == 1
    assert "found no matching overload" in result.output
    assert "^" in result.output
    assert f'Did you mean:\n  {MEMORY}.compareTo(quantity("40Gi")) >= 0' in result.output


def test_the_truth_table_has_one_row_per_shape() -> None:
    report = cel(f'{MEMORY}.compareTo(quantity("60Gi")) >= 0', "--against", "quickstart")
    assert report["devices"] == sum(shape["devices"] for shape in report["shapes"])
    assert report["matched"] == sum(
        shape["devices"] for shape in report["shapes"] if shape["answer"] == "yes"
    )
    assert 0 < report["matched"] < report["devices"]
    assert len({tuple(shape["values"]) for shape in report["shapes"]}) == len(report["shapes"])


def test_an_attribute_that_nobody_has_gets_a_suggestion() -> None:
    report = cel('device.attributes["gpu.nvidia.com"].productname == "x"', "--against", "h100")
    (read,) = report["reads"]
    assert read["devices"] == 0
    assert read["similar"][0]["name"] == "productName"
    assert report["rewrites"] == [f'{PRODUCT} == "x"']


def test_an_attribute_that_some_lack_gets_a_guard() -> None:
    profile = 'device.attributes["gpu.nvidia.com"].profile'
    report = cel(f'{profile} == "1g.10gb"', "--against", "a100-mig")
    assert {shape["answer"] for shape in report["shapes"]} == {"yes", "no", "error"}
    (guarded,) = report["rewrites"]
    assert guarded == f'has({profile}) && {profile} == "1g.10gb"'
    after = cel(guarded, "--against", "a100-mig")
    assert {shape["answer"] for shape in after["shapes"]} == {"yes", "no"}
    assert after["matched"] == report["matched"]


OLD_CLAIM = """
    # kept
    apiVersion: resource.k8s.io/v1beta1
    kind: ResourceClaim
    metadata: {name: old}
    spec:
      devices:
        requests:
        - name: gpu
          deviceClassName: gpu.nvidia.com
    ---
    # kept too
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: untouched}  # and this
    """


def lint(*arguments: str) -> list[dict]:
    found: list[dict] = json.loads(run("lint", *arguments, "-o", "json").stdout)
    return found


def found_by(findings: list[dict]) -> list[tuple[int, str]]:
    return [(finding["line"], finding["rule"]) for finding in findings]


def test_lint_finds_everything_at_once_with_its_line(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.yaml",
        """
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata:
          name: Bad_Name
        spec:
          devices:
            requests:
            - name: gpu
              exactly:
                deviceClassName: gpu.nvidia.com
                count: -1
                memory: 40Gi
                selectors:
                - cel:
                    expression: device.capacity["x.com"].memory >= "40Gi"
        """,
    )
    findings = lint(file)
    assert found_by(findings) == [
        (4, "invalid"),
        (11, "invalid"),
        (12, "unknown-field"),
        (15, "invalid-selector"),
    ]
    assert findings[3]["advice"] == (
        "A capacity is a quantity, which is compared with compareTo().\n"
        'Did you mean: device.capacity["x.com"].memory.compareTo(quantity("40Gi")) >= 0'
    )
    assert run("lint", file).exit_code == 1


@pytest.mark.parametrize(
    ("spec", "advice"),
    [
        pytest.param(
            "{devices: {requests: [{name: g, deviceClassName: c}]}}",
            "It belongs one level down: spec.devices.requests[0].exactly.deviceClassName",
            id="one-level-down",
        ),
        pytest.param(
            "{devices: {requests: [{name: g, exactly: {deviceClassName: c, name: g}}]}}",
            "It belongs one level up, beside exactly.",
            id="one-level-up",
        ),
        pytest.param(
            "{devices: {requests: [{name: g, exactly: {deviceClasName: c}}]}}",
            "Did you mean deviceClassName?",
            id="misspelt",
        ),
    ],
)
def test_lint_says_where_an_unknown_field_belongs(tmp_path: Path, spec: str, advice: str) -> None:
    claim = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: x}, spec: SPEC}"
    file = write(tmp_path / "a.yaml", claim.replace("SPEC", spec))
    unknown = [each for each in lint(file) if each["rule"] == "unknown-field"]
    assert [each["advice"] for each in unknown] == [advice]


def test_lint_tells_templates_from_claims_and_namespaces_apart(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.yaml",
        """
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaimTemplate
        metadata: {name: made}
        spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: c}}]}}}
        ---
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: far, namespace: other}
        spec: {devices: {requests: [{name: g, exactly: {deviceClassName: c, count: 33}}]}}
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers: [{name: c, image: x, resources: {claims: [{name: a}, {name: b}, {name: c}]}}]
          resourceClaims:
          - name: a
            resourceClaimName: made
          - name: b
            resourceClaimName: far
          - name: c
            resourceClaimTemplateName: mad
        """,
    )
    assert found_by(lint(file)) == [
        (9, "too-many-devices"),
        (18, "claim-or-template"),
        (20, "other-namespace"),
        (22, "missing-claim"),
    ]


def test_lint_fix_rewrites_old_versions_and_nothing_else(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", OLD_CLAIM)
    assert found_by(lint(file)) == [(2, "outdated-version")]
    result = run("lint", file, "--fix")
    assert result.exit_code == 0, result.output
    assert (
        Path(file).read_text("utf-8")
        == dedent(
            """
        # kept
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: old}
        spec:
          devices:
            requests:
            - name: gpu
              exactly:
                deviceClassName: gpu.nvidia.com
        ---
        # kept too
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: untouched}  # and this
        """
        ).lstrip()
    )


def test_lint_against_a_fleet_finds_selectors_that_match_nothing(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.yaml",
        """
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: x}
        spec:
          devices:
            requests:
            - name: gpu
              exactly:
                deviceClassName: gpu.nvidia.con
                selectors:
                - cel:
                    expression: device.attributes["gpu.nvidia.com"].productname == "x"
        """,
    )
    assert lint(file) == []
    findings = lint(file, "--against", "quickstart")
    assert found_by(findings) == [(9, "missing-class"), (12, "matches-nothing")]
    assert findings[0]["advice"] == "Did you mean gpu.nvidia.com?"
    assert run("lint", file, "--against", "quickstart").exit_code == 0
    assert run("lint", file, "--against", "quickstart", "--strict").exit_code == 1


@pytest.mark.parametrize(
    ("labels", "expected"),
    [("", ["admin-access"]), ("labels: {resource.kubernetes.io/admin-access: 'true'}", [])],
)
def test_lint_knows_where_admin_access_is_granted(
    tmp_path: Path, labels: str, expected: list[str]
) -> None:
    file = write(
        tmp_path / "a.yaml",
        f"""
        apiVersion: v1
        kind: Namespace
        metadata: {{name: admin, {labels}}}
        ---
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {{name: all, namespace: admin}}
        spec:
          devices:
            requests: [{{name: g, exactly: {{deviceClassName: c, adminAccess: true}}}}]
        """,
    )
    assert [rule for _, rule in found_by(lint(file))] == expected


def test_lint_warns_of_what_only_dray_understands(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.yaml",
        """
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: part}
        spec:
          devices:
            requests:
            - name: gpu
              exactly:
                deviceClassName: gpu.nvidia.com
                partitionRequest: {count: 1, resources: {memory: 20Gi, compute: 2}}
        """,
    )
    assert found_by(lint(file)) == [(10, "partition-request")]
    assert run("lint", file).exit_code == 0


def test_lint_of_what_is_not_yaml(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", "a: 1\nb: [1,\n")
    assert found_by(lint(file)) == [(3, "not-yaml")]


WAITING = """
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: big}
    spec:
      spec:
        devices:
          requests:
          - name: gpu
            exactly:
              deviceClassName: gpu.nvidia.com
              selectors:
              - cel:
                  expression: >-
                    device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("SIZE")) >= 0
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      selector: {matchLabels: {a: b}}
      template:
        metadata: {labels: {a: b}}
        spec:
          containers: [{name: c, image: x, resources: {claims: [{name: gpu}]}}]
          resourceClaims:
          - {name: gpu, resourceClaimTemplateName: big}
    """


def test_explain_a_workload_that_fits_and_one_that_does_not(tmp_path: Path) -> None:
    file = write(tmp_path / "fits.yaml", WAITING.replace("SIZE", "40Gi"))
    fits = run("explain", "-f", file, "--against", "quickstart")
    assert fits.exit_code == 0, fits.output
    assert fits.output.startswith("pod default/web can be scheduled\n")
    assert "\ndefault/web-gpu: fits on node " in fits.output
    file = write(tmp_path / "big.yaml", WAITING.replace("SIZE", "180Gi"))
    refused = run("explain", "-f", file, "--against", "quickstart")
    assert refused.exit_code == 1
    assert "the largest is 80Gi" in refused.output
    assert "write `80Gi` instead of `180Gi`" in refused.output
    document = json.loads(
        run("explain", "-f", file, "--against", "quickstart", "-o", "json").stdout
    )
    assert document["outcome"] == "refused"
    assert document["about"] == "deployment/web"


def test_explain_reads_standard_input() -> None:
    text = dedent(WAITING).replace("SIZE", "40Gi")
    result = run("explain", "-f", "-", "--against", "quickstart", input=text)
    assert result.exit_code == 0, result.output
    assert "\ndefault/web-gpu: fits on node " in result.output


def test_explain_names_what_a_pod_waits_for(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", WAITING.replace("Name: big", "Name: bigger"))
    result = run("explain", "-f", file, "--against", "quickstart")
    assert result.exit_code == 1
    assert "there is no ResourceClaimTemplate bigger in namespace default" in result.output


def test_explain_a_field() -> None:
    result = run("explain", "claim.spec.devices")
    assert result.exit_code == 0
    assert "KIND:       ResourceClaim" in result.output
    unknown = run("explain", "claim.spec.nosuch")
    assert unknown.exit_code == 4
    assert "dray explain claim.spec" in unknown.stderr

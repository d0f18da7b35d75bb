"""kubectl's verbs against a real server, from the command line to what is printed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Cluster, run
from tests.unit.cli.verbs.conftest import CLAIM, config_map, write


def test_apply_says_what_it_did(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    file = write(tmp_path / "claim.yaml", CLAIM.replace("NAME", "one"), config_map("cm", a="1"))
    first = cluster.dray("apply", "-n", namespace, "-f", file)
    assert first.stdout == ("resourceclaim.resource.k8s.io/one created\nconfigmap/cm created\n"), (
        first.stderr
    )
    again = cluster.dray("apply", "-n", namespace, "-f", file)
    assert again.stdout == "resourceclaim.resource.k8s.io/one unchanged\nconfigmap/cm unchanged\n"
    write(tmp_path / "claim.yaml", config_map("cm", a="2"))
    assert cluster.dray("apply", "-n", namespace, "-f", file).output == "configmap/cm configured\n"


def test_apply_goes_on_after_a_refusal_and_fails_in_the_end(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    wrong = CLAIM.replace("NAME", "one").replace("exactly", "exactely")
    file = write(tmp_path / "claims.yaml", wrong, config_map("cm", a="1"))
    result = cluster.dray("apply", "-n", namespace, "-f", file)
    assert result.exit_code == 1
    assert "spec.devices.requests[0].exactely" in result.stderr
    assert "claims.yaml" in result.stderr
    assert result.stdout == "configmap/cm created\n"


def test_apply_tells_each_warning_once(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    request = {"name": "gpu", "deviceClassName": "gpu.example.com"}
    claims = [
        {
            "apiVersion": "resource.k8s.io/v1beta1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [request]}},
        }
        for name in ("a", "b")
    ]
    result = cluster.dray("apply", "-n", namespace, "-f", write(tmp_path / "old.yaml", *claims))
    assert result.exit_code == 0
    assert result.stderr.count("Warning: resource.k8s.io/v1beta1 ResourceClaim is deprecated") == 1


def test_apply_names_the_namespace_of_what_is_refused(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    wrong = {**config_map("a"), "nope": 1}
    result = cluster.dray("apply", "-n", namespace, "-f", write(tmp_path / "wrong.yaml", wrong))
    refusal = f"({namespace}/a; /v1, Kind=ConfigMap): .nope: field not declared in schema"
    assert refusal in result.stderr


def test_dry_run_writes_nothing(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    file = write(tmp_path / "cm.yaml", config_map("cm", a="1"))
    result = cluster.dray("create", "-n", namespace, "-f", file, "--dry-run")
    assert result.output == "configmap/cm created (server dry run)\n"
    assert cluster.dray("get", "cm", "cm", "-n", namespace).exit_code == 4


def test_a_missing_object_says_how_to_see_what_there_is(cluster: Cluster, namespace: str) -> None:
    result = cluster.dray("get", "resourceclaim", "nope", "-n", namespace)
    assert result.exit_code == 4
    assert result.stderr == (
        'Error: resourceclaims.resource.k8s.io "nope" not found\n'
        f"See what there is: dray get resourceclaims -n {namespace}"
        f" --kubeconfig {cluster.kubeconfig}\n"
    )
    ignored = cluster.dray("get", "cm", "nope", "-n", namespace, "--ignore-not-found")
    assert (ignored.exit_code, ignored.output) == (0, "")


def test_an_unknown_type_gets_a_suggestion(cluster: Cluster) -> None:
    result = cluster.dray("get", "resourceclaimss")
    assert result.exit_code == 4
    assert "Did you mean resourceclaims?" in result.stderr


def test_nothing_found_is_no_error(cluster: Cluster, namespace: str) -> None:
    result = cluster.dray("get", "pods", "-n", namespace)
    assert result.exit_code == 0
    assert result.stderr == f"No resources found in {namespace} namespace.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("get cm", id="table"),
        pytest.param("get cm -o wide", id="wide"),
        pytest.param("get cm,resourceclaims", id="two-kinds"),
        pytest.param("get cm/a cm/b", id="by-name"),
        pytest.param("get cm a b", id="names"),
        pytest.param("get cm --show-labels", id="labels"),
        pytest.param("get cm --no-headers", id="no-headers"),
        pytest.param("get cm --sort-by=.data.number", id="sorted"),
        pytest.param("get cm -L app", id="label-column"),
        pytest.param("get cm -L app,tier --show-labels", id="label-columns"),
        pytest.param("get cm --show-kind", id="show-kind"),
        pytest.param("get cm -o custom-columns=NAME:.metadata.name,N:.data.number", id="columns"),
        pytest.param("get cm a -o custom-columns=L:.metadata.labels,X:{.data.star}", id="objects"),
        pytest.param("get cm -o custom-columns=N:metadata.name --no-headers", id="bare-columns"),
        pytest.param("get pod p --subresource=status -o name", id="subresource"),
        pytest.param("get cm -l app=a", id="selector"),
        pytest.param("get cm -l app=c", id="none-found"),
        pytest.param("get cm -o json", id="json"),
        pytest.param("get cm -o yaml", id="yaml"),
        pytest.param("get cm a -o yaml", id="one-yaml"),
        pytest.param("get resourceclaim one -o yaml", id="claim-yaml"),
        pytest.param("get resourceclaim one -o json", id="claim-json"),
        pytest.param("get resourceclaims.v1beta1.resource.k8s.io one -o yaml", id="old-version"),
        pytest.param("get cm,resourceclaims -o name", id="name"),
        pytest.param("get cm -o jsonpath={.items[*].metadata.name}", id="jsonpath"),
        pytest.param(
            'get cm -o jsonpath={range .items[*]}{.metadata.name}{"\\n"}{end}', id="range"
        ),
        pytest.param('get cm -o jsonpath={.items[?(@.data.number=="1")].data}', id="filter"),
        pytest.param("get ns default -o jsonpath={.metadata.labels}", id="jsonpath-object"),
        pytest.param("describe resourceclaim one", id="describe-claim"),
        pytest.param("describe resourceclaims", id="describe-claims"),
        pytest.param("describe pod p", id="describe-pod"),
        pytest.param("delete cm a --dry-run=client -o name", id="delete-dry-run-name"),
        pytest.param("wait cm/a --for=create -o name", id="wait-name"),
        pytest.param("get pods -o wide", id="pods-wide"),
        pytest.param("api-resources", id="api-resources"),
        pytest.param("api-resources -o wide --api-group=resource.k8s.io", id="api-resources-wide"),
        pytest.param("api-resources -o name --namespaced=false", id="api-resources-name"),
    ],
)
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
def test_prints_what_kubectl_prints(cluster: Cluster, filled: str, arguments: str) -> None:
    verb, *rest = arguments.split(" ", 1)
    words = [verb, *_split(rest[0] if rest else ""), "-n", filled]
    kubectl = subprocess.run(
        ["kubectl", "--kubeconfig", cluster.kubeconfig, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert kubectl.returncode == 0, kubectl.stderr
    dray = cluster.dray(*words)
    assert _without_ages(dray.stdout) == _without_ages(kubectl.stdout)
    assert dray.stderr == kubectl.stderr
    assert dray.exit_code == 0


def _split(text: str) -> list[str]:
    """Words, of which the last may be a template with blanks."""
    before, template, behind = text.partition("jsonpath=")
    return [*before.split(), template + behind] if template else text.split()


def _without_ages(text: str) -> list[str]:
    return [re.sub(r"\b\d+s\b *", "AGE ", line).rstrip() for line in text.splitlines()]


def test_delete_by_name_label_and_file(cluster: Cluster, filled: str, tmp_path: Path) -> None:
    assert cluster.dray("delete", "cm", "a", "-n", filled).output == (
        f'configmap "a" deleted from {filled} namespace\n'
    )
    by_label = cluster.dray("delete", "cm", "-l", "app=b", "-n", filled)
    assert by_label.output == f'configmap "b" deleted from {filled} namespace\n'
    file = write(tmp_path / "claim.yaml", CLAIM.replace("NAME", "one"))
    by_file = cluster.dray("delete", "-f", file, "-n", filled)
    assert by_file.output == (
        f'resourceclaim.resource.k8s.io "one" deleted from {filled} namespace\n'
    )
    assert cluster.dray("delete", "-f", file, "-n", filled).exit_code == 4
    assert cluster.dray("delete", "-f", file, "-n", filled, "--ignore-not-found").exit_code == 0


def test_delete_never_means_everything_by_mistake(cluster: Cluster, filled: str) -> None:
    result = cluster.dray("delete", "cm", "-n", filled)
    assert result.exit_code == 2
    assert "--all" in result.stderr
    assert cluster.dray("delete", "cm", "--all", "-n", filled).exit_code == 0


def test_delete_waits_until_it_is_gone_and_says_what_holds_it_up(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.com/keep"]
    cluster.dray("apply", "-n", namespace, "-f", write(tmp_path / "held.yaml", held))
    result = cluster.dray("delete", "cm/held", "-n", namespace, "--timeout", "0.3")
    assert result.exit_code == 5
    assert "configmap/held still exists after 0.3 s: its finalizer example.com/keep" in (
        result.stderr
    )
    patch = '{"metadata":{"finalizers":null}}'
    freed = cluster.dray("patch", "cm", "held", "-n", namespace, "--type=merge", "-p", patch)
    assert freed.output == "configmap/held patched\n"
    gone = cluster.dray("wait", "cm/held", "-n", namespace, "--for=delete", "--timeout=5s")
    assert gone.output == "configmap/held condition met\n"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", '{"data":{"a":"2"}}'),
        ("strategic", "data: {a: '2'}"),
        ("json", '[{"op":"add","path":"/data/a","value":"2"}]'),
    ],
)
def test_patch(cluster: Cluster, filled: str, kind: str, patch: str) -> None:
    arguments = ("patch", "cm/b", "-n", filled, f"--type={kind}", "-p", patch)
    assert cluster.dray(*arguments).output == "configmap/b patched\n"
    assert cluster.dray(*arguments).output == "configmap/b patched (no change)\n"
    found = cluster.dray("get", "cm/b", "-n", filled, "-o", "jsonpath={.data.a}")
    assert found.output == "2"


def test_label_sets_removes_and_does_not_overwrite(cluster: Cluster, filled: str) -> None:
    labelled = cluster.dray("label", "cm", "a", "tier=back", "-n", filled)
    assert labelled.output == "configmap/a labeled\n"
    assert cluster.dray("label", "cm", "a", "tier=back", "-n", filled).output == (
        "configmap/a not labeled\n"
    )
    refused = cluster.dray("label", "cm", "a", "tier=front", "-n", filled)
    assert refused.exit_code == 2
    assert "has tier=back" in refused.stderr
    assert (
        cluster.dray("label", "cm", "a", "tier=front", "--overwrite", "-n", filled).exit_code == 0
    )
    assert cluster.dray("label", "cm", "a", "tier-", "-n", filled).exit_code == 0
    found = cluster.dray("get", "cm", "a", "-n", filled, "-o", "jsonpath={.metadata.labels}")
    assert found.output == '{"app":"a"}'


@pytest.mark.parametrize(
    "goal",
    ["jsonpath={.data.number}=1", "jsonpath={.data.number}", "jsonpath=.data.number=1", "create"],
)
def test_wait_for_what_is_already_so(cluster: Cluster, filled: str, goal: str) -> None:
    result = cluster.dray("wait", "cm/b", "-n", filled, f"--for={goal}")
    assert result.output == "configmap/b condition met\n"


def test_wait_in_vain_has_an_exit_code_of_its_own(cluster: Cluster, filled: str) -> None:
    result = cluster.dray("wait", "cm/b", "-n", filled, "--for=condition=Ready", "--timeout=200ms")
    assert result.exit_code == 5
    assert "dray describe configmap b" in result.stderr


def test_events_the_newest_last(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    documents: list[str | dict] = [
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace},
            "type": kind,
            "reason": name.title(),
            "message": f"it {name}",
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
        for name, kind, time in (
            ("late", "Warning", "2026-01-02T00:00:00Z"),
            ("early", "Normal", "2026-01-01T00:00:00Z"),
        )
    ]
    created = cluster.dray(
        "create", "-n", namespace, "-f", write(tmp_path / "events.yaml", *documents)
    )
    assert created.exit_code == 0, created.output
    lines = cluster.dray("events", "-n", namespace, "--for", "pod/p").stdout.splitlines()
    assert [line.split()[2] for line in lines] == ["TYPE", "Early", "Late"]
    warnings = cluster.dray("events", "-n", namespace, "--types=Warning", "--no-headers")
    assert len(warnings.stdout.splitlines()) == 1


def test_version_of_both_sides(cluster: Cluster) -> None:
    result = cluster.dray("version", "-o", "yaml")
    found = yaml.safe_load(result.output)
    assert found["serverVersion"]["gitVersion"].startswith("v1.37")
    assert found["clientVersion"]["version"]


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
    }
    file = write(tmp_path / "config", config)
    result = run("get", "pods", "--kubeconfig", file)
    assert result.exit_code == 3
    assert "cannot reach http://127.0.0.1:1" in result.stderr
    assert "--context" in result.stderr
    unknown = run("get", "pods", "--kubeconfig", file, "--context", "y")
    assert unknown.exit_code == 3
    assert "there are: x" in unknown.stderr

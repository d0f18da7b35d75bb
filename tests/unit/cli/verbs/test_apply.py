"""`dray apply` and `dray create`: lint's advice, and kubectl's options."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Cluster

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: NAME}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.example.com
        count: COUNT
"""
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


def claim(path: Path, name: str, count: str) -> str:
    file = path / f"{name}.yaml"
    file.write_text(CLAIM.replace("NAME", name).replace("COUNT", count), "utf-8")
    return str(file)


def config_map(path: Path, name: str, **data: str) -> str:
    file = path / f"{name}.yaml"
    document = {**CONFIG, "metadata": {"name": name}, "data": data}
    file.write_text(json.dumps(document), "utf-8")
    return str(file)


@pytest.mark.parametrize("verb", ["apply", "create"])
def test_advice_stands_below_an_error(cluster: Cluster, tmp_path: Path, verb: str) -> None:
    file = claim(tmp_path, f"text-{verb}", '"2"')
    result = cluster.dray(verb, "-f", file)
    assert result.exit_code == 1
    error, advice, *rest = result.stderr.splitlines()
    assert "cannot unmarshal string into Go struct field" in error
    assert advice == (
        f'{file}:11:9: spec.devices.requests[0].exactly.count: "2" is text, not a whole number '
        "[mistyped-field]"
    )
    assert rest[0] == "    Write 2 without quotation marks"
    assert rest[-1] == f"    Correct it: dray lint --fix {file}"
    assert len(cluster.dray(verb, "-f", file, "--no-lint").stderr.splitlines()) == 1


def test_what_cannot_work_is_warned_about_and_written(cluster: Cluster, tmp_path: Path) -> None:
    file = claim(tmp_path, "unknown-class", "1")
    result = cluster.dray("apply", "-f", file)
    assert result.exit_code == 0
    assert result.stdout == "resourceclaim.resource.k8s.io/unknown-class created\n"
    assert result.stderr.startswith(f"Warning: {file}:10:9: spec.devices.requests[0].exactly")
    assert "there is no DeviceClass gpu.example.com" in result.stderr
    assert cluster.dray("apply", "-f", file, "--no-lint").stderr == ""


def test_a_file_that_is_not_yaml_does_not_stop_the_others(cluster: Cluster, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("kind: [a", "utf-8")
    result = cluster.dray("apply", "-f", str(wrong), "-f", config_map(tmp_path, "beside-wrong"))
    assert result.exit_code == 1
    assert f"{wrong}: is not YAML" in result.stderr
    assert f"{wrong}:1:1: not YAML" in result.stderr
    assert result.stdout == "configmap/beside-wrong created\n"


def test_dry_runs_are_kubectls(cluster: Cluster, tmp_path: Path) -> None:
    file = config_map(tmp_path, "dry", a="1")
    for verb in ("apply", "create"):
        words = (verb, "-f", file)
        assert (
            cluster.dray(*words, "--dry-run=client").output == "configmap/dry created (dry run)\n"
        )
        server = "configmap/dry created (server dry run)\n"
        assert cluster.dray(*words, "--dry-run=server").output == server
        assert cluster.dray(*words, "--dry-run").output == server
    assert cluster.dray("get", "cm", "dry").exit_code == 4
    assert cluster.dray("apply", "-f", file, "--dry-run=none").output == "configmap/dry created\n"
    again = cluster.dray("apply", "-f", file, "--dry-run=client")
    assert again.output == "configmap/dry unchanged (dry run)\n"
    changed = cluster.dray("apply", "-f", config_map(tmp_path, "dry", a="2"), "--dry-run=client")
    assert changed.output == "configmap/dry configured (dry run)\n"
    assert cluster.dray("get", "cm", "dry", "-o", "jsonpath={.data.a}").output == "1"


def test_a_dry_run_of_another_name_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    result = cluster.dray("apply", "-f", config_map(tmp_path, "dry"), "--dry-run=maybe")
    assert result.exit_code == 2


def test_server_side_apply_has_managers_and_conflicts(cluster: Cluster, tmp_path: Path) -> None:
    words = ("apply", "--server-side", "-f")
    first = cluster.dray(*words, config_map(tmp_path, "managed", a="1"), "--field-manager", "one")
    assert first.output == "configmap/managed serverside-applied\n"
    file = config_map(tmp_path, "managed", a="2")
    conflict = cluster.dray(*words, file, "--field-manager", "two")
    assert conflict.exit_code == 1
    assert 'conflict with "one"' in conflict.stderr
    assert "--force-conflicts" in conflict.stderr
    forced = cluster.dray(*words, file, "--field-manager", "two", "--force-conflicts")
    assert forced.exit_code == 0
    fields = "jsonpath={.metadata.managedFields[*].manager}"
    managers = cluster.dray("get", "cm", "managed", "-o", fields, "--show-managed-fields").output
    assert "two" in managers
    refused = cluster.dray("apply", "--server-side=false", "-f", file)
    assert refused.exit_code == 2


POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "x"}]},
}


@pytest.mark.parametrize(
    ("metadata", "spec"),
    [
        pytest.param({"namespace": "not-yet"}, {}, id="namespace"),
        pytest.param({"name": "q"}, {"serviceAccountName": "trainer"}, id="service-account"),
    ],
)
def test_the_printed_command_creates_what_is_missing(
    cluster: Cluster, tmp_path: Path, metadata: dict[str, str], spec: dict[str, str]
) -> None:
    file = tmp_path / "pod.yaml"
    pod = {**POD, "metadata": {"name": "p", **metadata}, "spec": {**POD["spec"], **spec}}
    file.write_text(json.dumps(pod), "utf-8")
    refused = cluster.dray("apply", "-f", str(file))
    assert refused.exit_code == 1
    command = re.search(r"Create it: echo '(.*)' \| dray (.*)", refused.stderr)
    assert command is not None, refused.stderr
    created = cluster.dray(*command[2].split(), input=command[1])
    assert created.exit_code == 0, created.output
    again = cluster.dray("apply", "-f", str(file))
    assert "Create it" not in again.stderr


def test_a_namespace_of_a_cluster_scoped_object_is_dropped(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "class.yaml"
    metadata = {"name": "placed", "namespace": "default"}
    document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": {},
    }
    file.write_text(json.dumps(document), "utf-8")
    for outcome in ("created", "unchanged"):
        applied = cluster.dray("apply", "-f", str(file))
        assert applied.output == f"deviceclass.resource.k8s.io/placed {outcome}\n"

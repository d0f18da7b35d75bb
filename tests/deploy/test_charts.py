"""The Helm charts: what they make is valid in every version, and as restricted as it can be."""

from __future__ import annotations

import asyncio
import filecmp
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import dray
from dray.api.types.meta import JsonObject
from dray.cli.main import main
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan
from dray.store import memory
from tests.deploy import helm, installing
from tests.deploy.helm import VERSIONS

NODE_TERM = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]}}
PLACED = {
    "imagePullSecrets": [{"name": "secret"}],
    "fullnameOverride": "another-name",
    "priorityClassName": "",
    "nodeSelector": {"gpu": "yes"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": REQUIRED},
    "resources": {"limits": {"memory": "512Mi"}},
    "metrics": {"port": 9500},
    "networkPolicy": {
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "apiServerPorts": [16443],
    },
}
"""What every chart has, changed."""
DIGEST = {"digest": "sha256:" + "0" * 64, "pullPolicy": "Always"}
VALUES: dict[str, list[JsonObject]] = {
    "dray": [
        {},
        {name: {"enabled": True} for name in helm.NAMES[1:]},
        {name: {"enabled": True, **PLACED, "fullnameOverride": name} for name in helm.NAMES[1:]},
        {name: {"enabled": False} for name in helm.NAMES[1:]},
    ],
    "dray-exporter": [
        {},
        {
            **PLACED,
            "replicas": 2,
            "metrics": {"port": 9500, "webConfigSecret": "web-config", "tls": True},
            "monitoring": {
                "serviceMonitor": True,
                "rules": True,
                "dashboard": True,
                "labels": {"release": "prometheus"},
                "endpoint": {"interval": "30s", "tlsConfig": {"insecureSkipVerify": True}},
            },
        },
    ],
    "dray-nvidia": [
        {},
        {
            **PLACED,
            "image": {"tag": "1.2.3"},
            "driver": {"dynamicMig": False, "shareMemory": True, "skipXids": "74,119"},
            "deviceClasses": {"extendedResource": False},
            "kubelet": {"directory": "/var/lib/k0s/kubelet"},
        },
        {"deviceClasses": {"create": False}, "networkPolicy": {"create": False}, "image": DIGEST},
    ],
    "dray-scheduler": [
        {},
        {
            **PLACED,
            "image": {"tag": "1.2.3"},
            "replicas": 3,
            "podDisruptionBudget": {"maxUnavailable": "50%"},
            "scheduler": {
                "name": "gpus.example.com",
                "nodeSelector": {"example.com/pool": "a", "zone": "b"},
                "policy": "pack",
                "featureGates": {"DRAPartitionableDevices": True, "DRADeviceTaints": False},
            },
        },
        {"replicas": 1, "networkPolicy": {"create": False}, "image": DIGEST},
    ],
}
CASES = [
    pytest.param(chart, values, version, id=f"{chart}-{number}-{version}")
    for chart, several in VALUES.items()
    for number, values in enumerate(several)
    for version in VERSIONS
]


def test_dray_takes_everything_in_every_version(tmp_path: Path) -> None:
    async def run() -> None:
        plan = ClusterPlan(schedules=False, controls=False)
        async with memory.open() as store, assembly.running(store, tmp_path, plan) as made:
            client = made.client()
            await installing.make_namespace(client)
            for chart, several in VALUES.items():
                for values, version in itertools.product(several, VERSIONS):
                    objects = helm.documents(chart, values, version)
                    await installing.send(client, objects, ("dryRun", "All"))

    asyncio.run(run())


@pytest.mark.parametrize(("chart", "values", "version"), CASES)
def test_helm_and_dray_lint_find_nothing(
    chart: str, values: JsonObject, version: str, tmp_path: Path
) -> None:
    linted = helm.run(
        *("lint", "--strict", "--kube-version", version, str(helm.folder(chart))), values=values
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr
    manifest = tmp_path / "chart.yaml"
    manifest.write_text(yaml.safe_dump_all(helm.documents(chart, values, version)))
    done = CliRunner().invoke(main, ["lint", str(manifest)])
    assert done.exit_code == 0, done.output
    assert "0 errors, 0 warnings" in done.output


@pytest.mark.parametrize("chart", helm.NAMES)
def test_older_clusters_are_refused(chart: str) -> None:
    done = helm.rendered(chart, kubernetes="1.33.5")
    assert done.returncode != 0
    assert "incompatible with Kubernetes v1.33.5" in done.stderr


@pytest.mark.parametrize(
    ("chart", "values", "words"),
    [
        ("dray", {"dray-schedulr": {}}, "dray-schedulr is not allowed"),
        ("dray", {"dray-scheduler": {"enabled": True, "replica": 1}}, "replica is not allowed"),
        ("dray-nvidia", {"driver": {"skipXids": "74;119"}}, "driver.skipXids"),
        ("dray-nvidia", {"cdiDirectory": "var/run/cdi"}, "cdiDirectory"),
        ("dray-nvidia", {"image": {"digest": "abc"}}, "image.digest"),
        ("dray-scheduler", {"scheduler": {"nodeSelector": {"scheduler": None}}}, "nodeSelector"),
        ("dray-scheduler", {"scheduler": {"nodeSelector": {"a": True}}}, "nodeSelector.a"),
        ("dray-scheduler", {"scheduler": {"name": "default-scheduler"}}, "scheduler.name"),
        ("dray-scheduler", {"scheduler": {"policy": "first-fit"}}, "scheduler.policy"),
        ("dray-scheduler", {"metrics": {"port": 80}}, "metrics.port"),
        ("dray-scheduler", {"networkPolicy": {"apiServerPorts": []}}, "apiServerPorts"),
    ],
)
def test_wrong_values_are_named(chart: str, values: JsonObject, words: str) -> None:
    done = helm.rendered(chart, values)
    assert done.returncode != 0
    assert words in done.stderr


def test_the_charts_have_the_version_of_dray() -> None:
    for name in helm.NAMES:
        chart = yaml.safe_load((helm.CHARTS / name / "Chart.yaml").read_text("utf-8"))
        assert (chart["name"], chart["appVersion"]) == (name, dray.__version__)
        for dependency in chart.get("dependencies", ()):
            there = helm.CHARTS / dependency["name"] / "Chart.yaml"
            assert yaml.safe_load(there.read_text("utf-8"))["version"] == dependency["version"]


@pytest.mark.parametrize(
    "file",
    ["_helpers.tpl", "networkpolicy.yaml", "poddisruptionbudget.yaml", "serviceaccount.yaml"],
)
def test_what_the_charts_share_is_the_same(file: str) -> None:
    """Each chart can be installed alone, so each has its own copy."""
    copies = sorted(helm.CHARTS.glob(f"*/templates/{file}"))
    assert len(copies) >= 2
    assert all(filecmp.cmp(copies[0], copy, shallow=False) for copy in copies)


def workloads(chart: str, values: JsonObject) -> Iterator[JsonObject]:
    for body in helm.documents(chart, values):
        if body["kind"] in ("DaemonSet", "Deployment"):
            yield body


EVERYTHING = VALUES["dray"][1]


def test_each_workload_is_ready_only_when_it_works() -> None:
    found = list(workloads("dray", EVERYTHING))
    assert len(found) == len(helm.NAMES) - 1
    for body in found:
        (container,) = body["spec"]["template"]["spec"]["containers"]
        ports = {port["name"] for port in container["ports"]}
        assert {container[name]["httpGet"]["port"] for name in PROBES} <= ports
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


PROBES = ("livenessProbe", "readinessProbe")


def test_all_but_the_driver_are_as_restricted_as_a_pod_can_be() -> None:
    """By the Pod Security Standard `restricted`, and with a file system that nobody changes."""
    for body in workloads("dray", EVERYTHING):
        spec = body["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        if body["kind"] == "DaemonSet":
            continue
        assert not {"hostPID", "hostNetwork", "hostIPC"} & spec.keys()
        assert all("hostPath" not in volume for volume in spec.get("volumes", ()))
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_no_right_is_a_wildcard_or_about_secrets() -> None:
    roles = [each for each in helm.documents("dray", EVERYTHING) if each["kind"].endswith("Role")]
    assert roles
    for rule in (rule for role in roles for rule in role["rules"]):
        assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert "secrets" not in rule["resources"]


@pytest.mark.parametrize(("replicas", "expected"), [(1, 0), (2, 1)])
def test_a_single_replica_can_be_evicted(replicas: int, expected: int) -> None:
    objects = helm.documents("dray-scheduler", {"replicas": replicas})
    assert len(helm.of_kind(objects, "PodDisruptionBudget")) == expected


def test_policies_select_the_pods_of_their_chart() -> None:
    objects = helm.documents("dray", EVERYTHING)
    policies = helm.of_kind(objects, "NetworkPolicy")
    selectors = [policy["spec"]["podSelector"]["matchLabels"] for policy in policies]
    pods = [
        body["spec"]["template"]["metadata"]["labels"] for body in workloads("dray", EVERYTHING)
    ]
    key: Any = sorted
    assert sorted(map(key, (each.items() for each in selectors))) == sorted(
        map(key, (each.items() for each in pods))
    )

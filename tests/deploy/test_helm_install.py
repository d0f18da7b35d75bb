"""Helm itself installs, upgrades and uninstalls the charts in a cluster of dray."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.api.types.meta import JsonObject
from tests.deploy import helm
from tests.deploy.helm import NAMESPACE, RELEASE
from tests.unit.cli.conftest import Cluster, start, stop

TYPES = "daemonsets,deployments,services,serviceaccounts,poddisruptionbudgets,roles,rolebindings"
WHOLE_CLUSTER = (
    "clusterroles,clusterrolebindings,deviceclasses,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings"
)
MADE_BY_HELM = f"app.kubernetes.io/instance={RELEASE}"


def values(**scheduler: int) -> JsonObject:
    """Everything but NetworkPolicies, which dray does not serve."""
    chosen = {
        name: {"enabled": True, "networkPolicy": {"create": False}} for name in helm.NAMES[1:]
    }
    chosen["dray-scheduler"] |= scheduler
    return chosen


def installed(cluster: Cluster) -> set[tuple[str, str]]:
    """The objects of the release that are in the cluster."""
    found: list[JsonObject] = []
    for types in (TYPES, WHOLE_CLUSTER):
        listed = cluster.dray("get", types, "-A", "-l", MADE_BY_HELM, "-o", "json")
        assert listed.exit_code == 0, listed.output
        found += json.loads(listed.stdout)["items"]
    return {(each["kind"], each["metadata"]["name"]) for each in found}


@pytest.mark.slow
def test_install_upgrade_and_uninstall(tmp_path: Path) -> None:
    process = start(tmp_path, "--store", "memory")
    try:
        cluster = Cluster(tmp_path / "kubeconfig")
        where = ("--namespace", NAMESPACE, "--kubeconfig", str(cluster.kubeconfig))

        def command(*words: str, chosen: JsonObject | None = None) -> None:
            done = helm.run(*words, *where, values=chosen)
            assert done.returncode == 0, done.stderr

        chart = str(helm.folder("dray"))
        command("install", RELEASE, chart, "--create-namespace", chosen=values())
        expected = helm.documents("dray", values())
        assert installed(cluster) == {(each["kind"], each["metadata"]["name"]) for each in expected}
        command("upgrade", RELEASE, chart, chosen=values(replicas=1))
        assert ("PodDisruptionBudget", f"{RELEASE}-dray-scheduler") not in installed(cluster)
        command("uninstall", RELEASE)
        assert installed(cluster) == set()
    finally:
        assert stop(process) == 0

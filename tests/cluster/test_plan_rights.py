"""`dray plan` on a real API server: all it needs are the rights to get, list and watch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import pytest

from dray.api.types.meta import JsonObject
from dray.apiserver.access import bootstrap_policy
from dray.cli.plan.command import plan
from tests import audit, kube_apiserver
from tests.unit.cli.conftest import Cluster, as_list
from tests.unit.scheduler.world import claim, device_class, gpu_slice, node, pod

READER = "reader"
READING = {"get", "list", "watch"}

ASKED: Mapping[str, Sequence[tuple[str, ...]]] = {
    "": [("-f", "FILE"), ("--drain", "n0", "--add-like", "n0:2")],
    "capacity": [(), ("-f", "FILE")],
    "defrag": [("--free", "n0"), ("--for", "FILE")],
    "nodes": [("-f", "FILE", "--add-type", "like:n0")],
}
"""What each command that reads a cluster is asked; "" is `dray plan` itself."""


def reading_commands() -> set[str]:
    """Return the commands of `dray plan` that connect to a cluster."""
    context = click.Context(plan)
    assert isinstance(plan, click.Group)
    commands = {name: plan.get_command(context, name) for name in plan.list_commands(context)}
    return {
        name
        for name, command in {"": plan, **commands}.items()
        if command is not None and any(each.name == "kubeconfig" for each in command.params)
    }


def objects() -> list[JsonObject]:
    """Return two nodes with two GPUs each, and a pod on one of them."""
    running = pod("running", "held", nodeName="n0")
    running["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", "controller": True}
    ]
    machines = [body for name in ("n0", "n1") for body in (node(name), gpu_slice(name, 2))]
    return [device_class(), *machines, claim("held"), running]


def rights() -> list[JsonObject]:
    """Return the right to read everything, for one user."""
    group = bootstrap_policy.GROUP
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": sorted(READING)}
    return [
        {
            "apiVersion": bootstrap_policy.VERSION,
            "kind": "ClusterRole",
            "metadata": {"name": READER},
            "rules": [rule],
        },
        {
            "apiVersion": bootstrap_policy.VERSION,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": READER},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": READER},
            "subjects": [{"apiGroup": group, "kind": "User", "name": READER}],
        },
    ]


def logging(directory: Path) -> tuple[str, ...]:
    """Return the options of a server that logs every request."""
    policy = directory / "audit-policy.json"
    document = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }
    policy.write_text(json.dumps(document), "utf-8")
    return (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={directory / 'audit.log'}",
        # Nobody runs the controllers that they count with.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    )


def create(admin: Cluster) -> None:
    created = admin.dray("create", "-f", "-", input=as_list([*rights(), *objects()]))
    assert created.exit_code == 0, created.output
    amounts = {"status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110"}}}
    for name in ("n0", "n1"):
        patch = ("--subresource", "status", "--type", "merge", "-p", json.dumps(amounts))
        patched = admin.dray("patch", "node", name, *patch)
        assert patched.exit_code == 0, patched.output


@pytest.mark.slow
def test_every_command_reads_and_does_nothing_else(tmp_path: Path) -> None:
    assert reading_commands() == ASKED.keys()
    file = tmp_path / "pods.json"
    file.write_text(as_list([claim("waits"), pod("waiting", "waits")]), "utf-8")
    with kube_apiserver.running(tmp_path, READER, options=logging(tmp_path)) as server:
        create(Cluster(server.kubeconfig(kube_apiserver.ADMIN)))
        reader = Cluster(server.kubeconfig(READER))
        for name, several in ASKED.items():
            for options in several:
                check(reader, name, [str(file) if each == "FILE" else each for each in options])
    asked = [each for each in audit.read(tmp_path / "audit.log") if each.user == READER]
    assert {each.verb for each in asked} <= READING
    assert not audit.refused(asked)
    assert {"pods", "nodes", "resourceslices", "resourceclaims"} <= {
        each.resource for each in asked if each.verb == "list"
    }


def check(reader: Cluster, name: str, options: Sequence[str]) -> None:
    found = reader.dray("plan", *filter(None, [name]), *options, "-o", "json")
    assert found.exit_code == 0, (name, options, found.output)
    assert json.loads(found.stdout)

"""Options and commands of kubectl: dray has them, or refuses them and says so."""

from __future__ import annotations

import shutil

import click
import pytest
from tools import compare_kubectl

from dray.cli import kubectl_options
from dray.cli.main import main
from tests.unit.cli.conftest import Cluster, run

NEWER = {"api-resources --show-managed-fields", "attach --detach-keys"}
"""Options that kubectl 1.37 has and 1.32 lacks."""


@pytest.mark.parametrize("command", sorted(kubectl_options.OPTIONS))
def test_every_option_of_kubectl_is_honoured_or_refused(command: str) -> None:
    own = compare_kubectl.own_options(command)
    for name in sorted(kubectl_options.OPTIONS[command] | kubectl_options.GLOBAL):
        if name in own:
            continue
        refused = run(command, f"--{name}=x")
        assert refused.exit_code == 2, (name, refused.output)
        assert f"dray has no `{command} --{name}`; kubectl has." in refused.stderr


@pytest.mark.parametrize("command", sorted(kubectl_options.COMMANDS))
def test_commands_that_only_kubectl_has_are_named(command: str) -> None:
    if command in main.list_commands(click.Context(main)):
        return
    refused = run(command, "x")
    assert refused.exit_code == 2
    assert f"Use kubectl: kubectl {command} x" in refused.stderr


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
def test_the_tables_have_all_that_kubectl_has() -> None:
    assert list(compare_kubectl.unknown("kubectl")) == []


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
def test_the_tables_have_nothing_else() -> None:
    assert set(compare_kubectl.outdated("kubectl")) <= NEWER


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["get", "ns", "-o=name"], id="letter-with-equals"),
        pytest.param(["get", "ns", "-oname"], id="letter-without"),
        pytest.param(["get", "ns", "--output=name"], id="word"),
        pytest.param(["get", "ns", "--watch=false", "--output", "name"], id="flag-false"),
        pytest.param(["get", "ns", "--no-headers=true", "-o", "name"], id="flag-true"),
        pytest.param(["get", "ns", "--show-labels=0", "-o", "name"], id="flag-zero"),
    ],
)
def test_options_can_be_written_as_in_kubectl(cluster: Cluster, arguments: list[str]) -> None:
    shown = cluster.dray(*arguments)
    assert shown.exit_code == 0, shown.output
    assert "namespace/default" in shown.stdout.split()


def test_a_flag_can_be_switched_off_and_a_wrong_value_is_refused(cluster: Cluster) -> None:
    shown = cluster.dray("get", "ns", "--no-headers=false")
    assert shown.stdout.startswith("NAME")
    refused = cluster.dray("get", "ns", "--no-headers=perhaps")
    assert refused.exit_code == 2
    assert "perhaps" in refused.stderr


def test_the_cluster_may_be_chosen_before_the_command(cluster: Cluster) -> None:
    shown = run("--kubeconfig", str(cluster.kubeconfig), "-n", "kube-system", "get", "pods")
    assert shown.stderr == "No resources found in kube-system namespace.\n"
    behind = run("--kubeconfig", "/nowhere", "get", "ns", "--kubeconfig", str(cluster.kubeconfig))
    assert behind.exit_code == 0, behind.output


def test_an_option_before_a_command_that_has_none_is_refused() -> None:
    refused = run("--context", "x", "fleet", "list")
    assert refused.exit_code == 2
    assert refused.stderr == "Error: dray fleet list has no --context.\n"


def test_a_global_option_that_only_kubectl_has_is_refused() -> None:
    refused = run("--as", "alice", "get", "pods")
    assert refused.exit_code == 2
    assert "dray has no --as; kubectl has." in refused.stderr


@pytest.mark.parametrize("name", ["go-template", "template", "kyaml", "jsonpath-as-json"])
def test_formats_that_only_kubectl_has_are_refused(cluster: Cluster, name: str) -> None:
    refused = cluster.dray("get", "ns", "-o", f"{name}=x")
    assert refused.exit_code == 2
    assert f"dray has no {name}; use kubectl" in refused.stderr

"""`dray explain` by a cluster of dray: the same answers as from reading everything."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import dray
from dray.api.types.meta import JsonObject
from dray.apiserver import standalone
from dray.cli.explain import own_answer, served_report
from dray.client import kubeconfig
from dray.explain import report
from tests import waiting
from tests.unit.cli.components.test_up import up
from tests.unit.cli.conftest import Cluster, as_list
from tests.unit.cli.explain.test_command import GROUP, TEAM, claim, pod, template

FORMATS: Sequence[Sequence[str]] = ([], ["-o", "wide"], ["-o", "json"])
LARGER = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("400Gi")) >= 0'
BROKEN = 'device.attributes["gpu.nvidia.com"].nothing == 1'
HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}
LISTED = {
    "": ["nodes", "pods", "resourcequotas", "events"],
    "resource.k8s.io": [
        *("resourceslices", "resourceclaims", "resourceclaimtemplates"),
        *("deviceclasses", "devicetaintrules"),
    ],
}
"""What explanations depend on."""
PATH_RULE: JsonObject = {"verbs": ["get"], "nonResourceURLs": [report.PATH]}


def from_template(name: str, of: str, **spec: Any) -> JsonObject:
    made = pod(name, "none", **spec)
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": of}]
    return made


def grouped(name: str) -> JsonObject:
    return pod(name, "many", schedulingGroup={"podGroupName": "gang"})


DOCUMENTS: Sequence[JsonObject] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}},
    HIGH,
    claim("whole", count=8),
    claim("many", count=9),
    claim("larger", selectors=[{"cel": {"expression": LARGER}}]),
    claim("broken", selectors=[{"cel": {"expression": BROKEN}}]),
    claim("free"),
    template("one"),
    pod("runs", "whole"),
    pod("counts", "many"),
    pod("selects", "larger"),
    pod("fails", "broken"),
    pod("lonely", "nowhere"),
    pod("gated", "free", schedulingGates=[{"name": "example.com/wait"}]),
    pod("astray", "free", nodeSelector={"disk": "ssd"}),
    pod("important", "larger", priorityClassName="high"),
    grouped("member-a"),
    grouped("member-b"),
    from_template("made", "one"),
    from_template("unmade", "absent"),
    *(from_template(f"crowd-{number}", "one") for number in range(10)),
)
NAMES = [
    f"{item['kind'].lower()}/{item['metadata']['name']}"
    for item in DOCUMENTS
    if item["kind"] in ("Pod", "ResourceClaim")
]


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A small cluster that is full: some pods run, and each of the others waits for a reason."""
    data: Path = tmp_path_factory.mktemp("served")
    cluster = Cluster(data / "kubeconfig")
    with up(data, "--fleet", "h200", "--nodes", "2", "--ui-listen", "none"):
        for document in DOCUMENTS:
            made = cluster.dray("create", "-f", "-", input=as_list([copy.deepcopy(document)]))
            assert made.exit_code == 0, made.output
        waiting.block_until(lambda: is_settled(cluster))
        yield cluster


def is_settled(cluster: Cluster) -> bool:
    """Whether the devices are held, and the scheduler has looked at everybody."""
    fields = "jsonpath={range .items[*]}{.status.conditions[0].type}{end}"
    looked = cluster.dray("get", "pods", "-n", TEAM, "-o", fields).stdout.count("PodScheduled")
    running = cluster.dray("get", "pods", "-n", TEAM, "-o", "jsonpath={.items[*].status.phase}")
    return running.stdout.count("Running") == 9 and looked > 0


def answers(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[str, str, bool]:
    """The answer of the server and that from reading, and whether the former was given."""
    read: list[object] = []
    show = own_answer.show

    def noted(*arguments: Any, **options: Any) -> bool:
        read.append(arguments)
        return show(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(own_answer, "show", noted)
        served = cluster.dray("explain", *arguments)
    with monkeypatch.context() as patched:
        patched.setattr(served_report, "of", lambda *_: None)
        own = cluster.dray("explain", *arguments)
    assert served.exit_code == own.exit_code, served.output
    return served.output, own.output, not read


@pytest.mark.parametrize("name", NAMES)
def test_a_server_answers_what_the_command_finds_out(
    settled: Cluster, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for options in FORMATS:
        served, own, is_served = answers(settled, monkeypatch, name, "-n", TEAM, *options)
        assert is_served, served
        assert served == own


def test_answers_follow_the_cluster(settled: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    question = ("pod/counts", "-n", TEAM)
    changes = (
        ("patch", "node", "h200-1", "-p", '{"spec": {"unschedulable": true}}'),
        ("delete", "pod", "runs", "-n", TEAM, "--wait=false"),
        ("delete", "resourceclaim", "free", "-n", TEAM),
        ("patch", "node", "h200-1", "-p", '{"metadata": {"labels": {"disk": "ssd"}}}'),
    )
    for change in changes:
        assert settled.dray(*change).exit_code == 0
        for name in ("counts", "astray", "selects", "crowd-3"):
            question = (f"pod/{name}", "-n", TEAM)

            def is_same(question: tuple[str, ...] = question) -> bool:
                served, own, _ = answers(settled, monkeypatch, *question)
                return served == own

            # The scheduler, too, is at work on what has changed.
            waiting.block_until(is_same)


def user_of(cluster: Cluster, directory: Path, name: str, *rules: JsonObject) -> Cluster:
    """The cluster for a user with these rights everywhere."""
    role = {"kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)}
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "name": name, "apiGroup": GROUP}],
        "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": GROUP},
    }
    documents = [{"apiVersion": f"{GROUP}/v1", **each} for each in (role, binding)]
    applied = cluster.dray("apply", "-f", "-", input=as_list(documents))
    assert applied.exit_code == 0, applied.output
    server = kubeconfig.load(cluster.kubeconfig).server
    connection = standalone.connection(cluster.kubeconfig.parent, server, name)
    kubeconfig.write(directory / "kubeconfig", connection)
    return Cluster(directory / "kubeconfig")


def rules_without(left_out: str) -> list[JsonObject]:
    return [
        {
            "verbs": ["list"],
            "apiGroups": [group],
            "resources": [name for name in resources if name != left_out],
        }
        for group, resources in LISTED.items()
    ]


@pytest.mark.parametrize("left_out", [name for own in LISTED.values() for name in own])
def test_who_may_not_list_a_kind_gets_no_answer_of_the_server(
    settled: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    user = user_of(settled, tmp_path, f"without-{left_out}", *rules_without(left_out), PATH_RULE)
    path = f"{report.PATH}?kind=Pod&namespace={TEAM}&name=counts&form=text"
    asked = user.dray("get", "--raw", f"{path}&version={dray.__version__}")
    assert asked.exit_code != 0
    assert "forbidden" in asked.output.lower()
    served, own, is_served = answers(user, monkeypatch, "pod/counts", "-n", TEAM)
    assert not is_served
    assert served == own


def test_the_right_to_list_everything_is_enough_with_that_to_ask(
    settled: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = user_of(settled, tmp_path, "reader", *rules_without(""))
    question = ("pod/counts", "-n", TEAM)
    served, own, is_served = answers(reader, monkeypatch, *question)
    assert (served, is_served) == (own, False)
    asker = user_of(settled, tmp_path, "asker", *rules_without(""), PATH_RULE)
    served, own, is_served = answers(asker, monkeypatch, *question)
    assert (served, is_served) == (own, True)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["pod/absent"], id="absent"),
        pytest.param(["template/one"], id="template"),
        pytest.param(["pod/counts", "pod/lonely"], id="several"),
        pytest.param(["pod/counts", "--fix"], id="fix"),
        pytest.param(["pod/counts", "--feature-gates", "DrayPreemption=true"], id="gates"),
        pytest.param(["pod/counts", "--if-preempted"], id="preemption"),
        pytest.param([], id="namespace"),
    ],
)
def test_other_questions_are_answered_from_reading(
    settled: Cluster, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    served, own, is_served = answers(settled, monkeypatch, *arguments, "-n", TEAM)
    assert (served, is_served) == (own, False)

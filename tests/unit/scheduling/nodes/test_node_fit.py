"""Which nodes a pod can run on, and in whose words not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.scheduling.nodes import node_fit, pod_requirements
from dray.scheduling.nodes.node_fit import Nodes


def make_node(taints: Any = (), unschedulable: bool = False, **allocatable: str) -> Node:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", **allocatable}
    body = {
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"allocatable": amounts},
    }
    return msgspec.convert(body, Node)


def make_pod(requests: Any = None, ports: Any = (), name: str = "p", **spec: Any) -> Pod:
    container = {"name": "c", "resources": {"requests": requests or {}}, "ports": list(ports)}
    body = {"metadata": {"name": name, "uid": name}, "spec": {"containers": [container], **spec}}
    return msgspec.convert(body, Pod)


def answer(node: Node, pod: Pod, *others: Pod, delegated: str = "") -> list[str]:
    nodes = Nodes()
    nodes.put(node, 0)
    for other in others:
        nodes.add_pod(other.metadata.uid, "n", pod_requirements.requirements_of(other).usage)
    state = nodes.get("n")
    assert state is not None
    reasons = node_fit.reasons_against(
        state, pod_requirements.requirements_of(pod), {delegated}.__contains__
    )
    return [reason.text for reason in reasons]


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
SELECTED = "node(s) didn't match Pod's node affinity/selector"


def affinity(*expressions: Any, **fields: Any) -> Any:
    term = {"matchExpressions": list(expressions), **fields}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize(
    ("node", "pod", "expected"),
    [
        pytest.param(make_node(), make_pod(), [], id="fits"),
        pytest.param(
            make_node(unschedulable=True), make_pod(), ["node(s) were unschedulable"], id="cordoned"
        ),
        pytest.param(
            make_node(unschedulable=True),
            make_pod(
                tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
            ),
            [],
            id="cordon tolerated",
        ),
        pytest.param(
            make_node([TAINT]), make_pod(), ["node(s) had untolerated taint(s)"], id="taint"
        ),
        pytest.param(
            make_node([TAINT]),
            make_pod(tolerations=[{"key": "k", "operator": "Equal", "value": "v"}]),
            [],
            id="taint tolerated by value",
        ),
        pytest.param(
            make_node([TAINT]),
            make_pod(tolerations=[{"key": "k", "value": "w"}]),
            ["node(s) had untolerated taint(s)"],
            id="other value tolerated",
        ),
        pytest.param(
            make_node([{**TAINT, "effect": "NoExecute"}]),
            make_pod(tolerations=[{"operator": "Exists", "effect": "NoSchedule"}]),
            ["node(s) had untolerated taint(s)"],
            id="other effect tolerated",
        ),
        pytest.param(
            make_node([{**TAINT, "effect": "PreferNoSchedule"}]), make_pod(), [], id="soft taint"
        ),
        pytest.param(make_node(), make_pod(nodeSelector={"zone": "b"}), [SELECTED], id="selector"),
        pytest.param(
            make_node(),
            make_pod(affinity=affinity({"key": "zone", "operator": "NotIn", "values": ["a"]})),
            [SELECTED],
            id="affinity",
        ),
        pytest.param(
            make_node(),
            make_pod(
                affinity=affinity(
                    matchFields=[{"key": "metadata.name", "operator": "In", "values": ["m"]}]
                )
            ),
            ["node(s) didn't satisfy plugin(s) [NodeAffinity]"],
            id="another node named",
        ),
        pytest.param(
            make_node(),
            make_pod({"cpu": "5", "memory": "9Gi"}),
            ["Insufficient cpu", "Insufficient memory"],
            id="too big",
        ),
        pytest.param(make_node(pods="0"), make_pod(), ["Too many pods"], id="no room for pods"),
        pytest.param(
            make_node(),
            make_pod({"example.com/x": "1"}),
            ["Insufficient example.com/x"],
            id="resource the node does not have",
        ),
    ],
)
def test_reasons(node: Node, pod: Pod, expected: list[str]) -> None:
    assert answer(node, pod) == expected


def test_what_other_pods_take_is_not_there() -> None:
    assert answer(make_node(), make_pod({"cpu": "3"}), make_pod({"cpu": "2"}, name="o")) == [
        "Insufficient cpu"
    ]


def test_a_resource_that_devices_stand_for_is_not_missed() -> None:
    wanted = make_pod({"example.com/x": "1"})
    assert answer(make_node(), wanted, delegated="example.com/x") == []


@pytest.mark.parametrize(
    ("taken", "wanted", "clashes"),
    [
        pytest.param({}, {}, True, id="same port"),
        pytest.param({"protocol": "UDP"}, {}, False, id="other protocol"),
        pytest.param({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, False, id="other address"),
        pytest.param({"hostIP": "10.0.0.1"}, {}, True, id="any address"),
    ],
)
def test_a_port_of_the_node_has_one_user(taken: Any, wanted: Any, clashes: bool) -> None:
    port = {"containerPort": 80, "hostPort": 80}
    other = make_pod(ports=[port | taken], name="o")
    reasons = answer(make_node(), make_pod(ports=[port | wanted]), other)
    assert bool(reasons) == clashes


def test_equal_pods_have_one_and_the_same_needs() -> None:
    one, other = make_pod({"cpu": "1"}, name="a"), make_pod({"cpu": "1"}, name="b")
    assert pod_requirements.requirements_of(one) is pod_requirements.requirements_of(other)
    assert pod_requirements.requirements_of(one) is not pod_requirements.requirements_of(
        make_pod({"cpu": "2"})
    )


def test_a_pod_that_leaves_gives_everything_back() -> None:
    nodes = Nodes()
    nodes.put(make_node(), 0)
    usage = pod_requirements.requirements_of(make_pod({"cpu": "3"})).usage
    nodes.add_pod("p", "n", usage)
    assert nodes.remove_pod("p")
    assert not nodes.remove_pod("p")
    state = nodes.get("n")
    assert state is not None
    assert state.requested["cpu"] == state.scored_cpu == 0


def test_pods_on_a_node_that_comes_later_count() -> None:
    nodes = Nodes()
    nodes.add_pod("p", "n", pod_requirements.requirements_of(make_pod({"cpu": "3"})).usage)
    assert nodes.get("n") is None
    nodes.put(make_node(), 0)
    state = nodes.get("n")
    assert state is not None
    assert state.requested["cpu"] == 3000


def test_a_node_that_comes_back_has_its_new_number() -> None:
    nodes = Nodes()
    nodes.put(make_node(), 3)
    nodes.drop("n")
    nodes.put(make_node(), 7)
    assert nodes.at(3) is None
    state = nodes.at(7)
    assert state is not None
    assert len(nodes) == 1

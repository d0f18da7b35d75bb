"""A node writes only about itself."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.world import Answer, World

NODE = world.node_user("n1")
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def mirror(uid: str, **changes: Any) -> JsonObject:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True}
    body = world.pod("mirror", nodeName="n1")
    body["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
    body["metadata"]["ownerReferences"] = [owner]
    body["spec"].update(changes)
    return body


def why(answer: Answer) -> str:
    assert answer.status == 403, answer.body
    return answer.message.partition(" is forbidden: ")[2]


def test_a_node_makes_its_own_node_object_and_no_other() -> None:
    server = World()
    server.create(NODES, world.node("n1"), user=NODE)
    answer = server.ask("POST", NODES, world.node("n2"), user=NODE)
    assert why(answer) == 'node "n1" is not allowed to modify node "n2"'


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("kubernetes.io/hostname", True),
        ("node.kubernetes.io/anything", True),
        ("example.com/anything", True),
        ("node-restriction.kubernetes.io/team", False),
        ("kubernetes.io/role", False),
        ("sub.k8s.io/role", False),
    ],
)
def test_a_node_sets_only_labels_that_draw_no_work(label: str, allowed: bool) -> None:
    answer = World().ask("POST", NODES, world.node("n1", **{label: "x"}), user=NODE)
    if allowed:
        assert answer.status == 201, answer.body
    else:
        expected = f'node "n1" is not allowed to set the following labels: {label}'
        assert why(answer) == expected


def test_a_node_does_not_change_its_taints() -> None:
    server = World()
    made = server.create(NODES, world.node("n1"))
    made["spec"]["taints"] = []
    answer = server.ask("PUT", f"{NODES}/n1", made, user=NODE)
    assert why(answer) == 'node "n1" is not allowed to modify taints'


def test_a_node_reports_its_own_status() -> None:
    server = World()
    made = server.create(NODES, world.node("n1"))
    made["status"] = {"capacity": {"cpu": "4"}}
    assert server.ask("PUT", f"{NODES}/n1/status", made, user=NODE).status == 200


def test_a_node_keeps_its_own_lease() -> None:
    server = World()
    server.create(LEASES, {"metadata": {"name": "n1"}, "spec": {}}, user=NODE)
    answer = server.ask("POST", LEASES, {"metadata": {"name": "n2"}, "spec": {}}, user=NODE)
    assert why(answer) == "can only access node lease with the same name as the requesting node"


def test_a_node_publishes_its_own_slices() -> None:
    server = World()
    server.create(SLICES, world.resource_slice("s1", "n1"), user=NODE)
    answer = server.ask("POST", SLICES, world.resource_slice("s2", "n2"), user=NODE)
    assert why(answer) == (
        "can only create ResourceSlice with the same NodeName as the requesting node"
    )
    server.create(SLICES, world.resource_slice("s2", "n2"))
    assert server.ask("DELETE", f"{SLICES}/s2", user=NODE).status == 403
    assert server.ask("DELETE", f"{SLICES}/s1", user=NODE).status == 200


def test_a_node_creates_nothing_but_mirror_pods() -> None:
    server = World()
    server.create(NODES, world.node("n1"))
    answer = server.ask("POST", world.PODS, world.pod("p", nodeName="n1"), user=NODE)
    assert why(answer) == (
        'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create '
        "mirror pods"
    )


def test_a_mirror_pod_belongs_to_its_node() -> None:
    server = World()
    uid = server.create(NODES, world.node("n1"))["metadata"]["uid"]
    server.create(world.PODS, mirror(uid), user=NODE)
    stranger = mirror("other-uid")
    stranger["metadata"]["name"] = "stranger"
    assert why(server.ask("POST", world.PODS, stranger, user=NODE)) == (
        f"node n1 UID mismatch: expected other-uid got {uid}"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodeName": "n2"}, 'node "n1" can only create pods with spec.nodeName set to itself'),
        (
            {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
            'node "n1" can not create pods that reference configmaps',
        ),
        (
            {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]},
            'node "n1" can not create pods that reference resourceclaims',
        ),
    ],
)
def test_a_mirror_pod_refers_to_nothing(changes: JsonObject, message: str) -> None:
    server = World()
    uid = server.create(NODES, world.node("n1"))["metadata"]["uid"]
    assert why(server.ask("POST", world.PODS, mirror(uid, **changes), user=NODE)) == message


def test_a_node_ends_only_its_own_pods() -> None:
    server = World()
    server.create(world.PODS, world.pod("mine", nodeName="n1"))
    server.create(world.PODS, world.pod("theirs", nodeName="n2"))
    answer = server.ask("DELETE", f"{world.PODS}/theirs", user=NODE)
    assert why(answer) == 'node "n1" can only delete pods with spec.nodeName set to itself'
    assert server.ask("DELETE", f"{world.PODS}/mine", user=NODE).status == 200


def test_a_node_reports_only_on_its_own_pods() -> None:
    server = World()
    made = server.create(world.PODS, world.pod("theirs", nodeName="n2"))
    answer = server.ask("PUT", f"{world.PODS}/theirs/status", made, user=NODE)
    assert why(answer) == (
        'node "n1" can only update pod status for pods with spec.nodeName set to itself'
    )


def test_a_node_does_not_give_claims_to_its_pods() -> None:
    server = World()
    claims = [{"name": "g", "resourceClaimTemplateName": "t"}]
    made = server.create(world.PODS, world.pod("mine", nodeName="n1", resourceClaims=claims))
    made["status"]["phase"] = "Running"
    running = server.ask("PUT", f"{world.PODS}/mine/status", made, user=NODE)
    assert running.status == 200
    running.body["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": "c"}]
    answer = server.ask("PUT", f"{world.PODS}/mine/status", running.body, user=NODE)
    assert why(answer) == 'node "n1" cannot update resource claim statues'


def test_everybody_else_is_not_restricted() -> None:
    server = World()
    server.create(NODES, world.node("n2", **{"kubernetes.io/role": "x"}))
    server.create(SLICES, world.resource_slice("s2", "n2"))

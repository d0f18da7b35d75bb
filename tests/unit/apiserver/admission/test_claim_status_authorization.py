"""Who may change which part of a claim's status."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api import features
from dray.api.http_messages import User
from dray.api.types.meta import JsonObject
from dray.apiserver.admission.claim_status_authorization import NODE_NAME_KEY
from tests.unit.apiserver import world
from tests.unit.apiserver.world import Answer, World

DRIVER = User("system:serviceaccount:kube-system:driver", frozenset({"system:authenticated"}))
ON_NODE = User(DRIVER.name, DRIVER.groups, "", ((NODE_NAME_KEY, ("n1",)),))
RESOURCE = "resource.k8s.io"
STATUS = {
    "verbs": ["update", "patch"],
    "apiGroups": [RESOURCE],
    "resources": ["resourceclaims/status"],
}
BINDING = {"verbs": ["update"], "apiGroups": [RESOURCE], "resources": ["resourceclaims/binding"]}


def driver_rule(verb: str, *names: str) -> JsonObject:
    return {
        "verbs": [verb],
        "apiGroups": [RESOURCE],
        "resources": ["resourceclaims/driver"],
        "resourceNames": list(names),
    }


def allocation(node: str = "n1") -> JsonObject:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }


def device_status(**changes: Any) -> JsonObject:
    return {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", **changes}


def allocated(server: World, node: str = "n1") -> JsonObject:
    made = server.create(world.CLAIMS, world.claim("c"))
    made["status"] = {"allocation": allocation(node)}
    answer = server.ask("PUT", f"{world.CLAIMS}/c/status", made)
    assert answer.status == 200, answer.body
    return answer.body


def report(server: World, claim: JsonObject, user: User) -> Answer:
    claim["status"]["devices"] = [device_status()]
    return server.ask("PUT", f"{world.CLAIMS}/c/status", claim, user=user)


def test_an_allocation_needs_permission_to_bind() -> None:
    server = World()
    world.grant(server, world.ALICE, STATUS)
    made = server.create(world.CLAIMS, world.claim("c"))
    made["status"] = {"allocation": allocation()}
    answer = server.ask("PUT", f"{world.CLAIMS}/c/status", made, user=world.ALICE)
    assert answer.status == 422
    assert answer.causes == [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: changing status.allocation or status.reservedFor requires "
            'resource="resourceclaims/binding", verb="update" permission: '
            'resourceclaims.resource.k8s.io is forbidden: User "alice" cannot update resource '
            '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope',
            "field": "status.allocation",
        }
    ]


def test_the_verb_is_that_of_the_request() -> None:
    server = World()
    world.grant(server, world.ALICE, STATUS)
    server.create(world.CLAIMS, world.claim("c"))
    answer = server.ask(
        "PATCH",
        f"{world.CLAIMS}/c/status",
        {"status": {"allocation": allocation()}},
        user=world.ALICE,
        content_type="application/merge-patch+json",
    )
    assert 'verb="patch"' in answer.message


def test_whoever_may_bind_may_allocate() -> None:
    server = World()
    world.grant(server, world.ALICE, STATUS, BINDING)
    made = server.create(world.CLAIMS, world.claim("c"))
    made["status"] = {"allocation": allocation()}
    answer = server.ask("PUT", f"{world.CLAIMS}/c/status", made, user=world.ALICE)
    assert answer.status == 200, answer.body


def test_the_gate_switches_it_off() -> None:
    gates = features.parse("DRAResourceClaimGranularStatusAuthorization=false")
    server = World(gates)
    world.grant(server, world.ALICE, STATUS)
    made = server.create(world.CLAIMS, world.claim("c"))
    made["status"] = {"allocation": allocation()}
    assert server.ask("PUT", f"{world.CLAIMS}/c/status", made, user=world.ALICE).status == 200


def test_devices_need_permission_under_the_name_of_their_driver() -> None:
    server = World()
    world.grant(server, DRIVER, STATUS, driver_rule("arbitrary-node:update", "other.example.com"))
    answer = report(server, allocated(server), DRIVER)
    assert answer.status == 422
    assert answer.causes[0] == {
        "reason": "FieldValueForbidden",
        "message": 'Forbidden: changing status.devices requires resource="resourceclaims/driver", '
        'verb="[arbitrary-node:update]" permission: resourceclaims.resource.k8s.io '
        '"gpu.example.com" is forbidden: User "system:serviceaccount:kube-system:driver" cannot '
        'arbitrary-node:update resource "resourceclaims/driver" in API group "resource.k8s.io" in '
        'the namespace "default"',
        "field": "status.devices",
    }


@pytest.mark.parametrize(
    ("user", "verb", "node", "allowed"),
    [
        pytest.param(DRIVER, "arbitrary-node:update", "n1", True, id="anywhere"),
        pytest.param(DRIVER, "associated-node:update", "n1", False, id="no-node-in-the-token"),
        pytest.param(ON_NODE, "associated-node:update", "n1", True, id="on-its-node"),
        pytest.param(ON_NODE, "associated-node:update", "n2", False, id="on-another-node"),
        pytest.param(ON_NODE, "arbitrary-node:update", "n2", True, id="anywhere-from-a-node"),
    ],
)
def test_a_driver_reports_where_it_may(user: User, verb: str, node: str, allowed: bool) -> None:
    server = World()
    world.grant(server, DRIVER, STATUS, driver_rule(verb, "gpu.example.com"))
    answer = report(server, allocated(server, node), user)
    assert answer.status == (200 if allowed else 422), answer.body


def test_a_driver_may_not_reserve_while_it_reports() -> None:
    server = World()
    world.grant(server, DRIVER, STATUS, driver_rule("arbitrary-node:update", "gpu.example.com"))
    claim = allocated(server)
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "1"}]
    answer = report(server, claim, DRIVER)
    assert [cause["field"] for cause in answer.causes] == ["status.allocation"]


def test_the_node_itself_reports_on_claims_of_its_pods() -> None:
    server = World()
    claim = allocated(server)
    body = world.pod("p", nodeName="n1", resourceClaims=[{"name": "g", "resourceClaimName": "c"}])
    server.create(world.PODS, body)
    answer = report(server, claim, world.node_user("n1"))
    assert answer.status == 200, answer.body
    del claim["metadata"]["resourceVersion"]
    claim["status"]["devices"] = []
    refused = server.ask("PUT", f"{world.CLAIMS}/c/status", claim, user=world.node_user("n2"))
    assert refused.status == 403

"""Nobody reads with a policy what is not his to read."""

from __future__ import annotations

from typing import Any

from tests.unit.apiserver import world
from tests.unit.apiserver.admission.policies.objects import BINDINGS, POLICIES, binding, policy
from tests.unit.apiserver.world import ALICE, Answer, World

WRITES = {
    "verbs": ["*"],
    "apiGroups": ["admissionregistration.k8s.io"],
    "resources": ["*"],
}
SECRETS = {"apiVersion": "v1", "kind": "Secret"}
REFERENCE = {"name": "s", "namespace": "default", "parameterNotFoundAction": "Deny"}
USER = "&{alice  [system:authenticated] map[]}"


def with_alice(**reads: Any) -> World:
    server = World()
    rules = [{"apiGroups": [""], "resources": ["secrets"], **reads}] if reads else []
    world.grant(server, ALICE, WRITES, *rules)
    return server


def write_policy(server: World) -> Answer:
    return server.ask("POST", POLICIES, policy("p", "true", paramKind=SECRETS), user=ALICE)


def write_binding(server: World, **reference: Any) -> Answer:
    body = binding("p", paramRef={**REFERENCE, **reference})
    return server.ask("POST", BINDINGS, body, user=ALICE)


def test_a_policy_needs_the_right_to_get_all_its_parameters() -> None:
    answer = write_policy(with_alice())
    assert answer.status == 422
    (cause,) = answer.body["details"]["causes"]
    assert cause == {
        "reason": "FieldValueForbidden",
        "field": "spec.paramKind",
        "message": f'Forbidden: user {USER} must have "get" permission on all objects of the '
        "referenced paramKind (kind=Secret, apiVersion=v1)",
    }
    assert write_policy(with_alice(verbs=["get"])).status == 201
    assert write_policy(with_alice(verbs=["get"], resourceNames=["s"])).status == 422


def test_a_binding_needs_the_right_to_get_its_parameter() -> None:
    server = with_alice(verbs=["get"], resourceNames=["s"])
    server.create(POLICIES, policy("p", "true", paramKind=SECRETS))
    answer = write_binding(server, name="t")
    assert answer.body["details"]["causes"][0]["message"] == (
        f'Forbidden: user {USER} does not have "get" permission on the object referenced by '
        "paramRef"
    )
    assert write_binding(server).status == 201


def test_a_binding_by_labels_needs_the_right_to_list() -> None:
    server = with_alice(verbs=["get"])
    server.create(POLICIES, policy("p", "true", paramKind=SECRETS))
    reference = {"selector": {}, "namespace": "default", "parameterNotFoundAction": "Deny"}
    body = binding("p", paramRef=reference)
    answer = server.ask("POST", BINDINGS, body, user=ALICE)
    assert '"list" permission' in str(answer.message)


def test_without_the_policy_everything_may_be_meant() -> None:
    answer = write_binding(with_alice(verbs=["get"]))
    assert answer.body["details"]["causes"][0]["message"] == (
        "Forbidden: unable to get policy p to determine minimum required permissions and user "
        f'{USER} does not have "get" permission for all groups, versions and resources'
    )


def test_what_is_kept_was_allowed_before() -> None:
    server = with_alice()
    server.create(POLICIES, policy("p", "true", paramKind=SECRETS))
    server.create(BINDINGS, binding("p", paramRef=REFERENCE))
    merge = "application/merge-patch+json"
    labels = {"metadata": {"labels": {"a": "b"}}}
    for path in (f"{POLICIES}/p", f"{BINDINGS}/p"):
        assert server.ask("PATCH", path, labels, user=ALICE, content_type=merge).status == 200
    other = {"spec": {"paramRef": {"name": "t"}}}
    answer = server.ask("PATCH", f"{BINDINGS}/p", other, user=ALICE, content_type=merge)
    assert answer.status == 422

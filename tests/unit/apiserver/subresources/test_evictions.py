"""pods/eviction: delete a pod, if its disruption budget allows that."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.world import Answer, World

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."


def running(server: World, name: str = "p", *, ready: bool = True) -> JsonObject:
    body = world.pod(name, nodeName="n1")
    body["metadata"]["labels"] = {"app": "web"}
    made = server.create(world.PODS, body)
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    made["status"].update(phase="Running", conditions=[condition])
    answer = server.ask("PUT", f"{world.PODS}/{name}/status", made)
    assert answer.status == 200, answer.body
    return answer.body


def budget(server: World, name: str = "web", spec: JsonObject | None = None, **status: Any) -> None:
    selector = {"matchLabels": {"app": "web"}}
    body = {
        "metadata": {"name": name},
        "spec": {"selector": selector, "minAvailable": 1, **(spec or {})},
    }
    made = server.create(BUDGETS, body)
    made["status"] = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        **status,
    }
    answer = server.ask("PUT", f"{BUDGETS}/{name}/status", made)
    assert answer.status == 200, answer.body


def evict(server: World, name: str = "p", *, query: str = "", **options: Any) -> Answer:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        "deleteOptions": options,
    }
    return server.ask("POST", f"{world.PODS}/{name}/eviction", body, query=query)


def test_a_pod_without_a_budget_goes() -> None:
    server = World()
    running(server)
    answer = evict(server)
    assert (answer.status, answer.body["status"]) == (201, "Success")
    leaving = server.get(f"{world.PODS}/p")
    assert leaving["metadata"]["deletionTimestamp"]
    target = next(
        condition
        for condition in leaving["status"]["conditions"]
        if condition["type"] == "DisruptionTarget"
    )
    assert (target["reason"], target["message"]) == (
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )


def test_a_budget_that_allows_it_is_spent() -> None:
    server = World()
    running(server)
    budget(server, disruptionsAllowed=1, currentHealthy=2)
    assert evict(server).status == 201
    status = server.get(f"{BUDGETS}/web")["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")


def test_a_budget_that_does_not_says_why() -> None:
    server = World()
    running(server)
    budget(server)
    answer = evict(server)
    assert (answer.status, answer.message) == (429, VIOLATION)
    assert answer.body["reason"] == "TooManyRequests"
    assert answer.causes == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget web needs 1 healthy pods and has 1 currently",
        }
    ]
    assert "deletionTimestamp" not in server.get(f"{world.PODS}/p")["metadata"]


def test_a_budget_that_was_not_counted_yet_asks_to_come_again() -> None:
    server = World()
    running(server)
    budget(server, observedGeneration=0, disruptionsAllowed=1)
    answer = evict(server)
    assert answer.status == 429
    assert answer.body["details"]["retryAfterSeconds"] == 10
    assert answer.causes[0]["message"] == (
        "The disruption budget web is still being processed by the server."
    )


def test_two_budgets_are_one_too_many() -> None:
    server = World()
    running(server)
    budget(server, "one")
    budget(server, "two")
    answer = evict(server)
    assert answer.status == 500
    assert answer.message == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support."
    )


def test_a_pod_that_has_not_started_needs_no_budget() -> None:
    server = World()
    body = world.pod("p")
    body["metadata"]["labels"] = {"app": "web"}
    server.create(world.PODS, body)
    budget(server)
    assert evict(server).status == 201
    assert server.ask("GET", f"{world.PODS}/p").status == 404


@pytest.mark.parametrize(
    ("policy", "healthy", "status"),
    [
        pytest.param("AlwaysAllow", 0, 201, id="always"),
        pytest.param("IfHealthyBudget", 1, 201, id="budget-is-healthy"),
        pytest.param("IfHealthyBudget", 0, 429, id="budget-is-not"),
    ],
)
def test_a_pod_that_is_not_ready_goes_by_the_policy(policy: str, healthy: int, status: int) -> None:
    server = World()
    running(server, ready=False)
    budget(server, spec={"unhealthyPodEvictionPolicy": policy}, currentHealthy=healthy)
    assert evict(server).status == status
    assert server.get(f"{BUDGETS}/web")["status"].get("disruptedPods") is None


def test_budgets_of_other_pods_do_not_matter() -> None:
    server = World()
    running(server)
    budget(server, spec={"selector": {"matchLabels": {"app": "other"}}})
    assert evict(server).status == 201


def test_options_go_with_the_eviction() -> None:
    server = World()
    running(server)
    assert evict(server, gracePeriodSeconds=0).status == 201
    assert server.ask("GET", f"{world.PODS}/p").status == 404


def test_only_the_pod_that_was_meant_goes() -> None:
    server = World()
    running(server)
    answer = evict(server, preconditions={"uid": "other"})
    assert answer.status == 409
    assert server.get(f"{world.PODS}/p")["status"]["phase"] == "Running"


@pytest.mark.parametrize("in_body", [True, False])
def test_a_dry_run_evicts_nothing(in_body: bool) -> None:
    server = World()
    before = running(server)
    budget(server, disruptionsAllowed=1, currentHealthy=2)
    options: JsonObject = {"dryRun": ["All"]} if in_body else {}
    answer = evict(server, query="" if in_body else "dryRun=All", **options)
    assert answer.status == 201, answer.body
    assert server.get(f"{world.PODS}/p") == before
    assert server.get(f"{BUDGETS}/web")["status"]["disruptionsAllowed"] == 1


def test_the_name_is_that_of_the_path() -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q"}}
    answer = World().ask("POST", f"{world.PODS}/p/eviction", body)
    assert answer.message == "name in URL does not match name in Eviction object"


def test_a_node_evicts_only_its_own_pods() -> None:
    server = World()
    running(server)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    path = f"{world.PODS}/p/eviction"
    refused = server.ask("POST", path, body, user=world.node_user("n2"))
    assert refused.message == (
        'pods "p" is forbidden: node n2 can only evict pods with spec.nodeName set to itself'
    )
    assert server.ask("POST", path, body, user=world.node_user("n1")).status == 201

"""The life of namespaces."""

from __future__ import annotations

import pytest

from dray.apiserver.admission import namespace_lifecycle
from tests.unit.apiserver import world
from tests.unit.apiserver.world import World


def test_nothing_is_created_in_a_namespace_that_does_not_exist() -> None:
    path = world.CLAIMS.replace("default", "no-such-ns")
    answer = World().ask("POST", path, world.claim("c"))
    assert (answer.status, answer.message) == (404, 'namespaces "no-such-ns" not found')
    assert answer.body["details"] == {"name": "no-such-ns", "kind": "namespaces"}


def test_nothing_is_created_in_a_namespace_that_is_ending() -> None:
    server = World()
    server.create("/api/v1/namespaces", world.namespace("leaving"))
    assert server.ask("DELETE", "/api/v1/namespaces/leaving").status == 200
    answer = server.ask("POST", world.CLAIMS.replace("default", "leaving"), world.claim("c"))
    assert answer.status == 403
    assert answer.message == (
        'resourceclaims.resource.k8s.io "c" is forbidden: unable to create new content in '
        "namespace leaving because it is being terminated"
    )
    assert answer.causes == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace leaving is being terminated",
            "field": "metadata.namespace",
        }
    ]


def test_objects_of_an_ending_namespace_can_still_change_and_go() -> None:
    server = World()
    server.create("/api/v1/namespaces", world.namespace("leaving"))
    path = world.CLAIMS.replace("default", "leaving")
    server.create(path, world.claim("c"))
    server.ask("DELETE", "/api/v1/namespaces/leaving")
    labelled = server.get(f"{path}/c")
    labelled["metadata"]["labels"] = {"a": "b"}
    assert server.ask("PUT", f"{path}/c", labelled).status == 200
    assert server.ask("DELETE", f"{path}/c").status == 200


@pytest.mark.parametrize("name", namespace_lifecycle.SYSTEM)
def test_system_namespaces_are_there_and_stay(name: str) -> None:
    server = World()
    assert server.get(f"/api/v1/namespaces/{name}")["status"] == {"phase": "Active"}
    answer = server.ask("DELETE", f"/api/v1/namespaces/{name}")
    assert answer.status == 403
    assert answer.message == (
        f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    )


def test_a_namespace_goes_when_its_finalizer_is_taken_away() -> None:
    server = World()
    server.create("/api/v1/namespaces", world.namespace("leaving"))
    server.ask("DELETE", "/api/v1/namespaces/leaving")
    found = server.get("/api/v1/namespaces/leaving")
    assert found["status"]["phase"] == "Terminating"
    found["spec"] = {}
    answer = server.ask("PUT", "/api/v1/namespaces/leaving/finalize", found)
    assert (answer.status, answer.body["kind"]) == (200, "Namespace")
    assert server.ask("GET", "/api/v1/namespaces/leaving").status == 404


def test_finalizers_of_a_living_namespace_can_be_replaced() -> None:
    server = World()
    made = server.create("/api/v1/namespaces", world.namespace("busy"))
    made["spec"] = {"finalizers": ["example.com/mine"]}
    answer = server.ask("PUT", "/api/v1/namespaces/busy/finalize", made)
    assert answer.status == 200
    assert server.get("/api/v1/namespaces/busy")["spec"] == {"finalizers": ["example.com/mine"]}


def test_a_finalizer_needs_a_domain() -> None:
    server = World()
    made = server.create("/api/v1/namespaces", world.namespace("busy"))
    made["spec"] = {"finalizers": ["mine"]}
    answer = server.ask("PUT", "/api/v1/namespaces/busy/finalize", made)
    assert answer.status == 422
    assert [cause["field"] for cause in answer.causes] == ["spec.finalizers[0]"]


def test_a_stale_finalization_is_a_conflict() -> None:
    server = World()
    made = server.create("/api/v1/namespaces", world.namespace("busy"))
    made["metadata"]["resourceVersion"] = "1"
    answer = server.ask("PUT", "/api/v1/namespaces/busy/finalize", made)
    assert answer.status == 409


def test_a_status_update_does_not_end_a_namespace_that_has_finalizers() -> None:
    server = World()
    server.create("/api/v1/namespaces", world.namespace("leaving"))
    server.ask("DELETE", "/api/v1/namespaces/leaving")
    found = server.get("/api/v1/namespaces/leaving")
    found["metadata"]["labels"]["a"] = "b"
    assert server.ask("PUT", "/api/v1/namespaces/leaving", found).status == 200
    assert server.ask("GET", "/api/v1/namespaces/leaving").status == 200

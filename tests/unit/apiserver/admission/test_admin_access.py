"""Admin access to devices, only in namespaces that are marked for it."""

from __future__ import annotations

import pytest

from dray.api import well_known
from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.world import World

TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}


def template(name: str) -> JsonObject:
    return {
        "metadata": {"name": name},
        "spec": {"spec": world.claim("c", adminAccess=True)["spec"]},
    }


def mark_default(server: World) -> None:
    label = {"metadata": {"labels": {well_known.ADMIN_ACCESS_LABEL: "true"}}}
    answer = server.ask(
        "PATCH", "/api/v1/namespaces/default", label, content_type="application/merge-patch+json"
    )
    assert answer.status == 200


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        pytest.param(
            world.CLAIMS, world.claim("bad", adminAccess=True), "ResourceClaim", id="claim"
        ),
        pytest.param(TEMPLATES, template("bad"), "ResourceClaimTemplate", id="template"),
    ],
)
def test_admin_access_is_refused_without_the_label(path: str, body: JsonObject, kind: str) -> None:
    answer = World().ask("POST", path, body)
    assert answer.status == 422
    assert answer.message == (
        f'{kind}.resource.k8s.io "bad" is invalid: spec.devices.requests[0].adminAccess: '
        "Forbidden: admin access to devices requires the "
        "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
    )
    assert [cause["reason"] for cause in answer.causes] == ["FieldValueForbidden"]


def test_the_refusal_comes_with_all_else_that_is_wrong() -> None:
    body = world.claim("bad", adminAccess=True)
    body["spec"]["devices"]["requests"].append({"name": "gpu"})
    answer = World().ask("POST", world.CLAIMS, body)
    assert answer.causes[0]["field"] == "spec.devices.requests[0].adminAccess"
    assert len(answer.causes) > 1


def test_admin_access_is_granted_in_a_marked_namespace() -> None:
    server = World()
    mark_default(server)
    server.create(world.CLAIMS, world.claim("good", adminAccess=True))
    server.create(TEMPLATES, template("good"))


def test_any_other_value_of_the_label_does_not_count() -> None:
    server = World()
    server.create(
        "/api/v1/namespaces", world.namespace("almost", **{well_known.ADMIN_ACCESS_LABEL: "yes"})
    )
    path = world.CLAIMS.replace("default", "almost")
    assert server.ask("POST", path, world.claim("c", adminAccess=True)).status == 422


def allocated(made: JsonObject, **result: bool) -> JsonObject:
    results = [{**RESULT, **result}]
    return {**made, "status": {"allocation": {"devices": {"results": results}}}}


def test_an_allocation_cannot_grant_what_the_namespace_does_not() -> None:
    server = World()
    made = server.create(world.CLAIMS, world.claim("c"))
    body = allocated(made, adminAccess=True)
    answer = server.ask("PUT", f"{world.CLAIMS}/c/status", body)
    assert answer.status == 422
    assert answer.causes[0]["field"] == "status.allocation.devices.results[0].adminAccess"


def test_what_was_granted_once_is_not_looked_at_again() -> None:
    server = World()
    mark_default(server)
    made = server.create(world.CLAIMS, world.claim("c", adminAccess=True))
    body = allocated(made, adminAccess=True)
    granted = server.ask("PUT", f"{world.CLAIMS}/c/status", body)
    assert granted.status == 200, granted.body
    label = {"metadata": {"labels": {well_known.ADMIN_ACCESS_LABEL: None}}}
    server.ask(
        "PATCH", "/api/v1/namespaces/default", label, content_type="application/merge-patch+json"
    )
    reserved = granted.body
    reserved["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "1"}]
    assert server.ask("PUT", f"{world.CLAIMS}/c/status", reserved).status == 200

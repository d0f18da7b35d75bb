"""Server-side apply: who owns what, conflicts, and what goes when it is no longer applied."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from dray.api import errors
from dray.api.conversion import versions
from dray.api.kinds import GroupVersionKind
from dray.api.types.meta import JsonObject
from dray.apiserver.patching import server_side_apply

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
CLASS = GroupVersionKind("resource.k8s.io", "v1", "DeviceClass")
POD = GroupVersionKind("", "v1", "Pod")


def device_class(labels: dict[str, str] | None = None, **spec: Any) -> JsonObject:
    metadata: JsonObject = {"name": "c"}
    if labels is not None:
        metadata["labels"] = labels
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": spec,
    }


def applied(
    live: JsonObject | None,
    configuration: JsonObject,
    manager: str,
    *,
    force: bool = False,
    gvk: GroupVersionKind = CLASS,
) -> JsonObject:
    return server_side_apply.apply(
        live, configuration, gvk=gvk, manager=manager, force=force, subresource="", now=NOW
    )


def owned(document: JsonObject, manager: str) -> Any:
    entries = document["metadata"].get("managedFields", [])
    found = [entry["fieldsV1"] for entry in entries if entry["manager"] == manager]
    return found[0] if found else None


def test_first_apply_owns_exactly_what_it_says() -> None:
    document = applied(None, device_class({"team": "a"}, extendedResourceName="x/y"), "one")
    assert owned(document, "one") == {
        "f:metadata": {"f:labels": {"f:team": {}}},
        "f:spec": {"f:extendedResourceName": {}},
    }


def test_changing_what_another_manager_owns_is_a_conflict() -> None:
    document = applied(None, device_class({"team": "a"}), "one")
    with pytest.raises(errors.Conflict) as caught:
        applied(document, device_class({"team": "b"}), "two")
    message = 'Apply failed with 1 conflict: conflict with "one": .metadata.labels.team'
    assert str(caught.value) == message
    assert caught.value.causes == (
        errors.Cause(".metadata.labels.team", "FieldManagerConflict", 'conflict with "one"'),
    )


def test_force_takes_the_field() -> None:
    document = applied(None, device_class({"team": "a", "tier": "x"}), "one")
    document = applied(document, device_class({"team": "b"}), "two", force=True)
    assert document["metadata"]["labels"] == {"team": "b", "tier": "x"}
    assert owned(document, "one")["f:metadata"] == {"f:labels": {"f:tier": {}}}
    assert owned(document, "two")["f:metadata"] == {"f:labels": {"f:team": {}}}


def test_same_value_is_shared() -> None:
    document = applied(None, device_class({"team": "a"}), "one")
    document = applied(document, device_class({"team": "a"}), "two")
    assert owned(document, "one") == owned(document, "two")


def test_field_left_out_is_removed_unless_somebody_else_has_it() -> None:
    document = applied(None, device_class({"team": "a", "tier": "x"}), "one")
    document = applied(document, device_class({"team": "a"}), "two")
    document = applied(document, device_class(), "one")
    assert document["metadata"]["labels"] == {"team": "a"}
    assert owned(document, "one") == {"f:spec": {}}


def test_applying_the_same_again_changes_nothing() -> None:
    configuration = device_class({"team": "a"}, extendedResourceName="x/y")
    document = applied(None, configuration, "one")
    assert applied(document, configuration, "one") == document


def test_items_of_a_keyed_list_belong_to_their_managers() -> None:
    def pod(*containers: JsonObject) -> JsonObject:
        spec = {"containers": list(containers)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}

    one, two = {"name": "a", "image": "1"}, {"name": "b", "image": "2"}
    document = applied(None, pod(one), "one", gvk=POD)
    document = applied(document, pod(two), "two", gvk=POD)
    assert document["spec"]["containers"] == [one, two]
    document = applied(document, pod(), "one", gvk=POD)
    assert document["spec"]["containers"] == [two]


def test_unknown_field_is_refused_as_the_real_server_does() -> None:
    with pytest.raises(errors.InternalError, match=r"\.spec\.nope: field not declared in schema"):
        applied(None, device_class(nope=1), "one")


def test_kubectl_takes_over_what_it_applied_from_the_clients_side() -> None:
    document = applied(None, device_class({"team": "a"}), "kubectl-client-side-apply")
    annotations = {server_side_apply.LAST_APPLIED: '{"metadata":{"labels":{"team":"a"}}}'}
    document["metadata"]["annotations"] = annotations
    document = applied(document, device_class({"team": "b"}), "kubectl")
    assert document["metadata"]["labels"] == {"team": "b"}


def claim(version: str, label: str | None, **request: Any) -> JsonObject:
    """A configuration of a claim; v1beta1 has no `exactly`."""
    named = {"name": "r", **(request if version == "v1beta1" else {"exactly": request})}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", **({"labels": {"team": label}} if label else {})},
        "spec": {"devices": {"requests": [named]}},
    }


def in_version(document: JsonObject, version: str) -> JsonObject:
    return versions.from_storage(versions.to_storage(document), f"resource.k8s.io/{version}")


@pytest.mark.parametrize(("first", "second"), [("v1", "v1beta1"), ("v1beta1", "v1")])
def test_a_manager_is_the_same_in_every_version(first: str, second: str) -> None:
    kinds_of = {
        version: GroupVersionKind("resource.k8s.io", version, "ResourceClaim")
        for version in (first, second)
    }
    document = applied(None, claim(first, "a", deviceClassName="x"), "one", gvk=kinds_of[first])
    document = applied(
        in_version(document, second),
        claim(second, None, deviceClassName="y"),
        "one",
        gvk=kinds_of[second],
    )
    entries = document["metadata"]["managedFields"]
    assert [(each["manager"], each["apiVersion"]) for each in entries] == [
        ("one", f"resource.k8s.io/{second}")
    ]
    # What it applied before and omits now is gone.
    assert "labels" not in document["metadata"] or not document["metadata"]["labels"]
    request = in_version(document, "v1")["spec"]["devices"]["requests"][0]
    assert request["exactly"]["deviceClassName"] == "y"


def test_another_manager_conflicts_across_versions() -> None:
    old = GroupVersionKind("resource.k8s.io", "v1beta1", "ResourceClaim")
    document = applied(None, claim("v1beta1", "a", deviceClassName="x"), "one", gvk=old)
    new = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaim")
    with pytest.raises(errors.Conflict, match="conflict with"):
        applied(in_version(document, "v1"), claim("v1", "b", deviceClassName="x"), "two", gvk=new)

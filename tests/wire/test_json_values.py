"""JSON that belongs to drivers is kept as it was sent: 1, 1.0 and true are different values."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.types.meta import JsonObject
from tests.wire.serving import Api, with_api

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def config(value: object) -> list[JsonObject]:
    return [{"opaque": {"driver": "a.example.com", "parameters": {"k": value}}}]


def device_class(value: object) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "a"},
        "spec": {"config": config(value)},
    }


def claim(value: object) -> JsonObject:
    requests = [{"name": "r", "exactly": {"deviceClassName": "a"}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a"},
        "spec": {"devices": {"requests": requests, "config": config(value)}},
    }


@pytest.mark.parametrize(
    ("method", "content_type"),
    [
        ("PUT", "application/json"),
        ("PATCH", "application/merge-patch+json"),
        ("PATCH", "application/apply-patch+yaml"),
    ],
)
def test_an_update_from_1_to_true_is_a_change(
    tmp_path: Path, method: str, content_type: str
) -> None:
    async def test(api: Api) -> None:
        assert (await api("POST", CLASSES, device_class(1))).status == 201
        generation = 1
        for value in (True, 1.0, 1, 0, False, 0.0):
            url = f"{CLASSES}/a?fieldManager=me"
            if "apply" in content_type:
                url += "&force=true"
            changed = await api(method, url, device_class(value), content_type=content_type)
            generation += 1
            assert changed.status == 200
            for answer in (changed, await api("GET", f"{CLASSES}/a")):
                document = answer.json
                assert document["metadata"]["generation"] == generation
                assert repr(document["spec"]["config"]) == repr(config(value))

    with_api(test, tmp_path)


def test_the_spec_of_a_claim_cannot_change_from_1_to_true(tmp_path: Path) -> None:
    async def test(api: Api) -> None:
        assert (await api("POST", CLAIMS, claim(1))).status == 201
        assert (await api("PUT", f"{CLAIMS}/a", claim(1))).status == 200
        refused = await api("PUT", f"{CLAIMS}/a", claim(True))
        assert refused.status == 422
        assert "field is immutable" in refused.json["message"]

    with_api(test, tmp_path)

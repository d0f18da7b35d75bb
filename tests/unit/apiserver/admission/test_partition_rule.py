"""Partition requests that are written to the API server are expanded there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dray.api import features
from dray.api.types.meta import JsonObject
from dray.apiserver.storage.slice_cache import PublishedSlices
from dray.partitions import expansion
from tests.unit.apiserver import world
from tests.unit.apiserver.world import World
from tests.unit.partitions.devices import (
    A100,
    ASKED,
    BESIDE,
    DEVICES,
    DRIVER,
    FLAT,
    GPU_CLASS,
    INSIDE,
    MIG_CLASS,
    partition,
)

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"


@pytest.mark.parametrize(
    ("version", "request_body"),
    [("v1beta1", FLAT), ("v1beta2", INSIDE), ("v1", INSIDE), ("v1", BESIDE)],
)
def test_every_version_accepts_it(version: str, request_body: JsonObject) -> None:
    server = partitioned()
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request_body]}}}
    path = world.CLAIMS.replace("/v1/", f"/{version}/")
    answer = server.ask("POST", path, body, query="fieldValidation=Strict")
    assert answer.status == 201, answer.body
    stored = server.get(f"{world.CLAIMS}/c")
    (request,) = stored["spec"]["devices"]["requests"]
    names = [alternative["name"] for alternative in request["firstAvailable"]]
    assert names == ["2g-20gb", "3g-40gb", "4g-40gb", "7g-80gb"]
    noted = json.loads(stored["metadata"]["annotations"][expansion.ANNOTATION])
    assert noted == {"gpu": ASKED}


def partitioned(gates: features.Features = features.DEFAULT) -> World:
    server = World(gates)
    for body in (GPU_CLASS, MIG_CLASS):
        server.create(CLASSES, body)
    counters = [{"name": f"gpu-{n}", "counters": {"memory": {"value": "8"}}} for n in range(2)]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    server.create(
        SLICES, world.resource_slice("counters", "n1", pool=pool, sharedCounters=counters)
    )
    second = [partition(profile, memory, 1) for profile, memory in A100.items()]
    server.create(SLICES, world.resource_slice("devices", "n1", *DEVICES, *second, pool=pool))
    return server


def asking(name: str, asked: Any = ASKED) -> JsonObject:
    body = world.claim(name)
    body["spec"]["devices"]["requests"][0]["partitionRequest"] = asked
    return body


def test_the_author_is_told_what_was_made_of_it() -> None:
    (warning,) = partitioned().ask("POST", world.CLAIMS, asking("c")).warnings
    assert "2g.20gb (memory 19968Mi)" in warning


def test_templates_ask_for_partitions_too() -> None:
    server = partitioned()
    body = {"metadata": {"name": "t"}, "spec": {"spec": asking("c")["spec"]}}
    made = server.create(TEMPLATES, body)
    assert made["spec"]["spec"]["devices"]["requests"][0]["firstAvailable"]
    bad = {"metadata": {"name": "t2"}, "spec": {"spec": asking("c", {"resources": {}})["spec"]}}
    answer = server.ask("POST", TEMPLATES, bad)
    assert answer.status == 422
    assert answer.causes[0]["field"] == "spec.spec.devices.requests[0].partitionRequest.resources"


def test_slices_count_as_soon_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    # The cache that the rule reads hears of them later.
    monkeypatch.setattr(PublishedSlices, "put", lambda *_: None)
    assert partitioned().ask("POST", world.CLAIMS, asking("c")).status == 201


def test_nothing_partitionable_is_a_reason() -> None:
    answer = World().ask("POST", world.CLAIMS, asking("c"))
    assert answer.status == 422
    assert answer.causes[0]["message"].endswith(f'no partition of class "{DRIVER}" is published')


def test_what_is_written_again_in_the_same_words_stays_as_it_is() -> None:
    server = partitioned()
    before = server.create(world.CLAIMS, asking("c"))
    server.create(SLICES, world.resource_slice("more", "n2", partition("2g.24gb", "24Gi")))
    answer = server.ask("PUT", f"{world.CLAIMS}/c", asking("c"))
    assert answer.status == 200, answer.body
    assert answer.body["spec"] == before["spec"]


@pytest.mark.parametrize(
    "changes",
    [{"deviceClassName": "other.example.com"}, {"tolerations": [{"operator": "Exists"}]}],
    ids=str,
)
def test_a_claim_cannot_be_asked_for_anew(changes: JsonObject) -> None:
    server = partitioned()
    server.create(world.CLAIMS, asking("c"))
    body = asking("c")
    body["spec"]["devices"]["requests"][0]["exactly"].update(changes)
    assert server.ask("PUT", f"{world.CLAIMS}/c", body).status == 422


def test_server_side_apply_is_idempotent() -> None:
    server = partitioned()
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **asking("c")}
    for status in (201, 200):
        answer = server.ask(
            "PATCH",
            f"{world.CLAIMS}/c",
            body,
            content_type="application/apply-patch+yaml",
            query="fieldManager=me",
        )
        assert answer.status == status, answer.body
        assert answer.body["spec"]["devices"]["requests"][0]["firstAvailable"]


def test_without_the_gate_the_field_is_unknown() -> None:
    server = partitioned(features.parse("DrayPartitionRequest=false"))
    answer = server.ask("POST", world.CLAIMS, asking("c"), query="fieldValidation=Strict")
    assert answer.status == 400
    assert 'unknown field "spec.devices.requests[0].partitionRequest"' in answer.message

"""What a claim's author may not have meant."""

from __future__ import annotations

import pytest

from dray.api import http_messages
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import claim_warnings
from tests.unit.apiserver import world
from tests.unit.apiserver.world import World

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def device(name: str, model: str) -> JsonObject:
    return {
        "name": name,
        "attributes": {"model": {"string": model}, "uuid": {"string": name}},
        "capacity": {"memory": {"value": "40Gi"}},
    }


def with_devices(number: int = 4) -> World:
    server = World()
    devices = [device(f"gpu-{n}", "a100") for n in range(number)]
    server.create(SLICES, world.resource_slice("s", "n1", *devices))
    return server


def selecting(*expressions: str) -> JsonObject:
    return world.claim(
        "c", selectors=[{"cel": {"expression": expression}} for expression in expressions]
    )


MATCHING = 'device.attributes["gpu.example.com"].model == "a100"'
NOWHERE = 'device.attributes["gpu.example.com"].model == "h100"'
FAILING = 'device.attributes["gpu.example.com"].nosuch == 1'


def warnings_for(server: World, body: JsonObject) -> list[str]:
    answer = server.ask("POST", world.CLAIMS, body, query="dryRun=All")
    assert answer.status == 201, answer.body
    return answer.warnings


@pytest.mark.parametrize(
    ("expressions", "warned"),
    [
        ((MATCHING,), []),
        ((NOWHERE,), [0]),
        ((MATCHING, NOWHERE), [1]),
        ((FAILING,), [0]),
    ],
)
def test_a_selector_that_matches_nothing_is_told(
    expressions: tuple[str, ...], warned: list[int]
) -> None:
    found = warnings_for(with_devices(), selecting(*expressions))
    assert len(found) == len(warned)
    for text, index in zip(found, warned, strict=True):
        assert f'request \\"gpu\\": selector {index} matches 0 of 4 devices today' in text


def test_thousands_are_written_with_a_comma() -> None:
    server = World()
    for number in range(9):
        devices = [device(f"gpu-{n}", "a100") for n in range(128)]
        server.create(SLICES, world.resource_slice(f"s{number}", f"n{number}", *devices))
    (text,) = warnings_for(server, selecting(NOWHERE))
    assert "matches 0 of 1,152 devices today" in text


def test_it_is_looked_up_again_when_slices_change() -> None:
    server = with_devices()
    assert warnings_for(server, selecting(NOWHERE))
    server.create(SLICES, world.resource_slice("new", "n2", device("gpu-0", "h100")))
    assert not warnings_for(server, selecting(NOWHERE))


def test_nothing_is_said_where_nothing_is_published() -> None:
    assert not warnings_for(World(), selecting(NOWHERE))


def test_nothing_is_said_where_it_would_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_warnings, "MAX_DEVICES", 3)
    assert not warnings_for(with_devices(4), selecting(NOWHERE))


def test_a_selector_that_tells_all_devices_apart_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claim_warnings, "MAX_SHAPES", 3)
    unique = 'device.attributes["gpu.example.com"].uuid == "x"'
    assert not warnings_for(with_devices(5), selecting(unique))


@pytest.mark.parametrize(
    ("request_body", "name"),
    [
        ({"name": "gpu", "exactly": {"deviceClassName": "x", "count": 0}}, "gpu"),
        ({"name": "gpu", "deviceClassName": "x", "count": 0}, "gpu"),
        ({"name": "gpu", "firstAvailable": [{"name": "a", "count": 0}]}, "gpu/a"),
        ({"name": "gpu", "exactly": {"deviceClassName": "x", "count": 1}}, None),
        ({"name": "gpu", "exactly": {"deviceClassName": "x"}}, None),
        ({"name": "gpu", "exactly": {"allocationMode": "All", "count": 0}}, None),
    ],
)
def test_a_count_of_zero_was_read_as_one(request_body: JsonObject, name: str | None) -> None:
    body = {"kind": "ResourceClaim", "spec": {"devices": {"requests": [request_body]}}}
    expected = [f'request "{name}": count 0 was read as 1'] if name else []
    assert claim_warnings.zero_counts(body) == expected


@pytest.mark.parametrize(
    "spec", [None, 5, {"devices": []}, {"devices": {"requests": [1, {"firstAvailable": [2]}]}}]
)
def test_malformed_claims_are_no_ones_business_here(spec: object) -> None:
    assert claim_warnings.zero_counts({"kind": "ResourceClaim", "spec": spec}) == []


def test_the_author_hears_of_the_zero() -> None:
    (text,) = warnings_for(World(), world.claim("c", count=0))
    assert "count 0 was read as 1" in text


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (world.claim("c", count=0), "count 0 was read as 1"),
        (selecting(NOWHERE), "matches 0 of 4 devices today"),
    ],
)
def test_the_author_hears_the_same_when_the_claim_is_applied(body: JsonObject, told: str) -> None:
    server = with_devices()
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **body}

    def apply() -> world.Answer:
        path, patch = f"{world.CLAIMS}/c", http_messages.APPLY_PATCH
        return server.ask("PATCH", path, body, content_type=patch, query="fieldManager=me")

    created, again = apply(), apply()
    assert (created.status, again.status) == (201, 200)
    assert [told in text for text in created.warnings] == [True]
    assert again.warnings == []

"""The families: valid, reproducible, with the feature that they are about, and placed legally."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from dray.allocator import placement, scenarios, verifier
from dray.allocator.model.rejections import AllocationError
from dray.allocator.scenarios import Scenario
from dray.api.features import Features
from dray.api.types.dra import ResourceClaim, ResourceClaimStatus
from dray.bench.families import catalog
from dray.bench.families.catalog import Scale
from dray.validation import rules
from tests import rounds

SMALL = Scale(nodes=8, claims=24)
SEEDS = 4

every_family = pytest.mark.parametrize("name", catalog.NAMES)
some_seeds = pytest.mark.parametrize("seed", rounds.seeds(SEEDS, long=100))


def decoded(name: str, seed: int) -> Scenario:
    return scenarios.convert(catalog.make(name, seed, SMALL))


@every_family
@pytest.mark.random
@some_seeds
def test_objects_are_valid(name: str, seed: int) -> None:
    scenario = decoded(name, seed)
    gates = scenario.features()
    claims = [
        msgspec.structs.replace(claim, status=ResourceClaimStatus()) for claim in scenario.claims
    ]
    assert _errors("ResourceSlice", scenario.slices, gates) == []
    assert _errors("DeviceClass", scenario.classes, gates) == []
    assert _errors("ResourceClaim", claims, gates) == []


def _errors(kind: str, objects: Any, gates: Features) -> list[str]:
    return [
        f"{item.metadata.name}: {error.path} {error.detail}"
        for item in objects
        for error in rules.validate_create(kind, item, gates)
    ]


@every_family
def test_a_seed_makes_the_same_bytes_again_and_another_one_others(name: str) -> None:
    first, again, other = (json.dumps(catalog.make(name, seed)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


@every_family
@pytest.mark.random
@some_seeds
def test_what_is_placed_is_legal(name: str, seed: int) -> None:
    scenario = decoded(name, seed)
    cluster = scenario.inventory()
    allocator = placement.Allocator(cluster, new_share_id=_share_ids())
    claims = [claim for claim in scenario.claims if claim.status.allocation is not None]
    placed = []
    for claim in scenario.waiting():
        try:
            fit = allocator.first_fit((claim,))
        except AllocationError:
            continue
        if isinstance(fit, placement.Fit):
            (allocation,) = fit.allocations
            cluster.record_allocation(claim.key, allocation)
            placed.append(
                msgspec.structs.replace(claim, status=ResourceClaimStatus(allocation=allocation))
            )
    keys = [claim.key for claim in placed]
    assert (
        verifier.find_violations(
            scenario.slices, [*claims, *placed], scenario.features(), just_allocated=keys
        )
        == []
    )


def _share_ids() -> Callable[[], str]:
    numbers = iter(range(1 << 30))
    return lambda: f"share-{next(numbers)}"


def _requests(scenario: Scenario) -> list[Any]:
    return [
        alternative
        for claim in scenario.waiting()
        for request in claim.spec.devices.requests
        for alternative in (request.exactly, *request.first_available)
        if alternative is not None
    ]


def _devices(scenario: Scenario) -> list[Any]:
    return [device for found in scenario.slices for device in found.spec.devices]


def _constraints(scenario: Scenario) -> list[Any]:
    return [item for claim in scenario.claims for item in claim.spec.devices.constraints]


def _consumptions(scenario: Scenario) -> list[Any]:
    return [item for device in _devices(scenario) for item in device.consumes_counters]


def _first_requests(scenario: Scenario) -> list[Any]:
    return [claim.spec.devices.requests[0] for claim in scenario.claims]


USES: dict[str, Callable[[Scenario], bool]] = {
    "prioritized-list": lambda found: all(each.first_available for each in _first_requests(found)),
    "consumable-capacity": lambda found: all(
        device.allow_multiple_allocations for device in _devices(found)
    ),
    "partitionable-devices": lambda found: bool(_consumptions(found)),
    "shared-partitions": lambda found: all(
        device.allow_multiple_allocations and device.consumes_counters for device in _devices(found)
    ),
    "taints": lambda found: any(device.taints for device in _devices(found)),
    "match-attribute": lambda found: all(item.match_attribute for item in _constraints(found)),
    "distinct-attribute": lambda found: any(
        item.distinct_attribute for item in _constraints(found)
    ),
    "existing-allocations": lambda found: len(found.waiting()) < len(found.claims),
    "multiple-requests": lambda found: all(
        len(claim.spec.devices.requests) > 1 for claim in found.claims
    ),
    "all-devices": lambda found: all(
        each.exactly.allocation_mode == "All" for each in _first_requests(found)
    ),
    "node-selectors": lambda found: any(item.spec.node_selector for item in found.slices),
    "binding-conditions": lambda found: any(
        device.binding_conditions for device in _devices(found)
    ),
    "many-attributes": lambda found: all(len(item.attributes) > 12 for item in _devices(found)),
    "many-classes": lambda found: len(found.classes) >= 40,
    "unique-values": lambda found: (
        len({str(item.attributes) for item in _devices(found)}) == len(_devices(found))
    ),
    "list-attributes": lambda found: any(
        item.string_values for device in _devices(found) for item in device.attributes.values()
    ),
    "derived-attributes": lambda found: all(item.derived_attributes for item in _requests(found)),
    "compatibility-groups": lambda found: any(
        item.compatibility_groups for item in _consumptions(found)
    ),
    "node-operations": lambda found: any(item.spec.skip_node_operations for item in found.slices),
    "mixed": lambda found: len({item.spec.driver for item in found.slices}) > 1,
    "mixed-alpha": lambda found: len({item.spec.driver for item in found.slices}) > 1,
}


@every_family
def test_a_family_uses_its_feature(name: str) -> None:
    assert all(USES[name](decoded(name, seed)) for seed in range(1, 6))


def test_existing_allocations_have_admin_access_and_stale_and_incomplete_pools() -> None:
    found = [decoded("existing-allocations", seed) for seed in range(1, 6)]
    assert any(request.admin_access for each in found for request in _requests(each))
    pools = [item.spec.pool for each in found for item in each.slices]
    assert {pool.generation for pool in pools} == {1, 2}
    assert {pool.resource_slice_count for pool in pools} == {1, 2, 3}


def test_some_mixed_claims_are_for_devices_of_two_families() -> None:
    claims: list[ResourceClaim] = [
        claim for seed in range(1, 4) for claim in decoded("mixed", seed).waiting()
    ]
    named = [
        {item.name.partition("-")[0] for item in each.spec.devices.requests} for each in claims
    ]
    assert any(len(families) > 1 for families in named)


def test_the_size_can_be_given_and_is_drawn_otherwise() -> None:
    small = catalog.make("taints", 3, Scale(nodes=5, claims=9))
    assert (len(small["nodes"]), len(small["claims"])) == (5, 9)
    assert 80 <= len(catalog.make("taints", 3)["nodes"]) <= 320


@pytest.mark.parametrize(
    ("name", "hint"),
    [("taint", "did you mean taints"), ("priority-list", "did you mean prioritized-list")],
)
def test_an_unknown_family_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(catalog.UnknownFamily, match=f"no family {name}; {hint}"):
        catalog.make(name, 1)


def test_a_family_that_is_like_no_other_is_told_all_of_them() -> None:
    with pytest.raises(catalog.UnknownFamily, match="write one of prioritized-list"):
        catalog.make("xyz", 1)

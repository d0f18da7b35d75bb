"""Cards: which slices are in use, the largest partition left, profiles without a place."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dray.allocator.inventory.cluster_inventory import AllocatedState
from dray.api.ids import DeviceId
from dray.drivers.simulated import fleet
from dray.planner.capacity import cards
from dray.planner.capacity.cards import BlockedProfile, Card
from dray.scheduling.state import SchedulingState
from tests import builders

ONE = "gpu-0-mig-1g10gb-19-{}"


def card_with(*held: str) -> Card:
    """Return the first card of a fleet with MIG, with some partitions in use."""
    described = fleet.load("a100-mig", nodes=1)
    state = SchedulingState.of([*described.nodes(), *described.slices(), *described.classes()])
    ids = [DeviceId("gpu.nvidia.com", "a100-0", name) for name in held]
    state.inventory.record_state(AllocatedState(ids))
    first, *others = cards.cards_of(state.inventory)
    assert [other.largest for other in others] == ["gpu-1", "gpu-2", "gpu-3"]
    return first


def test_a_card_that_is_free_gives_all_of_it() -> None:
    card = card_with()
    assert (card.slices, card.free_slices, card.largest, card.share) == (8, 8, "gpu-0", 1.0)
    assert (card.node, card.held, card.blocked) == ("a100-0", [], ())


def test_a_profile_has_no_place_although_enough_slices_are_free() -> None:
    card = card_with(*(ONE.format(start) for start in (0, 1, 5)))
    assert [(part.profile, part.start, part.size) for part in card.held] == [
        ("1g.10gb", 0, 1),
        ("1g.10gb", 1, 1),
        ("1g.10gb", 5, 1),
    ]
    assert (card.free_slices, card.largest) == (5, "2g.20gb")
    assert list(card.blocked) == [
        BlockedProfile("3g.40gb", 4, (0, 4)),
        BlockedProfile("4g.40gb", 4, (0,)),
    ]
    assert card.message(card.blocked[0]) == (
        "3g.40gb does not fit: 5 of 8 slices are free, "
        "but no 4 in a row at a place where it may start (0 or 4)"
    )


@pytest.mark.parametrize(
    ("held", "largest", "blocked"),
    [
        pytest.param("gpu-0-mig-3g40gb-9-4", "4g.40gb", [], id="the-larger-half"),
        pytest.param("gpu-0-mig-4g40gb-5-0", "3g.40gb", [], id="the-smaller-half"),
        pytest.param("gpu-0-mig-3g40gb-9-0", "3g.40gb", ["4g.40gb"], id="at-the-wrong-end"),
        pytest.param("gpu-0", "", [], id="nothing"),
    ],
)
def test_the_largest_partition_that_is_left(held: str, largest: str, blocked: list[str]) -> None:
    card = card_with(held)
    assert card.largest == largest
    assert [item.profile for item in card.blocked] == blocked


def test_partitions_without_places_have_no_slices() -> None:
    state = SchedulingState.of([builders.node("n1"), *builders.mig_slices()])
    half = DeviceId(builders.DRIVER, "n1", "gpu-0-half-0")
    state.inventory.record_state(AllocatedState([half]))
    (card,) = cards.cards_of(state.inventory)
    assert (card.slices, card.share) == (0, 0.5)
    assert card.largest == "gpu-0-half-1"


def test_cards_of_some_nodes_only() -> None:
    slices = [*builders.mig_slices("n1"), *builders.mig_slices("n2")]
    nodes = [builders.node(name) for name in ("n1", "n2")]
    state = SchedulingState.of([*nodes, *slices])
    found: Mapping[str, Card] = {
        card.node: card for card in cards.cards_of(state.inventory, ["n2"])
    }
    assert list(found) == ["n2"]

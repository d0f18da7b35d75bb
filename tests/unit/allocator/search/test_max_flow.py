"""Serving all requests at once."""

from __future__ import annotations

import itertools
import random

import pytest

from dray.allocator.search import max_flow
from tests import rounds


def test_requests_move_over_for_those_that_have_no_choice() -> None:
    assert max_flow.has_assignment([0b11, 0b01], [1, 1], lambda bit: 1)
    assert not max_flow.has_assignment([0b01, 0b01], [1, 1], lambda bit: 1)


def test_one_request_needs_different_devices() -> None:
    assert not max_flow.has_assignment([0b1], [2], lambda bit: 5)
    assert max_flow.has_assignment([0b1, 0b1], [1, 1], lambda bit: 2)


@pytest.mark.random
def test_agrees_with_trying_every_seating() -> None:
    for seed in map(rounds.seed_of, range(rounds.count(400, long=50_000))):
        dice = random.Random(seed)
        devices, number = dice.randint(1, 5), dice.randint(1, 4)
        seats = [dice.choice((1, 1, 2)) for _ in range(devices)]
        wishes = [dice.getrandbits(devices) for _ in range(number)]
        counts = [dice.choice((1, 1, 2)) for _ in range(number)]
        found = max_flow.has_assignment(wishes, counts, lambda bit: seats[bit.bit_length() - 1])  # noqa: B023
        assert found is _tries_everything(wishes, counts, seats)


def _tries_everything(wishes: list[int], counts: list[int], seats: list[int]) -> bool:
    options = [
        list(itertools.combinations([d for d in range(len(seats)) if wish >> d & 1], count))
        for wish, count in zip(wishes, counts, strict=True)
    ]
    return any(
        all(sum(device in item for item in chosen) <= seats[device] for device in range(len(seats)))
        for chosen in itertools.product(*options)
    )

"""How much the random tests do, and from which seed.

`make test` runs a share of the rounds, the same each time, and `make long` (`pytest --long`) all of
them, each time from another seed. Every random test takes its seeds from here, and these from one
number that each run prints: `pytest --seed N` repeats the run. The options are read before test
modules are imported.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Final

import hypothesis
import pytest

MAX_SEED: Final = 2**32


@dataclasses.dataclass
class Choice:
    """What the options say; without pytest, the share from seed 0."""

    is_long: bool = False
    seed: int = 0


CHOSEN: Final = Choice()


def new_seed() -> int:
    """A seed that no other run has."""
    return random.SystemRandom().randrange(MAX_SEED)


def count(share: int, *, long: int) -> int:
    """How many rounds there are: a share for every day, or the large number."""
    return long if CHOSEN.is_long else share


def seeds(share: int, *, long: int) -> list[Any]:
    """Parameters for as many rounds; they are named by number, so that names stay the same."""
    return [pytest.param(seed_of(each), id=str(each)) for each in range(count(share, long=long))]


def seed_of(number: int) -> int:
    """The seed of one round of this run."""
    return (CHOSEN.seed + number) % MAX_SEED


def examples(share: int, *, long: int) -> hypothesis.settings:
    """Settings for a test of hypothesis; an example may take long on a busy machine."""
    return hypothesis.settings(max_examples=count(share, long=long), deadline=None)

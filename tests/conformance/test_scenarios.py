"""Whole scenarios: every claim gets the node and devices that Kubernetes' allocator gave it."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import pytest

from dray.bench import allocate
from tests.corpus.bench import generate
from tests.recorded import BENCH

NAMES = [PurePath(file).stem for file in BENCH.names("answers/*.json")]


def scenario(name: str) -> dict[str, Any]:
    """Return a scenario: from its file where there is one, made anew otherwise."""
    file = f"scenarios/{name}.json"
    return dict(BENCH.json(file)) if BENCH.has(file) else generate.make(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_goes_where_upstream_put_it(name: str) -> None:
    answers = BENCH.json(f"answers/{name}.json")
    report = allocate.run(scenario(name), answers=answers)
    assert report.difference is None
    assert report.claims == len(answers)

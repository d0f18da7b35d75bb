"""Random allocation problems and what Kubernetes' allocators made of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import allocation, cases


@pytest.mark.parametrize("case", cases.parameters("fuzz_allocator"))
def test_allocates_as_one_of_the_upstream_allocators(case: dict[str, Any]) -> None:
    outcome = allocation.run(case)
    runs = [run for run in case["runs"].values() if run["supported"] and not run.get("skipped")]
    assert any(allocation.is_like(outcome, run) for run in runs), outcome

"""Kubernetes' own table of allocation problems."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import allocation, cases


@pytest.mark.parametrize("case", cases.parameters("allocator"))
def test_allocates_as_upstream_expects(case: dict[str, Any]) -> None:
    outcome = allocation.run(case)
    if case["expectError"]:
        assert outcome.error is not None
        assert case.get("expectErrorContains", "") in outcome.error
        return
    assert outcome.error is None
    allocation.assert_consists_of(
        outcome.results or [], case["expectResults"] or [], case["expectResultsOrdered"] or []
    )

"""The CEL specification's own expectations, where Kubernetes agrees with them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.test_cel_spec_kubernetes import (
    FAILURES,
    evaluate,
    is_same,
    recorded_cases,
    specification,
)


def agreed_cases() -> list[Any]:
    return [
        parameter
        for parameter in recorded_cases()
        if parameter.values[0] is None or parameter.values[0]["agrees"]
    ]


@pytest.mark.parametrize("case", agreed_cases())
def test_answer_of_the_specification(case: dict[str, Any]) -> None:
    test = specification()[case["line"] - 1]
    assert test["expr"] == case["expr"]
    assert not test["needs_proto"]
    if "error" in test["expect"]:
        with pytest.raises(FAILURES):
            evaluate(test["expr"], test)
    elif "value" in test["expect"]:
        assert is_same(evaluate(test["expr"], test), test["expect"]["value"])

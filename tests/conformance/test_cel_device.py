"""Kubernetes' own tests of device selectors and derived attributes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dray.cel import device
from dray.cel.runtime.values import CostExceeded, EvaluationError
from tests.conformance import cases
from tests.conformance.test_cel_probes import comparable, device_view, features, observe


def of_suite(suite: str) -> list[Any]:
    return [
        parameter
        for parameter in cases.parameters("cel_device", lambda case: case["name"])
        if parameter.values[0] is None or parameter.values[0]["suite"] == suite
    ]


@pytest.mark.parametrize("case", of_suite("TestCEL"))
def test_selector(case: dict[str, Any]) -> None:
    view = device_view(case["device"])
    for run in case["runs"]:
        observed = observe(device.compile_selector(case["expression"], **features(run)), view)
        assert case["expectCompileError"] in observed.get("compileError", "")
        if case["expectMatchError"] and "compileError" not in run:
            assert case["expectMatchError"] in observed["matchError"]
        assert observed.get("match", False) == run.get("match", False)
        for key in ("matchError", "maxCost", "actualCost"):
            if key in run and "compileError" not in run:
                assert observed.get(key) == run[key], run
        if "compileError" in run:
            assert observed["compileError"] == comparable(run["compileError"])
        elif case["expectMatch"] or not case["expectCompileError"]:
            assert observed["maxCost"] == case["expectCost"]


@pytest.mark.parametrize("case", of_suite("TestCompileDerivedAttributes"))
def test_derived_attribute_compiles(case: dict[str, Any]) -> None:
    for run in case["runs"]:
        compiled = device.compile_derived_attribute(case["expression"], **features(run))
        found = compiled.error.detail if compiled.error else None
        assert comparable(found) == comparable(run.get("compileError"))
        if "maxCost" in run and not compiled.error:
            assert compiled.estimated_cost == run["maxCost"]


@pytest.mark.parametrize("case", of_suite("TestEvaluateDerivedAttributes"))
def test_derived_attribute_evaluates(case: dict[str, Any]) -> None:
    view = device_view(case["device"])
    for run in case["runs"]:
        compiled = device.compile_derived_attribute(case["expression"], **features(run))
        if "compileError" in run:
            assert compiled.error
            continue
        try:
            found = json.loads(msgspec.json.encode(compiled.evaluate(view)))
            error = None
        except (EvaluationError, CostExceeded) as raised:
            found, error = None, str(raised)
        assert error == run.get("evalError"), run
        assert found == run.get("attribute"), run

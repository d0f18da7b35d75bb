"""Selector expressions on a fixed device: answers, texts and both costs, in three environments."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from dray.api.types import dra
from dray.cel import device
from dray.cel.device import DeviceView, Selector
from dray.cel.runtime.values import CostExceeded, EvaluationError
from tests.conformance import cases


def device_view(recorded: dict[str, Any]) -> DeviceView:
    fields = {key: value for key, value in recorded.items() if value is not None}
    driver = fields.pop("driver", "")
    return device.view(driver, msgspec.convert(fields, dra.Device))


def features(run: dict[str, Any]) -> dict[str, bool]:
    return {
        "stored": run.get("envType", "StoredExpressions") == "StoredExpressions",
        "consumable_capacity": run["features"]["EnableConsumableCapacity"],
        "list_type_attributes": run["features"]["EnableListTypeAttributes"],
    }


def comparable(text: str | None) -> str | None:
    """Return a compile error; for errors of syntax only the place of the first one.

    cel-go goes on after a syntax error and reports what it then fails at, dray stops there.
    """
    if text is None or "Syntax error:" not in text:
        return text
    first, *_ = text.split("\nERROR:")
    return re.sub(r"(Syntax error:).*", r"\1", first)


def observe(selector: Selector, view: DeviceView) -> dict[str, Any]:
    """What a selector does with a device, in the words of the recorded runs."""
    if selector.error:
        return {"compileError": comparable(selector.error.detail)}
    observed: dict[str, Any] = {"maxCost": selector.estimated_cost, "match": False}
    try:
        observed["actualCost"] = selector.program.measure(view.fields).cost
        observed["match"] = selector.matches(view)
    except (EvaluationError, CostExceeded) as error:
        observed["matchError"] = str(error)
    return observed


@pytest.mark.parametrize("case", cases.parameters("cel_probes", lambda case: case["expression"]))
def test_selector_does_what_kubernetes_does(case: dict[str, Any]) -> None:
    view = device_view(case["device"])
    for run in case["runs"]:
        selector = device.compile_selector(case["expression"], **features(run))
        observed = observe(selector, view)
        expected = {key: run[key] for key in observed.keys() & run.keys()}
        if "compileError" in run:
            expected = {"compileError": comparable(run["compileError"])}
        if not case["deterministic"]:
            observed.pop("actualCost", None)
            expected.pop("actualCost", None)
        assert observed == expected, run


@pytest.mark.parametrize("case", cases.parameters("cel_probes", lambda case: case["expression"]))
def test_both_forms_of_code_agree(case: dict[str, Any]) -> None:
    view = device_view(case["device"])
    selector = device.compile_selector(case["expression"], stored=True)
    if selector.error:
        return
    value, error, _ = selector.program.measure(view.fields)
    if error is None:
        assert selector.program.evaluate(view.fields) == value
    else:
        with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
            selector.program.evaluate(view.fields)

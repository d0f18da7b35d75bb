"""Kubernetes' tables for the arithmetic of consumable capacity and for compatibility groups."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from dray.allocator.checks import capacity
from dray.allocator.checks.compatibility_groups import Intersection
from dray.api.formats import quantity
from dray.api.types.dra import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from tests.conformance import cases


def _consumed(given: dict[str, Any]) -> Any:
    requested = given["requested"]
    try:
        found = capacity.consumed(
            quantity.parse(requested) if requested is not None else None,
            msgspec.convert(given["capacity"], DeviceCapacity),
            fractional=given["fractionalCapacityRange"],
        )
    except capacity.CapacityError:
        return {"error": True, "quantity": "0"}
    return {"error": False, "quantity": str(found)}


def _violates_policy(given: dict[str, Any]) -> Any:
    return capacity.violates_policy(
        quantity.parse(given["requested"]),
        msgspec.convert(given["requestPolicy"], CapacityRequestPolicy | None),
        fractional=given["fractionalCapacityRange"],
    )


def _safe_milli(given: dict[str, Any]) -> Any:
    milli = capacity.safe_milli(quantity.parse(given["quantity"]))
    return {"error": milli is None, "milli": milli or 0}


def _uses_milli(given: dict[str, Any]) -> Any:
    return capacity.uses_milli(
        msgspec.convert(given["validRange"], CapacityRequestPolicyRange),
        fractional=given["fractionalCapacityRange"],
    )


def _admits(given: dict[str, Any]) -> Any:
    """The intersection is recorded as Go prints it."""
    flags = dict(re.findall(r"(\w+):(true|false)", given["intersection"]))
    members = re.search(r"groups:map\[(.*)\]", given["intersection"])
    groups = re.findall(r"(\w+):", members[1]) if members else []
    present = Intersection(
        flags["hasMembers"] == "true", flags["allEmpty"] == "true", frozenset(groups)
    )
    return present.admits(frozenset(given["candidate"] or ()))


FUNCTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "calculateConsumedCapacity": _consumed,
    "violatesPolicy": _violates_policy,
    "safeMilliValue": _safe_milli,
    "useMilli": _uses_milli,
    "compatibilityGroupIntersection.admits": _admits,
}


@pytest.mark.parametrize("case", cases.parameters("capacity_units"))
def test_gives_what_upstream_expects(case: dict[str, Any]) -> None:
    assert FUNCTIONS[case["function"]](case["input"]) == case["expect"]

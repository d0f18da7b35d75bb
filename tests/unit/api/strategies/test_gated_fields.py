"""Fields of gates that are off: dropped, unless the object uses them already."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from dray.api import features
from dray.api.features import Features
from dray.api.strategies import gated_fields

OFF = msgspec.structs.replace(
    features.DEFAULT,
    consumable_capacity=False,
    device_taints=False,
    resource_claim_device_status=False,
)
ON = msgspec.structs.replace(
    features.DEFAULT,
    consumable_capacity=True,
    device_taints=True,
    resource_claim_device_status=True,
)


def claim(*requests: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"spec": {"devices": {"requests": list(requests)}}, "status": status}


def dropped(new: dict[str, Any], old: dict[str, Any] | None, gates: Features) -> dict[str, Any]:
    result = copy.deepcopy(new)
    gated_fields.drop("ResourceClaim", result, old, gates)
    return result


TOLERATING = {"name": "a", "exactly": {"tolerations": [{"key": "x"}], "count": 1}}
PLAIN = {"name": "a", "exactly": {"count": 1}}
SHARING = {"name": "a", "exactly": {"capacity": {"requests": {"m": "1"}}, "count": 1}}
REPORT = {"driver": "d", "shareID": "s"}


@pytest.mark.parametrize(
    ("new", "kept"),
    [
        pytest.param(claim(TOLERATING), claim(PLAIN), id="in a list"),
        pytest.param(claim(PLAIN, TOLERATING), claim(PLAIN, PLAIN), id="in each item"),
        pytest.param(claim(TOLERATING | {"x": 1}), claim(PLAIN | {"x": 1}), id="nothing beside it"),
        pytest.param(claim(devices=[REPORT]), claim(), id="with all that is inside"),
        pytest.param({"spec": None}, {"spec": None}, id="where there is nothing"),
    ],
)
def test_what_is_switched_off_is_dropped(new: dict[str, Any], kept: dict[str, Any]) -> None:
    assert dropped(new, None, OFF) == kept
    assert dropped(new, {}, OFF) == kept


def test_what_is_switched_on_stays() -> None:
    new = claim(TOLERATING, SHARING, devices=[REPORT])
    assert dropped(new, None, ON) == new


def test_what_the_object_uses_already_stays() -> None:
    assert dropped(claim(TOLERATING), claim(TOLERATING), OFF) == claim(TOLERATING)


def test_another_field_of_the_gate_in_use_is_enough() -> None:
    old = {"spec": {"devices": {"constraints": [{"distinctAttribute": "a"}]}}}
    assert dropped(claim(SHARING), old, OFF) == claim(SHARING)


def test_a_field_of_another_gate_in_use_is_not() -> None:
    assert dropped(claim(SHARING), claim(TOLERATING), OFF) == claim(PLAIN)

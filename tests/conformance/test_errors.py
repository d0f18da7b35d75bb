"""Errors against the Status objects a real API server answered with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dray.api import errors
from dray.api.ids import GroupKind
from tests.recorded import GOLDEN


def recorded_statuses() -> Iterator[Any]:
    for directory in GOLDEN.parents("*/status.json"):
        for number, answer in enumerate(GOLDEN.json(f"{directory}/status.json")):
            status = answer["body"]
            if isinstance(status, dict) and status.get("status") == "Failure":
                yield pytest.param(status, id=f"{directory}-{number}")


STATUSES = list(recorded_statuses())


@pytest.mark.parametrize("status", STATUSES)
def test_a_recorded_status_survives(status: dict[str, Any]) -> None:
    error = errors.from_status(status)
    assert type(error).__name__ == status["reason"]
    assert errors.to_status(error) == status


@pytest.mark.parametrize("status", STATUSES)
def test_an_invalid_object_is_worded_as_recorded(status: dict[str, Any]) -> None:
    recorded = errors.from_status(status)
    if not isinstance(recorded, errors.Invalid) or recorded.details is None:
        return
    kind = GroupKind(recorded.details.group, recorded.details.kind)
    made = errors.invalid(kind, recorded.details.name, recorded.causes)
    assert made.message == recorded.message

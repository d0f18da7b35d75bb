"""Rules for LimitRange."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validation import objects

PATH = "spec.limits[0]"


def limit_range(*items: Any) -> Any:
    spec = {"limits": list(items)}
    return objects.decode({"kind": "LimitRange", "metadata": objects.metadata(), "spec": spec})


@pytest.mark.parametrize(
    "item",
    [
        {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}, "min": {"cpu": "1m"}},
        {"type": "Pod", "max": {"memory": "1Gi"}, "maxLimitRequestRatio": {"memory": "3"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}},
        {"type": "example.com/thing", "max": {"example.com/gpu": "2"}},
    ],
)
def test_what_is_valid(item: Any) -> None:
    assert not objects.created("LimitRange", limit_range(item))


@pytest.mark.parametrize(
    ("item", "errors"),
    [
        (
            {"type": "Thing"},
            ['type: Invalid value: "Thing": must be a standard limit type or fully qualified'],
        ),
        (
            {"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}},
            [
                "default: Forbidden: may not be specified when `type` is 'Pod'",
                "defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
            ],
        ),
        (
            {"type": "Pod", "max": {"secrets": "1"}},
            ['max[secrets]: Invalid value: "secrets": must be a standard resource for containers'],
        ),
        (
            {"type": "PersistentVolumeClaim"},
            [
                "limits: Required value: either minimum or maximum storage value is required, "
                "but neither was provided"
            ],
        ),
        (
            {"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}},
            ['min[cpu]: Invalid value: "2": min value 2 is greater than max value 1'],
        ),
        (
            {
                **{"type": "Container", "defaultRequest": {"cpu": "1"}},
                **{"default": {"cpu": "3"}, "max": {"cpu": "2"}},
            },
            ['default[cpu]: Invalid value: "2": default value 3 is greater than max value 2'],
        ),
        (
            {"type": "Container", "defaultRequest": {"cpu": "3"}, "default": {"cpu": "2"}},
            [
                'defaultRequest[cpu]: Invalid value: "3": '
                "default request value 3 is greater than default limit value 2"
            ],
        ),
        (
            {"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}},
            ['maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1'],
        ),
        (
            {
                **{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}},
                "maxLimitRequestRatio": {"cpu": "4"},
            },
            [
                'maxLimitRequestRatio[cpu]: Invalid value: "4": '
                "ratio 4 is greater than max/min = 2.000000"
            ],
        ),
        (
            {
                **{"type": "Container", "default": {"example.com/gpu": "2"}},
                "defaultRequest": {"example.com/gpu": "1"},
            },
            [
                'defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal '
                "to defaultRequest value 1 in example.com/gpu"
            ],
        ),
    ],
)
def test_what_is_not(item: Any, errors: list[str]) -> None:
    expected = [f"{PATH}.{error}" for error in errors]
    assert objects.created("LimitRange", limit_range(item)) == expected
    assert objects.updated("LimitRange", limit_range(item), limit_range()) == expected


def test_each_type_is_limited_once() -> None:
    item = {"type": "Pod", "max": {"cpu": "1"}}
    assert objects.created("LimitRange", limit_range(item, item)) == [
        'spec.limits[1].type: Duplicate value: "Pod"'
    ]

"""Corrections that are made from the text of a selector alone, each of which compiles."""

from __future__ import annotations

import pytest

from dray.api import features
from dray.explain.selectors import expressions, repairs, text_corrections

ATTRIBUTE = 'device.attributes["gpu.nvidia.com"]'


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (f'{ATTRIBUTE}.type == "gpu" &&', f'{ATTRIBUTE}.type == "gpu"'),
        (f'{ATTRIBUTE}.type in "gpu"', f'{ATTRIBUTE}.type == "gpu"'),
        (f'{ATTRIBUTE}.type.matches("*gp*")', f'{ATTRIBUTE}.type.contains("gp")'),
        (
            f'{ATTRIBUTE}.version >= semver("1.0.0")',
            f'{ATTRIBUTE}.version.compareTo(semver("1.0.0")) >= 0',
        ),
        ('device.attributes.gpu.nvidia.com.type == "gpu"', f'{ATTRIBUTE}.type == "gpu"'),
        (f'{ATTRIBUTE}.type.regex("g.u")', f'{ATTRIBUTE}.type.matches("g.u")'),
    ],
)
def test_a_correction_compiles(written: str, meant: str) -> None:
    assert meant in [found.text for found in text_corrections.corrections(written)]
    assert expressions.compiled(meant, features.DEFAULT).error is None


def test_what_repairs_cannot_do_is_corrected_by_text() -> None:
    text = f'{ATTRIBUTE}.type.matches("*gp*")'
    assert repairs.repaired(text, (), features.DEFAULT) == f'{ATTRIBUTE}.type.contains("gp")'


def test_a_domain_is_added_where_none_is_written() -> None:
    (found,) = text_corrections.with_domain('device.attributes.type == "gpu"', "gpu.nvidia.com")
    assert found.text == f'{ATTRIBUTE}.type == "gpu"'
    assert not list(text_corrections.with_domain(found.text, "other"))


@pytest.mark.parametrize(
    ("text", "driver", "new"),
    [
        ('device.driver == "a.com"', "a.com", ['device.driver == "b.com"']),
        ("device.driver == 'a.com' && true", "a.com", ['device.driver == "b.com" && true']),
        ('device.driver == "b.com"', "b.com", []),
        ("true", "", []),
    ],
)
def test_a_driver_is_found_and_replaced(text: str, driver: str, new: list[str]) -> None:
    assert expressions.driver_of(text) == driver
    assert expressions.with_driver(text, "b.com") == new

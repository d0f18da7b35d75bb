"""Selectors with mistakes of other languages are repaired, or left alone if nothing compiles."""

from __future__ import annotations

import pytest

from dray.api.features import DEFAULT
from dray.explain.selectors import expressions, repairs
from dray.explain.selectors.expressions import ATTRIBUTES, CAPACITY, SelectorSubject
from tests.builders import DRIVER

PUBLISHED = [
    SelectorSubject(ATTRIBUTES, DRIVER, "productName"),
    SelectorSubject(ATTRIBUTES, DRIVER, "healthy"),
    SelectorSubject(CAPACITY, DRIVER, "memory"),
]
NAME = f'device.attributes["{DRIVER}"].productName'
HEALTHY = f'device.attributes["{DRIVER}"].healthy'
MEMORY = f'device.capacity["{DRIVER}"].memory'


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        (f'{NAME} = "H100"', f'{NAME} == "H100"'),
        (f'{NAME} === "H100"', f'{NAME} == "H100"'),
        (f'{NAME} <> "a = b"', f'{NAME} != "a = b"'),
        (f'{HEALTHY} and {NAME} == "H100"', f'{HEALTHY} && {NAME} == "H100"'),
        (f'{HEALTHY} & {NAME} == "H100"', f'{HEALTHY} && {NAME} == "H100"'),
        (f'{NAME} == "A" or {NAME} == "B"', f'{NAME} == "A" || {NAME} == "B"'),
        (f"not {HEALTHY}", f"!{HEALTHY}"),
        (f"{HEALTHY} == True", f"{HEALTHY} == true"),
        (f'{NAME} == "H100', f'{NAME} == "H100"'),
        (f'({NAME} == "H100"', f'({NAME} == "H100")'),
        (f'{NAME}.startswith("H")', f'{NAME}.startsWith("H")'),
        (f"{NAME} == \u201cH100\u201d", f'{NAME} == "H100"'),
        (f'device.attributes[{DRIVER}].productName == "H100"', f'{NAME} == "H100"'),
        (f'device.attributes["{DRIVER}/productName"] == "H100"', f'{NAME} == "H100"'),
        (f'device.attribute["{DRIVER}"].productName == "H100"', f'{NAME} == "H100"'),
        ('device.productName == "H100"', f'{NAME} == "H100"'),
        ('device.attributes.productName == "H100"', f'{NAME} == "H100"'),
        (f'{MEMORY} >= "40Gi"', f'{MEMORY}.compareTo(quantity("40Gi")) >= 0'),
        (f"{MEMORY} >= 40Gi", f'{MEMORY}.compareTo(quantity("40Gi")) >= 0'),
        (f"{NAME} == H100", f'{NAME} == "H100"'),
        (f'attributes["{DRIVER}"].productName == "H100"', f'{NAME} == "H100"'),
        (f'device.attributes["{DRIVER}".productName == "H100"', f'{NAME} == "H100"'),
        (f'{MEMORY} >= "40 GB"', f'{MEMORY}.compareTo(quantity("40G")) >= 0'),
    ],
)
def test_a_mistake_is_repaired(text: str, repaired: str) -> None:
    assert expressions.compiled(text, DEFAULT).error is not None
    assert repairs.repaired(text, PUBLISHED, DEFAULT) == repaired
    assert expressions.compiled(repaired, DEFAULT).error is None


@pytest.mark.parametrize("text", ["", "))", "device.nosuch == 1", "give me a GPU"])
def test_a_text_that_cannot_be_guessed_is_left_alone(text: str) -> None:
    assert repairs.repaired(text, PUBLISHED, DEFAULT) is None

"""Selectors with random mistakes: every suggestion that is printed compiles and fits."""

from __future__ import annotations

import random
import re

import hypothesis
from hypothesis import strategies as st

from dray.allocator.placement import Allocator, Fit
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Outcome
from dray.explain.selectors import expressions
from dray.explain.suggestions import changes
from dray.explain.suggestions.changes import SuggestedChange
from dray.explain.text import explanation_text
from tests import rounds
from tests.builders import DRIVER, claim, cluster_inventory, gpu, request, resource_slice

NAME = f'device.attributes["{DRIVER}"].productName'
MEMORY = f'device.capacity["{DRIVER}"].memory'
CLAUSES = (
    f'{NAME} == "H100"',
    f'{NAME}.startsWith("H")',
    f'{MEMORY}.compareTo(quantity("40Gi")) >= 0',
    f'{MEMORY}.isGreaterThan(quantity("40Gi"))',
    f'device.attributes["{DRIVER}"].driverVersion.compareTo(semver("550.0.0")) >= 0',
    f'device.attributes["{DRIVER}"].index < 2',
    f'device.attributes["{DRIVER}"].healthy',
)
MISTAKES = (
    ("==", "="),
    ("&&", "and"),
    ("attributes", "capacity"),
    ("capacity", "attributes"),
    ("attributes", "attribute"),
    (r'\.compareTo\(\w+\(("[^"]*")\)\) (\S+) 0', r" \2 \1"),
    (r'\.compareTo\(\w+\("(\d+)[^"]*"\)\) (\S+) 0', r" \2 \1"),
    (r'semver\("550\.0\.0"\)', 'semver("550")'),
    ("< 2", '< "2"'),
    ("productName", "productname"),
    (re.escape(DRIVER), "example.com"),
    ("startsWith", "startswith"),
    ('"H100"', '"h100"'),
    (r"\)$", ""),
    ("40Gi", "40GB"),
    ("40Gi", "4000Gi"),
    (rf'device\.attributes\["{DRIVER}"\]', "device.attributes"),
)


def selectors_of(change: SuggestedChange) -> list[str]:
    if isinstance(change, changes.Combined):
        return [text for part in change.parts for text in selectors_of(part)]
    return [change.replacement] if isinstance(change, changes.ReplaceSelector) else []


@rounds.examples(100, long=3000)
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
def test_every_suggestion_compiles_and_fits(seed: int) -> None:
    dice = random.Random(seed)
    text = " && ".join(dice.sample(CLAUSES, dice.randint(1, 2)))
    for pattern, replacement in dice.sample(MISTAKES, dice.randint(1, 3)):
        text = re.sub(pattern, replacement, text)
    numbered = [
        gpu(f"gpu-{n}", attributes={"index": n, "healthy": True}, product=("H100", "A100")[n % 2])
        for n in range(3)
    ]
    cluster = cluster_inventory(resource_slice(*numbered))
    claims = [claim(request("gpu", text))]
    explanation = claim_explanation.explain(cluster, claims, new_share_id=lambda: "share")
    if explanation.outcome is Outcome.FITS:
        return
    assert explanation.changes, text
    for change in explanation.changes:
        assert "fits on" in explanation_text.text(explanation)
        for selector in selectors_of(change):
            assert expressions.compiled(selector, cluster.features).error is None, selector
        with change.applied_in(cluster):
            allocator = Allocator(cluster, new_share_id=lambda: "share")
            result = allocator.allocate_on(change.applied_to(claims), change.node)
        assert isinstance(result, Fit), (text, change)

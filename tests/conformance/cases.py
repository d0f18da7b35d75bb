"""Recorded problems as parameters of tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests import recorded


def parameters(stem: str, name: Callable[[dict[str, Any]], str] | None = None) -> list[Any]:
    """Return a parameter per line of `stem`.jsonl; a single skipped one where it is absent."""
    file = f"{stem}.jsonl"
    if not recorded.CASES.has(file):
        skip = pytest.mark.skip(recorded.CASES.why_absent(file))
        return [pytest.param(None, id="absent", marks=skip)]
    seen: Counter[str] = Counter()
    found = []
    for case in recorded.CASES.lines(file):
        label = name(case) if name else str(case["name"])
        seen[label] += 1
        found.append(pytest.param(case, id=label if seen[label] == 1 else f"{label}#{seen[label]}"))
    return found

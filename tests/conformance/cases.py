"""Reads Kubernetes' own test tables, recorded as JSON lines, from `$DRAY_CASES`."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CASES = Path(os.environ.get("DRAY_CASES", Path(__file__).parents[3] / "shared" / "cases"))


def parameters(stem: str, name: Callable[[dict[str, Any]], str] | None = None) -> list[Any]:
    """One pytest parameter per line of `stem`.jsonl; a single skipped one where it is absent."""
    path = CASES / f"{stem}.jsonl"
    if not path.exists():
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(f"{path} is absent"))]
    cases = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
    seen: Counter[str] = Counter()
    found = []
    for case in cases:
        label = name(case) if name else str(case["name"])
        seen[label] += 1
        found.append(pytest.param(case, id=label if seen[label] == 1 else f"{label}#{seen[label]}"))
    return found

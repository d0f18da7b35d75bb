"""The mix of requests that fragmentation is measured with, and the score of its growth.

"Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, has the definitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

_COVERED = 0.95
"""The most common requests that make up this share of all are the mix."""

_LARGEST_GROWTH = 700.0
"""Scores of more are zero as well, but the exponential function would overflow."""

Request = TypeVar("Request")


def most_common(
    counts: Mapping[Request, int], order: Callable[[Request], Any]
) -> dict[Request, float]:
    """Return the most common requests with their weights; `order` decides between equal counts."""
    total = sum(counts.values())
    covered, chosen = 0, []
    for request in sorted(counts, key=lambda request: (-counts[request], order(request))):
        if covered >= _COVERED * total:
            break
        covered += counts[request]
        chosen.append(request)
    return {request: counts[request] / covered for request in chosen}


def score(growth: float, highest: int) -> float:
    """Return the score of a growth in devices: half of the highest where there is none."""
    return highest / (1 + math.exp(min(growth, _LARGEST_GROWTH)))

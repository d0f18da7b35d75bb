"""How a pod is told its place in line."""

from __future__ import annotations

import pytest

from dray.explain.pod import waiting_line


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        (0, ""),
        (1, "It is 2nd in line for these devices, after pod default/p0."),
        (2, "It is 3rd in line for these devices, after pods default/p0 and default/p1."),
        (10, "At least 10 pods are ahead of it in line for the same devices."),
    ],
)
def test_the_place_is_exact_near_the_head_of_the_line(ahead: int, told: str) -> None:
    assert waiting_line.place_in_line([f"default/p{n}" for n in range(ahead)]) == told

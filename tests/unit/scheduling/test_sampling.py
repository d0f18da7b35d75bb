"""How many fitting nodes kube-scheduler looks for."""

from __future__ import annotations

import pytest

from dray.scheduling import sampling


@pytest.mark.parametrize(
    ("nodes", "compared"),
    [(5, 5), (99, 99), (100, 100), (1000, 420), (5000, 500), (10_000, 500)],
)
def test_as_many_nodes_are_compared_as_upstream_does(nodes: int, compared: int) -> None:
    assert sampling.nodes_to_find(nodes) == compared

"""How long pods tolerate taints of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.semantics import node_taints
from dray.api.types.nodes import Taint
from dray.api.types.pods import Toleration


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        pytest.param([], 0.0, id="none"),
        pytest.param([Toleration(operator="Exists")], node_taints.FOREVER, id="everything"),
        pytest.param([Toleration(key="k", value="v")], node_taints.FOREVER, id="equal"),
        pytest.param([Toleration(key="k", value="w")], 0.0, id="another value"),
        pytest.param([Toleration(value="v")], node_taints.FOREVER, id="equal without a key"),
        pytest.param([Toleration(key="k", operator="Like", value="v")], 0.0, id="unknown operator"),
        pytest.param(
            [
                Toleration(key="k", operator="Exists", toleration_seconds=30),
                Toleration(key="k", operator="Exists", toleration_seconds=10),
            ],
            10.0,
            id="the shortest counts",
        ),
        pytest.param(
            [Toleration(key="k", operator="Exists", effect="NoSchedule")], 0.0, id="other effect"
        ),
    ],
)
def test_how_long_a_taint_is_tolerated(tolerations: Any, seconds: float) -> None:
    taint = Taint(key="k", value="v", effect="NoExecute")
    assert node_taints.tolerated_seconds(tolerations, [taint]) == seconds

"""`dray history`: which words and times it takes."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import run


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["gpu-0/gpu-1"], "Write: dray history device gpu-0/gpu-1"),
        (["pod", "train"], "NODE/DEVICE; events of others: dray events --for pod/train"),
        (["pods/train"], "NODE/DEVICE; events of others: dray events --for pods/train"),
        (["resourceclaim/train"], "Write: dray history claim train"),
        (["nodes", "gpu-0"], "Write: dray history node gpu-0"),
    ],
)
def test_what_has_no_history_is_refused(arguments: list[str], advice: str) -> None:
    asked = run("history", *arguments)
    assert asked.exit_code == 2
    assert advice in asked.output

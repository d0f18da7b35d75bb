"""`dray bench startup` measures what it names."""

from __future__ import annotations

import json

from tests.unit.cli.conftest import run


def test_every_command_has_an_elapsed_and_a_cpu_time() -> None:
    result = run("bench", "startup", "--runs", "1", "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["runs"] == 1
    for name in ("get_pods", "get_devices", "explain", "version"):
        assert figures[f"{name}_s"] >= 0.5 * figures[f"{name}_cpu_s"] > 0

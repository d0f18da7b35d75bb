"""What a driver counts."""

from __future__ import annotations

from dray.driverkit.metrics import Metrics
from dray.telemetry import Registry


def test_outcomes_are_counted_apart() -> None:
    registry = Registry()
    counted = Metrics("d.example.com", registry, lambda: 3)
    with counted.timed("prepare"):
        pass
    with counted.timed("prepare") as timing:
        timing.has_failed = True
    text = registry.render()
    for outcome in ("ok", "error"):
        labels = f'driver="d.example.com",operation="prepare",outcome="{outcome}"'
        assert f"dray_driver_operation_seconds_count{{{labels}}} 1" in text
    assert 'dray_driver_prepared_claims{driver="d.example.com"} 3' in text

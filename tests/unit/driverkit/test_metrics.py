"""What a driver counts and shows."""

from __future__ import annotations

import asyncio

import aiohttp

from dray.driverkit import metrics
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


def test_probes_and_metrics_are_served() -> None:
    async def test() -> list[int]:
        is_ready = False
        registry = Registry()
        counted = Metrics("d.example.com", registry, lambda: 0)
        counted.registrations.add("d.example.com")
        async with (
            metrics.serving(registry, 0, lambda: is_ready) as port,
            aiohttp.ClientSession() as session,
        ):

            async def ask(path: str) -> tuple[int, str]:
                async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                    return answer.status, await answer.text()

            codes = [(await ask(path))[0] for path in ("/healthz", "/readyz", "/elsewhere")]
            is_ready = True
            codes.append((await ask("/readyz"))[0])
            assert "dray_driver_registrations_total" in (await ask("/metrics"))[1]
        return codes

    assert asyncio.run(test()) == [200, 503, 404, 200]

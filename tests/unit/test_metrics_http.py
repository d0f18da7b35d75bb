"""What a process shows of itself over HTTP."""

from __future__ import annotations

import asyncio
import os
import re

import aiohttp
import pytest

from dray import metrics_http
from dray.telemetry import Counter, Registry


@pytest.mark.parametrize("host", ["127.0.0.1", metrics_http.EVERY_ADDRESS])
def test_probes_and_metrics_are_served(host: str) -> None:
    async def test() -> list[int]:
        is_ready = False
        registry = Registry()
        counter = Counter("things_total", "Things.")
        registry.register(counter)
        counter.add()
        async with (
            metrics_http.serving(registry, host, 0, lambda: is_ready) as port,
            aiohttp.ClientSession() as session,
        ):

            async def ask(path: str) -> tuple[int, str]:
                async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                    return answer.status, await answer.text()

            paths = ("/livez", "/healthz", "/readyz", "/elsewhere")
            codes = [(await ask(path))[0] for path in paths]
            is_ready = True
            codes.append((await ask("/readyz"))[0])
            assert (await ask("/metrics"))[1].endswith("things_total 1\n")
        return codes

    assert asyncio.run(test()) == [200, 200, 503, 404, 200]


def test_what_is_taken_cannot_be_listened_on() -> None:
    async def test() -> None:
        async with (
            metrics_http.serving(Registry(), "127.0.0.1", 0, lambda: True) as port,
            metrics_http.serving(Registry(), "127.0.0.1", port, lambda: True),
        ):
            raise AssertionError(port)

    with pytest.raises(OSError, match="in use"):
        asyncio.run(test())


def test_a_process_says_what_it_uses() -> None:
    registry = Registry()
    metrics_http.register_process(registry)
    text = registry.render()
    assert "# TYPE process_cpu_seconds_total counter" in text
    found = re.search(r"^process_resident_memory_bytes (\d+)$", text, re.MULTILINE)
    assert found is not None
    assert int(found[1]) > os.sysconf("SC_PAGE_SIZE")

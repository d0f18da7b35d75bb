"""What a driver counts, and the small HTTP server that shows it to Prometheus and to probes."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass

from aiohttp import web

from dray.driverkit.driver import Health
from dray.telemetry import Counter, Gauge, Histogram, Registry


@dataclass
class Timing:
    has_failed: bool = False


class Metrics:
    """The metrics of one driver in a registry that may hold those of others."""

    def __init__(self, driver: str, registry: Registry, prepared: Callable[[], int]) -> None:
        self._driver = driver
        self._operations = Histogram(
            "dray_driver_operation_seconds",
            "How long claims take to be prepared and unprepared.",
            ("driver", "operation", "outcome"),
        )
        self.registrations = Counter(
            "dray_driver_registrations_total",
            "How often a node agent has taken the driver on.",
            ("driver",),
        )
        self.faults = Counter(
            "dray_driver_faults_total",
            "How often the driver failed to say what devices there are or how they are.",
            ("driver",),
        )
        self.devices = Gauge(
            "dray_driver_devices", "Devices that there are, by health.", ("driver", "health")
        )
        claims = Gauge(
            "dray_driver_prepared_claims",
            "Claims that are prepared on this node.",
            ("driver",),
            ask=lambda: [((driver,), prepared())],
        )
        registry.register(self._operations, self.registrations, self.faults, self.devices, claims)

    @contextlib.contextmanager
    def timed(self, operation: str) -> Iterator[Timing]:
        timing, started = Timing(), time.perf_counter()
        yield timing
        outcome = "error" if timing.has_failed else "ok"
        self._operations.observe(time.perf_counter() - started, self._driver, operation, outcome)

    def count_devices(self, by_health: Mapping[str, int]) -> None:
        for health in Health:
            name = health.name.lower()
            self.devices.set(self._driver, name, to=by_health.get(name, 0))


@contextlib.asynccontextmanager
async def serving(
    registry: Registry, port: int, is_ready: Callable[[], bool]
) -> AsyncIterator[int]:
    """`/metrics`, `/healthz` and `/readyz` on a port of this machine; 0 is any that is free."""

    async def answer(request: web.BaseRequest) -> web.Response:
        match request.path:
            case "/metrics":
                return web.Response(text=registry.render())
            case "/healthz":
                return web.Response(text="ok")
            case "/readyz":
                return web.Response(text="ok") if is_ready() else web.Response(status=503)
        return web.Response(status=404)

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    try:
        listener = _listener(port)
        await web.SockSite(runner, listener).start()
        yield int(listener.getsockname()[1])
    finally:
        await runner.cleanup()


def _listener(port: int) -> socket.socket:
    """On every address of this machine, of either kind where it has both."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))

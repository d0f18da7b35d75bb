"""The metrics of a driver."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dray.driverkit.driver import Health
from dray.telemetry import Counter, Gauge, Histogram, Registry


@dataclass
class CallTiming:
    has_failed: bool = False


class Metrics:
    """The metrics of one driver in a registry that may hold those of others."""

    def __init__(self, driver: str, registry: Registry, prepared: Callable[[], int]) -> None:
        self._driver = driver
        self._operations = Histogram(
            "dray_driver_operation_seconds",
            "Time to prepare and unprepare claims.",
            ("driver", "operation", "outcome"),
        )
        self.registrations = Counter(
            "dray_driver_registrations_total",
            "Registrations with a node agent.",
            ("driver",),
        )
        self.faults = Counter(
            "dray_driver_faults_total",
            "Exceptions of devices() and health().",
            ("driver",),
        )
        self.devices = Gauge("dray_driver_devices", "Devices by health.", ("driver", "health"))
        claims = Gauge(
            "dray_driver_prepared_claims",
            "Prepared claims on this node.",
            ("driver",),
            ask=lambda: [((driver,), prepared())],
        )
        registry.register(self._operations, self.registrations, self.faults, self.devices, claims)

    @contextlib.contextmanager
    def timed(self, operation: str) -> Iterator[CallTiming]:
        timing, started = CallTiming(), time.perf_counter()
        yield timing
        outcome = "error" if timing.has_failed else "ok"
        self._operations.observe(time.perf_counter() - started, self._driver, operation, outcome)

    def count_devices(self, by_health: Mapping[str, int]) -> None:
        for health in Health:
            name = health.name.lower()
            self.devices.set(self._driver, name, to=by_health.get(name, 0))

"""Probes: when they run, what their thresholds make of the results, and what an action can do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from dray.api.types.containers import Container, Probe
from dray.node.pods.pod_status import ObservedContainer
from dray.node.pods.probes import Actions, Prober
from tests import virtualtime

EXEC = {"exec": {"command": ["check"]}}
LOOPBACK = "127.0.0.1"


class Probed:
    """A container whose command answers with `codes`, the last one again and again."""

    def __init__(self, codes: Iterable[int], *, seconds: float = 0.0, **probes: Any) -> None:
        self._codes = list(codes)
        self._seconds = seconds
        self.times: list[float] = []
        self.changes: list[tuple[float, bool]] = []
        self.given_up: list[tuple[float, str]] = []
        self.observed = ObservedContainer()
        container = msgspec.convert({"name": "main", **probes}, Container)
        actions = Actions(container, LOOPBACK, self._execute)
        self._prober = Prober(actions, self.observed, self._changed, self._dead)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def probe(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._prober.run()

    async def _execute(self, _argv: tuple[str, ...]) -> int:
        self.times.append(self.now)
        code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
        await asyncio.sleep(self._seconds)
        return code

    def _changed(self) -> None:
        self.changes.append((self.now, self.observed.is_ready))

    def _dead(self, reason: str) -> None:
        self.given_up.append((self.now, reason))


def probed(codes: Iterable[int], *, until: float, **options: Any) -> Probed:
    async def run() -> Probed:
        container = Probed(codes, **options)
        await container.probe(until)
        return container

    return virtualtime.run(run())


def test_without_probes_a_container_is_started_and_ready_at_once() -> None:
    container = probed([0], until=1)
    assert container.observed.is_started
    assert container.changes == [(0, True)]


def test_the_first_probe_comes_after_the_initial_delay_the_next_after_the_period() -> None:
    readiness = {**EXEC, "initialDelaySeconds": 7, "periodSeconds": 5}
    container = probed([0], until=20, readinessProbe=readiness)
    assert container.times == [7, 12, 17]
    assert container.changes == [(7, True)]


def test_the_period_is_ten_seconds_unless_the_probe_says_otherwise() -> None:
    assert probed([0], until=25, readinessProbe=EXEC).times == [0, 10, 20]


def test_a_container_is_unready_until_its_readiness_probe_succeeds() -> None:
    container = probed([1, 1, 0], until=25, readinessProbe=EXEC)
    assert container.observed.is_started
    assert container.changes == [(20, True)]


@pytest.mark.parametrize(
    ("fields", "unready_at"),
    [
        pytest.param({}, [30], id="default-three"),
        pytest.param({"failureThreshold": 1}, [10], id="one"),
        pytest.param({"failureThreshold": 2}, [20], id="two"),
    ],
)
def test_a_ready_container_is_unready_after_failures_in_a_row(
    fields: dict[str, int], unready_at: list[float]
) -> None:
    container = probed([0, 1], until=45, readinessProbe={**EXEC, **fields})
    assert [time for time, ready in container.changes if not ready] == unready_at


def test_a_success_in_between_starts_the_count_of_failures_again() -> None:
    container = probed([0, 1, 1, 0, 1, 1, 0], until=100, readinessProbe=EXEC)
    assert container.changes == [(0, True)]


def test_a_success_threshold_wants_successes_in_a_row() -> None:
    readiness = {**EXEC, "successThreshold": 3}
    container = probed([0, 0, 1, 0, 0, 0], until=100, readinessProbe=readiness)
    assert container.changes == [(50, True)]


def test_a_failed_liveness_probe_gives_the_container_up_once() -> None:
    container = probed([0, 1], until=100, livenessProbe=EXEC)
    assert container.given_up == [(30, "Liveness probe failed")]
    assert container.times == [0, 10, 20, 30]


def test_liveness_does_not_change_readiness() -> None:
    container = probed([1], until=100, livenessProbe={**EXEC, "failureThreshold": 100})
    assert container.changes == [(0, True)]


def test_the_other_probes_wait_for_the_startup_probe() -> None:
    startup = {**EXEC, "periodSeconds": 1}
    container = probed([1, 1, 0], until=12, startupProbe=startup, readinessProbe=EXEC)
    assert container.times == [0, 1, 2, 2]
    assert container.changes == [(2, True)]


def test_a_container_is_not_started_before_its_startup_probe_succeeds() -> None:
    startup = {**EXEC, "failureThreshold": 100}
    container = probed([1], until=500, startupProbe=startup)
    assert not container.observed.is_started
    assert container.changes == []
    assert container.given_up == []


def test_a_failed_startup_probe_gives_the_container_up() -> None:
    startup = {**EXEC, "failureThreshold": 2}
    container = probed([1], until=100, startupProbe=startup, livenessProbe=EXEC)
    assert container.given_up == [(10, "Startup probe failed")]
    assert container.times == [0, 10]


@pytest.mark.parametrize(
    ("fields", "seconds", "ready"),
    [
        pytest.param({}, 0.9, True, id="default-in-time"),
        pytest.param({}, 1.1, False, id="default-late"),
        pytest.param({"timeoutSeconds": 5}, 4.9, True, id="in-time"),
        pytest.param({"timeoutSeconds": 5}, 5.1, False, id="late"),
    ],
)
def test_an_action_that_takes_too_long_has_failed(
    fields: dict[str, int], seconds: float, ready: bool
) -> None:
    container = probed([0], until=8, seconds=seconds, readinessProbe={**EXEC, **fields})
    assert container.observed.is_ready is ready


def _succeeds(action: dict[str, Any], **fields: Any) -> bool:
    async def execute(_argv: tuple[str, ...]) -> int:
        raise LookupError("the container does not run")

    async def run() -> bool:
        container = msgspec.convert({"name": "main", **fields}, Container)
        probe = msgspec.convert(action, Probe)
        return await Actions(container, LOOPBACK, execute).succeeds(probe, 5)

    return asyncio.run(run())


def test_an_action_that_cannot_be_taken_has_failed() -> None:
    assert not _succeeds(EXEC)
    assert not _succeeds({})
    assert not _succeeds({"tcpSocket": {"port": "unknown"}}, ports=[{"name": "known"}])


@pytest.mark.parametrize(
    ("status", "succeeds"), [(200, True), (302, True), (399, True), (400, False), (500, False)]
)
def test_an_http_action_succeeds_below_400(status: int, succeeds: bool) -> None:
    seen: list[tuple[str, str]] = []

    async def serve(request: web.BaseRequest) -> web.Response:
        seen.append((request.path, request.headers.get("x-probe", "")))
        return web.Response(status=status, headers={"location": "/elsewhere"})

    async def run() -> bool:
        runner = web.ServerRunner(web.Server(serve))
        await runner.setup()
        try:
            await web.TCPSite(runner, LOOPBACK, 0).start()
            ports = [{"name": "web", "containerPort": runner.addresses[0][1]}]
            container = msgspec.convert({"name": "main", "ports": ports}, Container)
            headers = [{"name": "x-probe", "value": "yes"}]
            get = {"port": "web", "path": "/ready", "httpHeaders": headers}
            probe = msgspec.convert({"httpGet": get}, Probe)
            return await Actions(container, LOOPBACK, _never).succeeds(probe, 10)
        finally:
            await runner.cleanup()

    assert asyncio.run(run()) is succeeds
    assert seen == [("/ready", "yes")]


def test_a_tcp_action_succeeds_where_somebody_listens() -> None:
    async def run() -> tuple[bool, bool]:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), LOOPBACK, 0)
        port = server.sockets[0].getsockname()[1]
        probe = msgspec.convert({"tcpSocket": {"port": port}}, Probe)
        actions = Actions(Container("main"), LOOPBACK, _never)
        open_ = await actions.succeeds(probe, 10)
        server.close()
        await server.wait_closed()
        return open_, await actions.succeeds(probe, 10)

    assert asyncio.run(run()) == (True, False)


async def _never(_argv: tuple[str, ...]) -> int:
    raise AssertionError("no command is part of this probe")

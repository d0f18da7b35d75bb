"""`dray bench apiserver`: throughput of one API server on two cores, and its memory.

The server and its load are processes of their own, together on two cores. Every write is durable
before the response. On a machine with other work, compare rates per second of CPU time; the share
of the other work is reported with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dray import own_process
from dray.apiserver import standalone
from dray.bench import workload
from dray.bench.apiserver import load as server_load
from dray.client import kubeconfig, rest
from dray.client.api_client import Client

CORES = 2
CLIENTS = 8
STARTS = 5
LIST_ROUNDS = 5
CHANGES = 5


class BenchmarkSize(msgspec.Struct, frozen=True):
    """The amounts of everything; the targets are for the default."""

    pairs: int = 10_000
    """Claims and pods, each, to create over HTTPS; the claims are listed afterwards."""
    watchers: int = 10_000
    inside_pairs: int = 25_000
    """Claims and pods, each, to create without a socket, and then to allocate."""


FULL = BenchmarkSize()


class ServerMeasurement(msgspec.Struct, frozen=True):
    """One figure, its target, and figures measured beside it."""

    name: str
    value: float
    unit: str
    target: float
    at_least: bool = False
    details: dict[str, float] = {}

    @property
    def is_met(self) -> bool:
        return self.value >= self.target if self.at_least else self.value <= self.target


class Report(msgspec.Struct, frozen=True):
    cores: int
    size: BenchmarkSize
    measurements: tuple[ServerMeasurement, ...]

    def figures(self) -> dict[str, Any]:
        """Return the content of `--json`."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        for written, measurement in zip(built["measurements"], self.measurements, strict=True):
            written["is_met"] = measurement.is_met
        return built


def run(size: BenchmarkSize = FULL) -> Report:
    with _confined() as cores, tempfile.TemporaryDirectory(prefix="dray-bench-") as name:
        directory = Path(name)
        environment = _environment(directory)
        measurements = (
            _start(directory / "start", environment),
            *_outside(directory / "outside", environment, size),
            *_inside(directory / "inside", environment, size),
        )
    return Report(cores, size, measurements)


@contextlib.contextmanager
def _confined() -> Iterator[int]:
    """Use two cores, also for child processes. Yields the number of cores."""
    available = os.sched_getaffinity(0)
    used = sorted(available)[:CORES]
    os.sched_setaffinity(0, used)
    try:
        yield len(used)
    finally:
        os.sched_setaffinity(0, available)


def _environment(directory: Path) -> Mapping[str, str]:
    """Return variables for child processes. Bytecode is written on the first start."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(directory / "bytecode")}


class Busy:
    """CPU time that the machine spent on other work while a process was measured."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._started = time.perf_counter()
        self._own, self._all = cpu_seconds(pid), _machine_seconds()

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._pid) - self._own

    def others(self, own: float) -> float:
        """Return the share of the machine used by others, given the CPU time of our processes."""
        wall = (time.perf_counter() - self._started) * (os.cpu_count() or 1)
        return max(0.0, _machine_seconds() - self._all - own) / wall


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _machine_seconds() -> float:
    user, nice, system, _idle, _waiting, *rest_ = (
        int(ticks) for ticks in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + sum(rest_)) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def _process(
    module: str, *arguments: str, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*own_process.command(module), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise RuntimeError(f"{process.args!r} ended with {process.wait()}")
    return line


def _start(directory: Path, environment: Mapping[str, str]) -> ServerMeasurement:
    """Measure from the start of the interpreter to the first successful readiness check."""
    # The first start compiles the modules and makes keys, certificates and the store.
    first, *others = (_start_once(directory, environment) for _ in range(STARTS + 1))
    details = {"fastest": min(others), "first_ever": first}
    return ServerMeasurement("start to ready", statistics.median(others), "s", 0.7, details=details)


def _start_once(directory: Path, environment: Mapping[str, str]) -> float:
    started = time.perf_counter()
    with _process("dray.apiserver.standalone", str(directory), environment=environment) as server:
        _line(server)
        return time.perf_counter() - started


def _outside(
    directory: Path, environment: Mapping[str, str], size: BenchmarkSize
) -> Iterator[ServerMeasurement]:
    with _process("dray.apiserver.standalone", str(directory), environment=environment) as server:
        url = _line(server)
        path = directory / "bench.kubeconfig"
        kubeconfig.write(path, standalone.connection(directory, url, workload.USER))
        asyncio.run(_allow(directory))
        with _process("dray.bench.apiserver.load", str(path), environment=environment) as load:
            yield _creates(server, load, size)
            yield _list(load)
        # No other user may have that many connections.
        admin = str(directory / "kubeconfig")
        with _process("dray.bench.apiserver.load", admin, environment=environment) as load:
            yield _watch(load, size)


async def _allow(directory: Path) -> None:
    async with rest.RestTransport(kubeconfig.load(directory / "kubeconfig")) as transport:
        await workload.allow(Client(transport))


def _do(load: subprocess.Popen[str], task: server_load.Task) -> dict[str, Any]:
    assert load.stdin is not None
    load.stdin.write(msgspec.json.encode(task).decode() + "\n")
    load.stdin.flush()
    result: dict[str, Any] = msgspec.json.decode(_line(load))
    return result


def _creates(
    server: subprocess.Popen[str], load: subprocess.Popen[str], size: BenchmarkSize
) -> ServerMeasurement:
    busy, load_before = Busy(server.pid), cpu_seconds(load.pid)
    result = _do(load, server_load.CreateTask(CLIENTS, size.pairs))
    server_seconds = busy.cpu_seconds()
    load_seconds = cpu_seconds(load.pid) - load_before
    creates = result["creates"]
    details = {
        "clients": CLIENTS,
        "creates": creates,
        "per_server_cpu_second": creates / server_seconds,
        "p50_milliseconds": result["p50_milliseconds"],
        "p99_milliseconds": result["p99_milliseconds"],
        "share_of_others": busy.others(server_seconds + load_seconds),
    }
    rate = creates / result["seconds"]
    return ServerMeasurement("creates over HTTPS", rate, "/s", 800, True, details)


def _list(load: subprocess.Popen[str]) -> ServerMeasurement:
    result = _do(load, server_load.ListTask(LIST_ROUNDS))
    return ServerMeasurement(
        f"list of {result.pop('items'):,} claims", result.pop("seconds"), "s", 0.6, details=result
    )


def _watch(load: subprocess.Popen[str], size: BenchmarkSize) -> ServerMeasurement:
    result = _do(load, server_load.WatchTask(size.watchers, CHANGES))
    # Every change counts, and all watchers must have it.
    slowest, median = result["slowest_seconds"], result["seconds"]
    name = f"one change to {result['watchers']:,} watchers"
    details = {"median": median, "changes": CHANGES}
    return ServerMeasurement(name, slowest, "s", 1.0, details=details)


def _with_policies(result: Mapping[str, Any], without: Mapping[str, Any]) -> ServerMeasurement:
    """Return the rate with ten policies; `share` is that of the rate without, by CPU time."""
    per_cpu_second = result["creates"] / result["cpu_seconds"]
    details = {
        "creates": result["creates"],
        "per_cpu_second": per_cpu_second,
        "share": per_cpu_second * without["cpu_seconds"] / without["creates"],
    }
    rate = result["creates"] / result["seconds"]
    return ServerMeasurement("the same with ten policies", rate, "/s", 2100, True, details)


def _inside(
    directory: Path, environment: Mapping[str, str], size: BenchmarkSize
) -> Iterator[ServerMeasurement]:
    directory.mkdir()
    arguments = (str(directory), str(size.inside_pairs))
    module = "dray.bench.apiserver.in_process"
    with _process(module, *arguments, environment=environment) as inside:
        result = msgspec.json.decode(_line(inside))
    creates, pairs = result["creates"], result["pairs"]
    rate = creates / result["seconds"]
    details = {"creates": creates, "per_cpu_second": creates / result["cpu_seconds"]}
    yield ServerMeasurement("creates without a socket", rate, "/s", 2500, True, details)
    yield _with_policies(result["with_policies"], result)
    name = f"memory with {pairs:,} pods and {pairs:,} allocated claims"
    yield ServerMeasurement(name, result["megabytes"], "MB", 600)

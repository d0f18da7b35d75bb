"""`dray bench exporter`: memory and CPU time of `dray exporter` on a large cluster that changes.

The cluster and the exporter are processes of their own. A quarter of the GPUs are in use; pods end
and others start at a steady rate, and the metrics are read as Prometheus reads them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import msgspec

from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.bench.command_runs import COMMAND, Say, running_cluster
from dray.client import kubeconfig
from dray.client.api_client import Client
from dray.client.rest import RestTransport

FLEET = "h200"
CLASS = "gpu.nvidia.com"
NAMESPACE = "default"
SCRAPE_SECONDS = 15.0
DEADLINE_SECONDS = 1800.0
LOOK_SECONDS = 1.0
REST = 10
"""The pause between two looks at all claims, as a multiple of the time that one takes."""
CREATED_AT_ONCE = 32
MEBIBYTE = 1 << 20


class ExporterScale(msgspec.Struct, frozen=True):
    nodes: int = 5000
    """With eight GPUs each."""
    pods: int = 10_000
    """Pods with one GPU each."""
    changes: float = 10.0
    """Pods that end or start in a second."""
    seconds: float = 60.0


class Report(msgspec.Struct):
    nodes: int
    pods: int
    series: int
    ready_s: float
    """From the start of the process until all objects are read."""
    scrape_s: float
    """The longest time to read the metrics."""
    memory_mib: float
    peak_memory_mib: float
    cpu_percent: float
    """Of one core, while pods change and metrics are read."""


def run(scale: ExporterScale, say: Say = lambda _: None) -> Report:
    with tempfile.TemporaryDirectory(prefix="dray-bench-", ignore_cleanup_errors=True) as folder:
        directory = Path(folder)
        say(f"starting {scale.nodes} nodes")
        with running_cluster(directory, FLEET, scale.nodes):
            return asyncio.run(_measured(directory / "kubeconfig", scale, say))


async def _measured(path: Path, scale: ExporterScale, say: Say) -> Report:
    async with RestTransport(kubeconfig.load(path)) as transport, aiohttp.ClientSession() as http:
        client = Client(transport)
        await _prepare(client, scale, say)
        began = time.monotonic()
        with _exporter(path) as (process, url):
            await _until_ready(http, url)
            ready = time.monotonic() - began
            say("changing pods")
            await _scrape(http, url)
            cpu, began = _cpu_seconds(process.pid), time.monotonic()
            changing = asyncio.create_task(_change(client, scale))
            scraped = [await _scrape(http, url)]
            while time.monotonic() - began < scale.seconds:
                await asyncio.sleep(min(SCRAPE_SECONDS, scale.seconds))
                scraped.append(await _scrape(http, url))
            used = _cpu_seconds(process.pid) - cpu
            elapsed = time.monotonic() - began
            changing.cancel()
            memory = _memory(process.pid)
            return Report(
                scale.nodes,
                scale.pods,
                scraped[-1][1],
                ready,
                max(seconds for seconds, _ in scraped),
                memory["VmRSS"],
                memory["VmHWM"],
                100 * used / elapsed,
            )


async def _prepare(client: Client, scale: ExporterScale, say: Say) -> None:
    """Wait until every node has published its devices, and until every pod has one."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len((await client.list(kinds.RESOURCE_SLICE)).items) < scale.nodes:
            await asyncio.sleep(LOOK_SECONDS)
        say(f"starting {scale.pods} pods")
        await client.create(kinds.RESOURCE_CLAIM_TEMPLATE, _template(), NAMESPACE)
        numbers = iter(range(scale.pods))

        async def create() -> None:
            for number in numbers:
                await client.create(kinds.POD, _pod(number), NAMESPACE)

        await asyncio.gather(*(create() for _ in range(CREATED_AT_ONCE)))
        while True:
            began = time.monotonic()
            if await _allocated(client) >= scale.pods:
                return
            await asyncio.sleep(LOOK_SECONDS + REST * (time.monotonic() - began))


async def _allocated(client: Client) -> int:
    claims = (await client.list(kinds.RESOURCE_CLAIM)).items
    return sum(b'"allocation":' in bytes(claim) for claim in claims)


async def _change(client: Client, scale: ExporterScale) -> None:
    """End a pod and start another, again and again."""
    number = scale.pods
    while True:
        oldest = number - scale.pods
        options = {"gracePeriodSeconds": 0}
        await client.delete(kinds.POD, f"pod-{oldest}", NAMESPACE, options)
        await client.create(kinds.POD, _pod(number), NAMESPACE)
        number += 1
        await asyncio.sleep(2 / scale.changes)


@contextlib.contextmanager
def _exporter(path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    command = [*COMMAND, "exporter", "--kubeconfig", str(path), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline().decode()
            if not line:
                raise RuntimeError(f"the exporter ended with exit code {process.wait()}")
            yield process, line.split()[-1]
        finally:
            process.terminate()


async def _until_ready(http: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            async with http.get(url.replace("/metrics", "/readyz")) as response:
                if response.status == 200:
                    return
            await asyncio.sleep(0.1)


async def _scrape(http: aiohttp.ClientSession, url: str) -> tuple[float, int]:
    """Read the metrics; return the time that it took, and the number of series."""
    began = time.monotonic()
    async with http.get(url, headers={"Accept-Encoding": "gzip"}) as response:
        body = await response.read()
    lines = body.splitlines()
    return time.monotonic() - began, sum(not line.startswith(b"#") for line in lines)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> dict[str, float]:
    """Return figures of a process, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    pairs = (line.split() for line in lines if line.startswith(("VmRSS", "VmHWM")))
    return {name.rstrip(":"): int(number) * 1024 / MEBIBYTE for name, number, _ in pairs}


def _template() -> JsonObject:
    kind = kinds.RESOURCE_CLAIM_TEMPLATE
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    return {**kind.type_meta, "metadata": {"name": "gpu"}, "spec": spec}


def _pod(number: int) -> JsonObject:
    resources = {"claims": [{"name": "gpu"}], "requests": {"cpu": "1"}}
    container = {"name": "main", "image": "registry.example/train", "resources": resources}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    spec = {"containers": [container], "resourceClaims": claims}
    return {**kinds.POD.type_meta, "metadata": {"name": f"pod-{number}"}, "spec": spec}

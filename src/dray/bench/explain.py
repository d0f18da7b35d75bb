"""`dray bench explain`: the time to explain why a claim fits on none of many nodes.

The cluster is a process of its own, as `dray up` starts it, with simulated nodes. The command runs
as users run it, over HTTPS. On a machine with other work, compare its CPU time; the elapsed time
includes the server's.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import msgspec

from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.bench.command_runs import COMMAND, Say, Taken, run_once, running_cluster
from dray.client import kubeconfig
from dray.client.api_client import Client
from dray.client.rest import RestTransport

FLEET = "h200"
CLASS = "gpu.nvidia.com"
NAMESPACE = "default"
DEADLINE_SECONDS = 300.0
LOOK_SECONDS = 0.5
REFUSED = 1
"""The exit code for a claim that does not fit."""


class ExplainScale(msgspec.Struct, frozen=True):
    nodes: int = 5000
    """With eight GPUs each."""
    runs: int = 5


class Report(msgspec.Struct):
    """The median of each case: the seconds, and the seconds of CPU time."""

    nodes: int
    runs: int
    selector_s: float
    """No device matches."""
    selector_cpu_s: float
    count_s: float
    """No node has as many devices."""
    count_cpu_s: float
    constraint_s: float
    """No devices satisfy the constraint."""
    constraint_cpu_s: float


def run(scale: ExplainScale, say: Say = lambda _: None) -> Report:
    with tempfile.TemporaryDirectory(prefix="dray-bench-", ignore_cleanup_errors=True) as folder:
        directory = Path(folder)
        say(f"starting {scale.nodes} nodes")
        with running_cluster(directory, FLEET, scale.nodes):
            asyncio.run(_prepare(directory / "kubeconfig", scale.nodes))
            say("asking")
            selector, count, constraint = (
                _median_of(directory, name, scale.runs) for name in _QUESTIONS
            )
    return Report(scale.nodes, scale.runs, *selector, *count, *constraint)


async def _prepare(path: Path, nodes: int) -> None:
    """Wait until every node has published its devices, and create claims that fit nowhere."""
    async with RestTransport(kubeconfig.load(path)) as transport:
        client = Client(transport)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len((await client.list(kinds.RESOURCE_SLICE)).items) < nodes:
                await asyncio.sleep(LOOK_SECONDS)
        kind = kinds.RESOURCE_CLAIM
        for name, devices in _QUESTIONS.items():
            claim = {**kind.type_meta, "metadata": {"name": name}, "spec": {"devices": devices}}
            await client.create(kind, claim, NAMESPACE)


def _median_of(directory: Path, name: str, runs: int) -> Taken:
    """Return the median of several runs of the command."""
    command = [*COMMAND, "explain", f"claim/{name}"]
    taken = [run_once(command, directory, REFUSED) for _ in range(runs)]
    return Taken(*map(median, zip(*taken, strict=True)))


def _request(name: str, count: int, *expressions: str) -> JsonObject:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    exactly = {"deviceClassName": CLASS, "count": count, "selectors": selectors}
    return {"name": name, "exactly": exactly}


_LARGER = f'device.capacity["{CLASS}"].memory.compareTo(quantity("400Gi")) >= 0'
_QUESTIONS: Mapping[str, JsonObject] = {
    "selector": {"requests": [_request("gpu", 1, _LARGER)]},
    "count": {"requests": [_request("gpu", 9)]},
    "constraint": {
        "requests": [_request("gpu", 2)],
        "constraints": [{"matchAttribute": f"{CLASS}/uuid"}],
    },
}

"""`dray bench startup`: the time of short commands, from start to exit, with kubectl beside them.

The best of several runs counts: each other one was disturbed by something else. The cluster is
small, so most of the time is that of starting the command and connecting.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dray.api import kinds
from dray.bench.command_runs import COMMAND, Say, Taken, run_once, running_cluster
from dray.client import kubeconfig
from dray.client.api_client import Client
from dray.client.rest import RestTransport

FLEET = "quickstart"
NODES = 1
"""Of each kind of machine."""
CLASS = "gpu.nvidia.com"
POD = "waits"
NAMESPACE = "default"
DEADLINE_SECONDS = 60.0
LOOK_SECONDS = 0.1
REFUSED = 1
"""The exit code of `explain` for a pod that does not fit."""


class BestTime(msgspec.Struct, frozen=True):
    """The best elapsed and the best CPU time of a command."""

    seconds: float
    cpu_seconds: float


class Report(msgspec.Struct, frozen=True):
    runs: int
    timings: dict[str, BestTime]
    """By command. Those of kubectl are missing where it is not installed."""

    def figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = {"runs": self.runs}
        for name, timing in self.timings.items():
            figures[f"{name}_s"] = timing.seconds
            figures[f"{name}_cpu_s"] = timing.cpu_seconds
        return figures


def run(runs: int, say: Say = lambda _: None) -> Report:
    with tempfile.TemporaryDirectory(prefix="dray-bench-", ignore_cleanup_errors=True) as folder:
        directory = Path(folder)
        say("starting a small cluster")
        with running_cluster(directory, FLEET, NODES):
            asyncio.run(_prepare(directory / "kubeconfig"))
            say("running commands")
            timings = {
                name: _best(command, directory, exit_code, runs)
                for name, (command, exit_code) in _commands().items()
            }
    return Report(runs, timings)


def _commands() -> Mapping[str, tuple[Sequence[str], int]]:
    """Return each command with its exit code."""
    commands: dict[str, tuple[Sequence[str], int]] = {
        "get_pods": ((*COMMAND, "get", "pods"), 0),
        "get_devices": ((*COMMAND, "get", "devices"), 0),
        "explain": ((*COMMAND, "explain", f"pod/{POD}"), REFUSED),
        "version": ((*COMMAND, "version", "--client"), 0),
    }
    if kubectl := shutil.which("kubectl"):
        commands["kubectl_get_pods"] = ((kubectl, "get", "pods"), 0)
    return commands


def _best(command: Sequence[str], directory: Path, exit_code: int, runs: int) -> BestTime:
    run_once(command, directory, exit_code)  # Compiles modules and fills kubectl's cache.
    taken = [run_once(command, directory, exit_code) for _ in range(runs)]
    return BestTime(*Taken(*map(min, zip(*taken, strict=True))))


async def _prepare(path: Path) -> None:
    """Create a pod that no node has devices for, and wait until the scheduler has rejected it."""
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": 9}}
    claim = {"metadata": {"name": POD}, "spec": {"devices": {"requests": [request]}}}
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    pod = {
        "metadata": {"name": POD},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": POD}],
        },
    }
    async with RestTransport(kubeconfig.load(path)) as transport:
        client = Client(transport)
        for kind, body in ((kinds.RESOURCE_CLAIM, claim), (kinds.POD, pod)):
            await client.create(kind, {**kind.type_meta, **body}, NAMESPACE)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not (await client.get(kinds.POD, POD, NAMESPACE))["status"].get("conditions"):
                await asyncio.sleep(LOOK_SECONDS)

"""`dray bench node`: the time until a bound pod runs in its sandbox, and the cost of many nodes.

One simulated machine with a real node agent and its driver, a durable store in a file. Pods are
created one at a time, without a claim and with one, then many at once. Last, thousands of simulated
nodes in this process.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from dray.api import kinds
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.bench import measured_process
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import Cache, ObjectChange
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan
from dray.drivers.simulated import fleet as fleets
from dray.node.runtimes import sandbox, simulated
from dray.store import sqlite

CLASS = "gpu.nvidia.com"
FLEET = "h100"
NAMESPACE = "default"
DEADLINE_SECONDS = 300.0
LOOK_SECONDS = 0.05


Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NodeScale:
    single: int = 21
    """Pods that are created one at a time."""
    together: int = 100
    """Pods that are created at once."""
    nodes: int = 5000
    """Simulated nodes."""


class Report(msgspec.Struct, kw_only=True):
    single: int
    start_p50_ms: float
    """From bind to running, one pod at a time."""
    start_max_ms: float
    claim_p50_ms: float
    """The same with a GPU."""
    claim_max_ms: float
    together: int
    together_s: float
    """Seconds from the first create until the last pod runs."""
    cpu_ms_per_pod: float
    """CPU time of this process, without the containers."""
    nodes: int
    nodes_started_s: float
    nodes_memory_mb: float


async def run(scale: NodeScale, say: Say = lambda _: None) -> Report:
    async with _running(
        ClusterPlan(fleet=fleets.load(FLEET, nodes=1), runtime=sandbox.NAME)
    ) as client:
        measured = _Measured(client)
        async with measured.watching():
            say(f"starting {scale.single} pods, one at a time")
            plain = [await measured.start_one(False) for _ in range(scale.single)]
            say(f"starting {scale.single} pods with a GPU, one at a time")
            claimed = [await measured.start_one(True) for _ in range(scale.single)]
            say(f"starting {scale.together} pods at once")
            together, cpu = await measured.start_many(scale.together)
    say(f"starting {scale.nodes} simulated nodes")
    started, memory = await _many_nodes(scale.nodes)
    return Report(
        single=scale.single,
        start_p50_ms=1000 * median(plain),
        start_max_ms=1000 * max(plain),
        claim_p50_ms=1000 * median(claimed),
        claim_max_ms=1000 * max(claimed),
        together=scale.together,
        together_s=together,
        cpu_ms_per_pod=1000 * cpu / scale.together,
        nodes=scale.nodes,
        nodes_started_s=started,
        nodes_memory_mb=memory / 2**20,
    )


@asynccontextmanager
async def _running(plan: ClusterPlan) -> AsyncIterator[Client]:
    with tempfile.TemporaryDirectory(prefix="dray-bench-", ignore_cleanup_errors=True) as folder:
        directory = Path(folder)
        async with (
            sqlite.open(directory / "state.db") as store,
            assembly.running(store, directory, plan) as running,
        ):
            client, machines = running.client(), len(plan.fleet.machines) if plan.fleet else 0
            await _until_listed(client, kinds.NODE, machines)
            await _until_listed(client, kinds.RESOURCE_SLICE, machines)
            # Pods are admitted once their namespace has its service account.
            await _until_listed(client, kinds.SERVICE_ACCOUNT, 1, NAMESPACE)
            yield client


class _Measured:
    """Measures when each pod is bound and when it runs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pods: Cache[Pod] = Cache(client, kinds.POD, Pod, ObjectSelection(NAMESPACE))
        self._bound: dict[str, float] = {}
        self._ran: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._number = 0

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        self._pods.subscribe(self._pod_changed)
        await self._client.create(kinds.RESOURCE_CLAIM_TEMPLATE, _template(), NAMESPACE)
        watching = asyncio.ensure_future(self._pods.run())
        try:
            await self._pods.synced.wait()
            with measured_process.settled():
                yield
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        pod, now = change.new, time.perf_counter()
        if pod is not None and pod.spec.node_name:
            self._bound.setdefault(pod.metadata.name, now)
        if pod is not None and pod.status.phase == "Running":
            self._ran.setdefault(pod.metadata.name, now)
        self._changed.set()

    async def start_one(self, has_claim: bool) -> float:
        """Return the seconds from bind to running of a new pod, which is then deleted."""
        (name,) = await self._create(1, has_claim)
        await self._all(lambda: name in self._ran)
        await self._remove([name])
        return self._ran[name] - self._bound[name]

    async def start_many(self, count: int) -> tuple[float, float]:
        """Return the seconds until all run, and the CPU seconds of this process."""
        began, cpu = time.perf_counter(), time.process_time()
        names = await self._create(count, False)
        await self._all(lambda: all(name in self._ran for name in names))
        taken = time.perf_counter() - began, time.process_time() - cpu
        await self._remove(names)
        return taken

    async def _create(self, count: int, has_claim: bool) -> list[str]:
        names = [f"pod-{self._number + index}" for index in range(count)]
        self._number += count
        for name in names:
            await self._client.create(kinds.POD, _pod(name, has_claim), NAMESPACE)
        return names

    async def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            await self._client.delete(kinds.POD, name, NAMESPACE, {"gracePeriodSeconds": 1})
        await self._all(lambda: not any(self._pods.get(name, NAMESPACE) for name in names))

    async def _all(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


async def _many_nodes(count: int) -> tuple[float, float]:
    """Return the seconds until all nodes and devices are registered, and their memory."""
    before = measured_process.memory_bytes()
    began = time.perf_counter()
    async with _running(ClusterPlan(fleet=fleets.load(FLEET, nodes=count), runtime=simulated.NAME)):
        return time.perf_counter() - began, measured_process.memory_bytes() - before


async def _until_listed(client: Client, kind: Kind, count: int, namespace: str = "") -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len((await client.list(kind, ObjectSelection(namespace))).items) < count:
            await asyncio.sleep(LOOK_SECONDS)


def _template() -> JsonObject:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]
    spec = {"spec": {"devices": {"requests": requests}}}
    return {**kinds.RESOURCE_CLAIM_TEMPLATE.type_meta, "metadata": {"name": "gpu"}, "spec": spec}


def _pod(name: str, has_claim: bool) -> JsonObject:
    main: JsonObject = {"name": "main", "image": "none", "command": ["sleep", "1000"]}
    spec: JsonObject = {"containers": [main]}
    if has_claim:
        main["resources"] = {"claims": [{"name": "gpu"}]}
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return {**kinds.POD.type_meta, "metadata": {"name": name}, "spec": spec}

"""`dray bench cluster`: a whole cluster in one process, from the first create to the last bind.

Simulated nodes with eight GPUs each, pods that name one template, a durable store in a file. Then
the cluster is measured at rest, and with many pods that stay pending.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dray.api import http_messages, kinds
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.bench import measured_process
from dray.client.api_client import Client, ObjectSelection
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan
from dray.drivers.simulated import fleet, fleet_file
from dray.drivers.simulated.fleet import Fleet
from dray.history.history_file import HistoryFile
from dray.store import sqlite

CLASS = "gpu.nvidia.com"
MODEL = "h100-80gb-hbm3"
GPUS = 8
CREATORS = 32
PROBE_SECONDS = 0.005
STALL_SECONDS = 120.0
"""A wait ends with an error after this time without any progress."""
TIMER_SECONDS = 1.0
NAMESPACE = "default"


Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ClusterScale:
    nodes: int = 200
    pods: int = 1000
    hopeless: int = 1000
    """Pods that no node can take."""
    quiet_seconds: float = 10.0
    policy: str | None = None
    """The policy of the scheduler."""
    records: bool = False
    """Whether the history is recorded, as in `dray up`."""

    @property
    def devices(self) -> int:
        return self.nodes * GPUS


class Stalled(Exception):
    """The cluster made no progress for a long time."""


class Report(msgspec.Struct, kw_only=True):
    nodes: int
    pods: int
    started_s: float
    """Seconds until every node and slice existed."""
    pods_per_s: float
    created_per_s: float
    cpu_ms_per_pod: float
    peak_memory_mb: float
    idle_cpu_percent: float
    readyz_p50_ms: float
    readyz_p99_ms: float
    """During claims whose search is exponential without infeasibility proofs."""
    hopeless: int
    refused_per_s: float
    waiting_cpu_percent: float
    """With many pending pods."""
    events: int
    """Events about pending pods."""


async def run(scale: ClusterScale, say: Say = lambda _: None) -> Report:
    """Measure a new cluster. Raises Stalled."""
    try:
        return await _measured(scale, say)
    except BaseExceptionGroup as group:
        stalled: BaseException | None = group.subgroup(Stalled)
        if stalled is None:
            raise
        while isinstance(stalled, BaseExceptionGroup):
            stalled = stalled.exceptions[0]
        raise stalled from group


async def _measured(scale: ClusterScale, say: Say) -> Report:
    with tempfile.TemporaryDirectory(prefix="dray-bench-") as folder:
        directory = Path(folder)
        async with contextlib.AsyncExitStack() as stack:
            file = HistoryFile.open(directory / "history.db")
            plan = ClusterPlan(
                fleet=_fleet(scale.nodes),
                policy=scale.policy,
                history=stack.enter_context(file) if scale.records else None,
            )
            store = await stack.enter_async_context(sqlite.open(directory / "state.db"))
            running = await stack.enter_async_context(assembly.running(store, directory, plan))
            return await _Measured(running.client(), scale, say).report()


class _Measured:
    def __init__(self, client: Client, scale: ClusterScale, say: Say) -> None:
        self._client, self._scale, self._say = client, scale, say

    async def report(self) -> Report:
        scale = self._scale
        self._say(f"starting {scale.nodes} nodes")
        started = await self._start()
        with measured_process.settled():
            self._say("resting")
            idle = await self._cpu_percent()
            self._say(f"creating {scale.pods} pods")
            created, bound, cpu = await self._bind_pods()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self._say("creating pods that fit on no node")
        latencies = await self._readiness_while_refusing()
        self._say(f"creating {scale.hopeless} pods that fit on no node")
        refused = await self._refuse_pods()
        self._say("resting")
        events = await self._all_events()
        waiting = await self._cpu_percent()
        return Report(
            nodes=scale.nodes,
            pods=scale.pods,
            started_s=started,
            pods_per_s=scale.pods / bound,
            created_per_s=scale.pods / created,
            cpu_ms_per_pod=1000 * cpu / scale.pods,
            peak_memory_mb=peak,
            idle_cpu_percent=idle,
            readyz_p50_ms=1000 * latencies[len(latencies) // 2],
            readyz_p99_ms=1000 * latencies[len(latencies) * 99 // 100],
            hopeless=scale.hopeless,
            refused_per_s=scale.hopeless / refused,
            waiting_cpu_percent=waiting,
            events=max(events, await self._events()),
        )

    async def _start(self) -> float:
        began = time.perf_counter()
        await self._create_template("gpu", _claim_spec("gpu"))
        await asyncio.gather(
            self._as_many_as_nodes(kinds.RESOURCE_SLICE, lambda raw: True),
            self._as_many_as_nodes(kinds.NODE, lambda raw: b'"taints"' not in raw),
        )
        return time.perf_counter() - began

    async def _as_many_as_nodes(self, kind: Kind, counts: Callable[[bytes], bool]) -> None:
        """Wait until as many objects match as there are to be nodes."""
        page = await self._client.list(kind)
        names = {_name(raw) for raw in map(bytes, page.items) if counts(raw)}
        if len(names) >= self._scale.nodes:
            return

        def is_last(raw: bytes) -> bool:
            if counts(raw):
                names.add(_name(raw))
            return len(names) >= self._scale.nodes

        await self._read_changes(kind, page.resource_version, is_last)

    async def _read_changes(
        self, kind: Kind, version: str, is_last: Callable[[bytes], bool]
    ) -> None:
        """Read changed objects up to the last one. Raises Stalled if it does not come."""
        now = asyncio.get_running_loop().time
        progressed = now()
        try:
            async with asyncio.timeout(STALL_SECONDS) as limit:
                async for event in self._client.watch(kind, resource_version=version):
                    if event.type == "BOOKMARK":
                        continue
                    if is_last(bytes(event.object)):
                        return
                    # Not at every event: the timer would be a part of what is measured.
                    if now() > progressed + TIMER_SECONDS:
                        progressed = now()
                        limit.reschedule(progressed + STALL_SECONDS)
        except TimeoutError as error:
            why = f"no {kind.plural} changed for {STALL_SECONDS:.0f} seconds"
            raise Stalled(f"the cluster makes no progress: {why}") from error
        raise Stalled(f"the watch of {kind.plural} ended before all had changed")

    async def _cpu_percent(self) -> float:
        seconds = self._scale.quiet_seconds
        await asyncio.sleep(1.0)
        before = time.process_time()
        await asyncio.sleep(seconds)
        return 100 * (time.process_time() - before) / seconds

    async def _bind_pods(self) -> tuple[float, float, float]:
        """Return the seconds until all pods were created and bound, and their CPU time."""
        names = [f"pod-{number}" for number in range(self._scale.pods)]
        async with asyncio.TaskGroup() as group:
            following = asyncio.Event()
            bound = group.create_task(self._all_have(b'"nodeName"', names, following))
            await following.wait()
            began, cpu = time.perf_counter(), time.process_time()
            await self._create(_pod(name, template="gpu") for name in names)
            created = time.perf_counter() - began
            await bound
        return created, time.perf_counter() - began, time.process_time() - cpu

    async def _refuse_pods(self) -> float:
        await self._create_template("hopeless", _claim_spec("gpu", memory="900Gi"))
        names = [f"hopeless-{number}" for number in range(self._scale.hopeless)]
        async with asyncio.TaskGroup() as group:
            following = asyncio.Event()
            refused = group.create_task(self._all_have(b"Unschedulable", names, following))
            await following.wait()
            began = time.perf_counter()
            await self._create(_pod(name, template="hopeless") for name in names)
            await refused
        return time.perf_counter() - began

    async def _create_template(self, name: str, spec: JsonObject) -> None:
        kind = kinds.RESOURCE_CLAIM_TEMPLATE
        body = {**kind.type_meta, "metadata": {"name": name}, "spec": {"spec": spec}}
        await self._client.create(kind, body, NAMESPACE)

    async def _create(self, pods: Iterable[JsonObject]) -> None:
        waiting = iter(pods)

        async def creator() -> None:
            for pod in waiting:
                await self._client.create(kinds.POD, pod, NAMESPACE)

        async with asyncio.TaskGroup() as group:
            for _ in range(CREATORS):
                group.create_task(creator())

    async def _all_have(self, text: bytes, names: Iterable[str], following: asyncio.Event) -> None:
        """Wait until the object of every one of these pods contains a text."""
        left = set(names)
        version = (await self._client.list(kinds.POD)).resource_version
        following.set()

        def is_last(raw: bytes) -> bool:
            if text in raw:
                left.discard(_name(raw))
            return not left

        await self._read_changes(kinds.POD, version, is_last)

    async def _readiness_while_refusing(self) -> list[float]:
        """Return the sorted latencies of /readyz, from the moment each request was due."""
        names = [f"impossible-{number}" for number in range(GPUS // 2)]
        type_meta = kinds.RESOURCE_CLAIM.type_meta
        for number, name in enumerate(names):
            body = {**type_meta, "metadata": {"name": name}, "spec": _impossible(number)}
            await self._client.create(kinds.RESOURCE_CLAIM, body, NAMESPACE)
        latencies: list[float] = []
        async with asyncio.TaskGroup() as group:
            following = asyncio.Event()
            refused = group.create_task(self._all_have(b"Unschedulable", names, following))
            await following.wait()
            probing = group.create_task(self._probe(latencies))
            await self._create(_pod(name, claim=name) for name in names)
            await refused
            await asyncio.sleep(1.0)
            probing.cancel()
        return sorted(latencies)

    async def _probe(self, latencies: list[float]) -> None:
        question = http_messages.Request("GET", "/readyz")
        while True:
            due = time.perf_counter() + PROBE_SECONDS
            await asyncio.sleep(PROBE_SECONDS)
            await self._client.raw(question)
            latencies.append(time.perf_counter() - due)

    async def _all_events(self) -> int:
        """Wait until all events are written. Returns their number."""
        before = -1
        while (now := await self._events()) != before:
            before = now
            await asyncio.sleep(2.0)
        return now

    async def _events(self) -> int:
        selection = ObjectSelection(field_selector="reason=FailedScheduling")
        page = await self._client.list(kinds.EVENT, selection)
        return sum(b'"hopeless-' in bytes(item) for item in page.items)


class _Name(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Name


_names = msgspec.json.Decoder(_Named)


def _name(raw: bytes) -> str:
    return _names.decode(raw).metadata.name


def _fleet(nodes: int) -> Fleet:
    gpus = fleet_file.DeviceGroup(model=MODEL, count=GPUS, attributes={"domain": ["a", "b"]})
    group = fleet_file.NodeGroup(name="node-{number}", count=nodes, devices={CLASS: (gpus,)})
    return fleet.build(fleet_file.FleetBlueprint(nodes=(group,)), name="bench")


def _claim_spec(*names: str, memory: str = "40Gi", **constraints: Any) -> JsonObject:
    expression = f'device.capacity["{CLASS}"].memory.compareTo(quantity("{memory}")) >= 0'
    exactly = {"deviceClassName": CLASS, "selectors": [{"cel": {"expression": expression}}]}
    requests = [{"name": name, "exactly": exactly} for name in names]
    return {"devices": {"requests": requests, **constraints}}


def _impossible(number: int) -> JsonObject:
    """Return a claim for more GPUs than a domain has, which takes long to search in full."""
    names = [f"r{index}" for index in range(GPUS // 2 + 1 + number)]
    constraint = {"matchAttribute": f"{CLASS}/domain", "requests": names}
    return _claim_spec(*names, constraints=[constraint])


def _pod(name: str, *, template: str = "", claim: str = "") -> JsonObject:
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    container = {"name": "work", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", **source}]}
    return {**kinds.POD.type_meta, "metadata": {"name": name}, "spec": spec}

"""Agent for simulated nodes: reports pods as running without starting containers.

One agent serves thousands of nodes with one watch. It checks that a pod may use its claims, reports
the pod as running, ends it in time, and confirms its deletion.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Callable, Mapping

from dray.api import errors, kinds, well_known
from dray.api.ids import ObjectKey
from dray.api.semantics import pod_status
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.client import events
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import Cache, ObjectChange
from dray.client.controller import Controller
from dray.client.events import Recorder
from dray.client.object_writes import merge_status
from dray.node.devices import claim_access
from dray.node.pods import status_patches
from dray.node.runtimes import simulated

BOUND = ObjectSelection(field_selector="spec.nodeName!=")
COMPONENT = "kubelet"
RETRY_SECONDS, MAX_RETRY_SECONDS = 0.1, 30.0


class SimulatedAgent:
    """Runs the pods of the nodes in `addresses`, which has the address of each."""

    def __init__(
        self,
        client: Client,
        addresses: Mapping[str, str],
        *,
        now: Callable[[], datetime.datetime],
        workers: int = 32,
    ) -> None:
        self._client = client
        self._addresses = addresses
        self._now = now
        self._recorder = Recorder(client, COMPONENT, now=now)
        self._ends_at: dict[str, float] = {}
        self._stops_at: dict[str, float] = {}
        self._refusals: dict[str, int] = {}
        self._pods: Cache[Pod] = Cache(client, kinds.POD, Pod, BOUND)
        self._controller: Controller[ObjectKey] = Controller(
            "name-only-agent", self._reconcile, workers=workers
        )
        self._pods.subscribe(self._pod_changed)

    @property
    def is_settled(self) -> bool:
        """Whether no work is queued, now or for later."""
        return self._pods.synced.is_set() and self._controller.queue.is_idle

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run(), name="agent-pods")
            group.create_task(self._recorder.run(), name="agent-events")
            await self._pods.synced.wait()
            await self._controller.run()

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        pod = change.new
        if pod is None:
            self._forget(change.old)
        elif pod.spec.node_name in self._addresses and _has_work(pod):
            self._controller.queue.add(change.key)

    def _forget(self, pod: Pod | None) -> None:
        if pod is not None:
            self._ends_at.pop(pod.metadata.uid, None)
            self._stops_at.pop(pod.metadata.uid, None)
            self._refusals.pop(pod.metadata.uid, None)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.get(key.name, key.namespace)
        if pod is None or pod.spec.node_name not in self._addresses:
            return None
        with contextlib.suppress(errors.NotFound):
            if pod.metadata.deletion_timestamp is not None:
                return await self._stop(pod)
            if pod.status.phase == pod_status.RUNNING:
                return await self._end_in_time(pod)
            if not pod_status.has_ended(pod):
                return await self._start(pod)
        return None

    async def _start(self, pod: Pod) -> float | None:
        try:
            await claim_access.usable(self._client, pod)
        except claim_access.NotUsable as refusal:
            return self._refuse(pod, str(refusal))
        self._refusals.pop(pod.metadata.uid, None)
        host_ip = self._addresses[pod.spec.node_name]
        await self._report(pod, status_patches.running(pod, host_ip, self._now()))
        self._ends_at[pod.metadata.uid] = _clock() + simulated.run_seconds(pod)
        return None

    def _refuse(self, pod: Pod, why: str) -> float:
        """Record why the pod does not start, and return the seconds until the next try."""
        uid = pod.metadata.uid
        attempts = self._refusals.get(uid, 0)
        self._refusals[uid] = attempts + 1
        seconds = min(RETRY_SECONDS * 2.0 ** min(attempts, 16), MAX_RETRY_SECONDS)
        reference = events.reference(kinds.POD, pod.metadata)
        note = f"Failed to prepare dynamic resources: {why}"
        reason = well_known.FAILED_PREPARE_REASON
        self._recorder.record(reference, events.WARNING, reason, note, replace=True)
        return seconds

    async def _end_in_time(self, pod: Pod) -> float | None:
        # The status counts whole seconds; we know better where we started the pod ourselves.
        ends_at = self._ends_at.get(pod.metadata.uid)
        left = simulated.seconds_left(pod, self._now()) if ends_at is None else ends_at - _clock()
        if left == simulated.FOREVER:
            return None
        if left > 0:
            return left
        code, now = simulated.exit_code(pod), self._now()
        if not simulated.restarts(pod):
            await self._report(pod, status_patches.ended(pod, code, now))
            return None
        wait = simulated.backoff_seconds(pod) + simulated.run_seconds(pod)
        self._ends_at[pod.metadata.uid] = _clock() + wait
        await self._report(pod, status_patches.restarted(pod, code, now))
        return wait

    async def _stop(self, pod: Pod) -> float | None:
        left = self._seconds_to_stop(pod)
        if left > 0:
            return left
        if pod.metadata.finalizers and not pod_status.has_ended(pod):
            # Who holds the pod back waits to hear that it is over.
            ended = status_patches.ended(pod, status_patches.TERMINATED_BY_SIGNAL, self._now())
            await self._report(pod, ended)
        elif pod.metadata.deletion_grace_period_seconds != 0 or not pod.metadata.finalizers:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
            await self._client.delete(kinds.POD, pod.metadata.name, pod.metadata.namespace, options)
        return None

    def _seconds_to_stop(self, pod: Pod) -> float:
        if pod.status.phase != pod_status.RUNNING:
            return 0.0
        clock = _clock()
        stops_at = self._stops_at.setdefault(pod.metadata.uid, clock + simulated.stop_seconds(pod))
        return stops_at - clock

    async def _report(self, pod: Pod, patch: JsonObject) -> None:
        metadata = pod.metadata
        await merge_status(self._client, kinds.POD, metadata.name, patch, metadata.namespace)


def _has_work(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None or not pod_status.has_ended(pod)


def _clock() -> float:
    return asyncio.get_running_loop().time()

"""The agent of one node: runs its pods, and cleans up after pods that are gone.

An agent that ends leaves its containers running, for the next one to find, unless `stops_pods` is
set.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from dray import supervision, telemetry
from dray.api import errors, kinds, well_known
from dray.api.types.pods import Pod
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import Cache, ObjectChange
from dray.client.events import Recorder
from dray.node import host_paths, metrics
from dray.node.containers import container_attempts, pod_sandboxes
from dray.node.devices import pod_resources_api
from dray.node.devices.drivers import DriverError, Drivers
from dray.node.devices.health import DeviceHealthMonitor
from dray.node.devices.pod_resources_api import Holder
from dray.node.devices.preparation import ClaimRecord, Preparation
from dray.node.devices.slice_removal import SliceRemoval
from dray.node.limits import groups
from dray.node.pods.container_access import ContainerAccess
from dray.node.pods.context import NodeContext, RuntimeConfig
from dray.node.pods.worker import PodWorker

log = logging.getLogger(__name__)


COMPONENT = "kubelet"
RESTART_SECONDS = 1.0
MAX_RESTART_SECONDS = 60.0
"""The longest pause before the worker of a pod runs again after a fault of dray."""
STOP_SECONDS = 5.0
"""The time that containers have to stop when the agent ends, whatever their pods' grace period."""


@dataclass(frozen=True)
class AgentDirectories:
    """The directories of the agent and of its drivers."""

    state: Path
    registry: Path
    cdi: tuple[Path, ...]
    """Where CDI specs are; later ones win."""
    pod_resources: Path
    """The socket for exporters."""


class Agent:
    """Runs the pods that are bound to one node."""

    def __init__(
        self,
        client: Client,
        node: str,
        address: str,
        folders: AgentDirectories,
        runtime_config: RuntimeConfig,
        *,
        now: Callable[[], datetime.datetime],
        registry: telemetry.Registry | None = None,
    ) -> None:
        bound = ObjectSelection(field_selector=f"spec.nodeName={node}")
        self._pods: Cache[Pod] = Cache(client, kinds.POD, Pod, bound)
        self._workers: dict[str, PodWorker] = {}
        self._arrivals: asyncio.Queue[PodWorker] = asyncio.Queue()
        self._pod_resources = folders.pod_resources
        self.stops_pods = False
        """Whether the containers are stopped when the agent ends."""
        self.drivers = Drivers(folders.registry)
        self._slice_removal = SliceRemoval(client, node, self.drivers)
        self._health = DeviceHealthMonitor(self.drivers, self._health_changed)
        self._context = NodeContext(
            client=client,
            node=node,
            address=address,
            folder=folders.state / "pods",
            cdi_directories=folders.cdi,
            drivers=self.drivers,
            preparation=Preparation(client, self.drivers, folders.state),
            recorder=Recorder(client, COMPONENT, instance=node, now=now),
            health_of=self._health.of,
            now=now,
            runtime_config=runtime_config,
            limits=groups.open_limits(folders.state, runtime_config.pod_max_pids),
        )
        if registry is not None:
            metrics.register(
                registry,
                pods=lambda: len(self._workers),
                drivers=lambda: self.drivers.names,
                claims=lambda: self.prepared_claims,
            )

    @property
    def prepared_claims(self) -> Collection[ClaimRecord]:
        """The claims that are prepared on this node, or about to be."""
        return self._context.preparation.records

    @property
    def is_ready(self) -> bool:
        """Whether the agent has read which pods it has to run."""
        return self._pods.synced.is_set()

    async def run(self) -> None:
        self._context.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._context.starter.prepare()
        try:
            await self._run()
        finally:
            if self.stops_pods:
                stopping = [worker.stop(STOP_SECONDS) for worker in self._workers.values()]
                await asyncio.gather(*stopping)

    async def _run(self) -> None:
        async with (
            pod_resources_api.serving(self._pod_resources, self._holders),
            asyncio.TaskGroup() as group,
        ):
            group.create_task(self.drivers.run(), name="agent-drivers")
            group.create_task(self._slice_removal.run(), name="agent-slices")
            group.create_task(self._report_drivers(), name="agent-registered-drivers")
            group.create_task(self._health.run(), name="agent-health")
            group.create_task(self._context.recorder.run(), name="agent-events")
            group.create_task(self._pods.run(), name="agent-pods")
            await self._pods.synced.wait()
            group.create_task(self._clean_up(), name="agent-clean-up")
            self._pods.subscribe(self._pod_changed)
            while True:
                worker = await self._arrivals.get()
                group.create_task(self._keep_running(worker), name=f"pod-{worker.pod.metadata.uid}")

    async def _report_drivers(self) -> None:
        """Keep the names of the registered drivers in an annotation of the Node."""
        reported: str | None = None
        while True:
            changed = self.drivers.changed
            names = ",".join(sorted(self.drivers.names))
            if names != reported:
                change = {"metadata": {"annotations": {well_known.DRIVERS_ANNOTATION: names}}}
                try:
                    await self._context.client.patch(kinds.NODE, self._context.node, change)
                    reported = names
                except errors.StatusError as error:
                    # The Node is not registered yet, or the server is unavailable.
                    log.debug("drivers of node %s: %s", self._context.node, error)
                    await asyncio.sleep(RESTART_SECONDS)
                    continue
            await changed.wait()

    def containers(self, namespace: str, name: str) -> ContainerAccess | None:
        """Return the containers of a pod, or None where the pod is not on this node."""
        pod = self._pods.get(name, namespace)
        worker = self._workers.get(pod.metadata.uid) if pod else None
        return worker.containers if worker else None

    def _holders(self) -> Iterable[Holder]:
        return [(worker.pod, worker.prepared_claims) for worker in self._workers.values()]

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        for pod in (change.old, change.new):
            if pod is not None and (worker := self._workers.get(pod.metadata.uid)):
                worker.update(pod)
        pod = change.new
        if pod is not None and pod.metadata.uid not in self._workers:
            worker = PodWorker(self._context, pod)
            self._workers[pod.metadata.uid] = worker
            self._arrivals.put_nowait(worker)
        old = change.old
        if old is not None and (pod is None or pod.metadata.uid != old.metadata.uid):
            self._gone(old.metadata.uid)

    def _health_changed(self) -> None:
        for worker in self._workers.values():
            worker.health_changed()

    def _gone(self, uid: str) -> None:
        """Stop a pod that was deleted by force, without its agent."""
        worker = self._workers.get(uid)
        if worker is not None:
            worker.abandon()

    async def _keep_running(self, worker: PodWorker) -> None:
        """Run a pod's worker until the pod has ended; a fault in it does not touch other pods."""
        name = f"pod {worker.pod.metadata.name}"
        await supervision.run_until_done(
            name, worker.run, report=worker.report_fault, max_seconds=MAX_RESTART_SECONDS
        )
        self._workers.pop(worker.pod.metadata.uid, None)

    async def _clean_up(self) -> None:
        """Stop and remove what a former agent started for pods that are gone by now."""
        known = {pod.metadata.uid for pod in self._pods}
        limited = self._context.limits.pods() - known
        for folder in self._context.folder.iterdir():
            if folder.name in known:
                continue
            try:
                await _end_pod(folder)
            except (OSError, ValueError, LookupError) as error:
                # Its files are not as dray wrote them; that must not keep other pods waiting.
                log.warning("deleted pod %s: %s", folder.name, error)
        for uid in limited:
            await self._context.limits.remove_pod(uid)
        while True:
            try:
                return await self._context.preparation.unprepare_all_but(known)
            except DriverError as error:
                log.warning("claims of deleted pods: %s", error)
            await asyncio.sleep(RESTART_SECONDS)


async def _end_pod(folder: Path) -> None:
    """End what runs of a pod that is gone, and remove its files."""
    for container in (folder / "containers").glob("*"):
        if (attempt := container_attempts.last_attempt(container)) is not None:
            attempt.kill()
            await attempt.wait()
    pod_sandboxes.end(str(folder))
    await host_paths.walk_aside(container_attempts.remove, folder)

"""One pod on its node, from its claims to its last container.

A worker that is cancelled leaves the containers running; the next one finds them on disk and goes
on. A pod that is deleted, or whose containers have all ended, gives its claims back.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import Final

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.semantics import pod_resources
from dray.api.types.pods import Pod
from dray.node import host_paths
from dray.node.containers import container_attempts, pod_sandboxes
from dray.node.containers.container_attempts import Exit
from dray.node.devices.preparation import ClaimsOfPod
from dray.node.pods import volume_usage
from dray.node.pods.container_access import ContainerAccess
from dray.node.pods.container_supervisor import ALWAYS, NEVER, ON_FAILURE, ContainerSupervisor
from dray.node.pods.context import NodeContext, PodState, PodWorkerContext
from dray.node.pods.pod_preparation import PodPreparation
from dray.node.pods.pod_status import PodFailure
from dray.node.pods.pod_termination import PodTermination
from dray.node.pods.status_reporter import PodStatusReporter

DEADLINE: Final = PodFailure(
    "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
)
NETWORK_CAUTION: Final = (
    "The containers of the pod share a network of their own, which has only a loopback interface"
)
MAX_NOTE_CHARACTERS: Final = 512


class PodWorker:
    """Runs one pod until it is gone from the API."""

    def __init__(self, node: NodeContext, pod: Pod) -> None:
        self._state = PodState(pod)
        self._context = PodWorkerContext(node, self._state)
        self._reporter = PodStatusReporter(node, self._state)
        self._preparation = PodPreparation(self._context)
        self._termination = PodTermination(self._context)
        self._deleted = asyncio.Event()
        self.containers = ContainerAccess(self._context)
        self.update(pod)

    @property
    def pod(self) -> Pod:
        return self._state.pod

    @property
    def prepared_claims(self) -> ClaimsOfPod:
        """The claims that are prepared for the pod, by their names in its spec."""
        return self._state.prepared_claims

    def update(self, pod: Pod) -> None:
        is_new_spec = pod.metadata.generation != self.pod.metadata.generation
        self._state.pod = pod
        if is_new_spec:
            # The status says which spec the node has seen.
            self._state.notify_changed()
        if pod.metadata.deletion_timestamp is not None:
            self._deleted.set()

    def health_changed(self) -> None:
        """Report the pod's status again, with the health of its devices."""
        if self.prepared_claims and not self._state.is_over:
            self._state.notify_changed()

    def abandon(self) -> None:
        """Stop the pod, which is already gone from the API."""
        self._state.is_gone = True
        self._deleted.set()

    def report_fault(self, error: BaseException) -> None:
        """Record an error that nobody expected; the pod is run again after a pause."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        note = f"the node agent failed to run the pod: {type(error).__name__}: {error}"
        self._context.record_warning("FailedSync", note[:MAX_NOTE_CHARACTERS])

    async def run(self) -> None:
        """Run the pod, wait for its deletion, and confirm that."""
        async with asyncio.TaskGroup() as group:
            reporting = group.create_task(self._reporter.run())
            if not self._state.is_over:
                # A fault in the life of a pod must not keep it from its end.
                if not self._deleted.is_set():
                    await self._live_until_ended(group)
                await self.stop()
            else:
                await self._context.node.limits.remove_pod(self._context.uid)
            await self._preparation.unprepare()
            reporting.cancel()
        # Reported last: the devices of a pod that is over may be allocated to the next.
        self._state.is_over = True
        await self._reporter.report()
        await self._deleted.wait()
        await self._context.retry(self._confirm_deletion, "FailedDelete")
        # Of a pod that was over when the agent started; otherwise it has ended with the containers.
        pod_sandboxes.end(str(self._context.folder))
        # A container may have left millions of files; the other pods do not wait for them.
        await host_paths.walk_aside(container_attempts.remove, self._context.folder)

    async def stop(self, at_most_seconds: float | None = None) -> None:
        """Stop the containers within the pod's grace period, or a shorter time."""
        await self._termination.stop(at_most_seconds)
        await self._context.node.limits.remove_pod(self._context.uid)

    async def _live_until_ended(self, group: asyncio.TaskGroup) -> None:
        """Until the pod is deleted, evicted, its time is over, or its containers have ended."""
        ends = (self._deleted.wait(), self._until_deadline(), self._until_evicted())
        tasks = {group.create_task(work) for work in (self._live(), *ends)}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _until_deadline(self) -> None:
        """Wait for the pod's active deadline, counted from its start, also across agents."""
        node = self._context.node
        started = node.now()
        while True:
            allowed = self.pod.spec.active_deadline_seconds
            if self.pod.status.start_time is not None:
                started = gotime.parse(self.pod.status.start_time)
            left = None
            if allowed is not None:
                left = allowed - (node.now() - started).total_seconds()
                if left <= 0:
                    self._state.failure = DEADLINE
                    self._context.record_event(DEADLINE.reason, DEADLINE.message)
                    return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._state.until(functools.partial(self._has_other_deadline, allowed))

    def _has_other_deadline(self, seconds: int | None) -> bool:
        return self.pod.spec.active_deadline_seconds != seconds

    async def _until_evicted(self) -> None:
        """Wait until a volume of the pod is larger than it may be."""
        folder = self._context.folder / "volumes"
        self._state.failure = await volume_usage.until_exceeded(self.pod, folder)
        self._context.record_warning(*self._state.failure)

    async def _live(self) -> None:
        """Run the pod up to the end of its last container that is not a sidecar."""
        if caution := self._context.node.runtime.caution:
            self._context.record_event("ImageIgnored", caution)
        if self._context.has_own_network and await self._context.node.network_helper() is None:
            self._context.record_event("NetworkIsolated", NETWORK_CAUTION)
        await self._preparation.prepare()
        async with asyncio.TaskGroup() as group:
            sidecars: list[asyncio.Task[Exit]] = []
            if await self._initialize(group, sidecars):
                policy = self.pod.spec.restart_policy or ALWAYS
                containers = [
                    group.create_task(ContainerSupervisor(self._context, container).run(policy))
                    for container in self.pod.spec.containers
                ]
                await asyncio.wait(containers)
            for sidecar in sidecars:
                sidecar.cancel()

    async def _initialize(
        self, group: asyncio.TaskGroup, sidecars: list[asyncio.Task[Exit]]
    ) -> bool:
        """Run the init containers in order, and add sidecars; whether all have succeeded."""
        policy = NEVER if self.pod.spec.restart_policy == NEVER else ON_FAILURE
        for container in self.pod.spec.init_containers:
            supervisor = ContainerSupervisor(self._context, container)
            if pod_resources.is_sidecar(container):
                sidecars.append(group.create_task(supervisor.run(ALWAYS)))
                await supervisor.until_started()
            elif (await supervisor.run(policy)).code:
                return False
        return True

    async def _confirm_deletion(self) -> None:
        metadata = self.pod.metadata
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata.uid}}
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            client = self._context.node.client
            await client.delete(kinds.POD, metadata.name, metadata.namespace, options)

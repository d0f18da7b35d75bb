"""Starts one container of a pod, and starts it again where its restart policy says so."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Final

from dray.api import errors
from dray.api.types.containers import Container
from dray.driverkit.cdi import CdiError
from dray.node.containers import container_attempts
from dray.node.containers.container_attempts import Command, ContainerAttempt, Exit
from dray.node.limits import groups
from dray.node.pods import container_specs
from dray.node.pods.container_lifecycle import ContainerLifecycle
from dray.node.pods.context import MAX_RETRY_SECONDS, RETRY_SECONDS, PodWorkerContext
from dray.node.runtimes.interface import ContainerConfigError, ImageError
from dray.node.specs import termination_messages

ALWAYS: Final = "Always"
ON_FAILURE: Final = "OnFailure"
NEVER: Final = "Never"
BACKOFF_SECONDS: Final = 10.0
MAX_BACKOFF_SECONDS: Final = 300.0
BACKOFF_RESET_SECONDS: Final = 600.0
"""A container that ran longer than this is restarted at once."""


class ContainerSupervisor:
    """Supervises one container of a pod."""

    def __init__(self, context: PodWorkerContext, container: Container) -> None:
        self._context = context
        self._container = container
        self._observed = context.state.containers[container.name]

    async def run(self, restart_policy: str) -> Exit:
        """Run the container until it has ended for good, and return its last exit.

        A start that an earlier agent made is watched, not repeated.
        """
        folder = self._context.container_folder(self._container.name)
        attempt = self._context.last_attempt(self._container.name)
        if attempt is None or not attempt.has_begun:
            attempt = await self._start_when_possible(attempt.number if attempt else 0)
        while True:
            ended = await self._watch(attempt)
            if restart_policy == NEVER or (restart_policy == ON_FAILURE and not ended.code):
                return ended
            await self._back_off(attempt, ended)
            # The log of the start before stays: `kubectl logs --previous` shows it.
            container_attempts.remove(folder / str(attempt.number - 1))
            attempt = await self._start_when_possible(attempt.number + 1)

    async def until_started(self) -> None:
        """Wait until the container runs and its startup probe has succeeded."""
        await self._context.state.until(lambda: self._observed.is_started)

    async def _watch(self, attempt: ContainerAttempt) -> Exit:
        """Probe one start of the container until it ends."""
        observed, state = self._observed, self._context.state
        observed.attempt, observed.exit = attempt, attempt.exit()
        lifecycle = ContainerLifecycle(self._context, self._container, attempt)
        async with asyncio.TaskGroup() as group:
            probing = group.create_task(lifecycle.watch())
            # A container without probes is ready at once, and its first status says so.
            await asyncio.sleep(0)
            state.notify_changed()
            ended = observed.exit = await attempt.wait()
            probing.cancel()
        if ended.reason == container_attempts.LOST_REASON:
            self._context.node.runtime.discard(attempt)
        limits, uid = self._context.node.limits, self._context.uid
        await limits.remove_container(uid, self._container.name, attempt.number)
        state.notify_changed()
        return ended

    async def _back_off(self, attempt: ContainerAttempt, ended: Exit) -> None:
        restarts = attempt.number
        if not restarts or ended.finished_at - attempt.started_at > BACKOFF_RESET_SECONDS:
            return
        seconds = min(BACKOFF_SECONDS * 2.0 ** min(restarts - 1, 8), MAX_BACKOFF_SECONDS)
        metadata = self._context.pod.metadata
        message = (
            f"back-off {seconds:.0f}s restarting failed container={self._container.name} "
            f"pod={metadata.name}_{metadata.namespace}({metadata.uid})"
        )
        self._report_waiting("CrashLoopBackOff", message)
        self._context.record_warning("BackOff", message)
        await asyncio.sleep(seconds)

    async def _start_when_possible(self, number: int) -> ContainerAttempt:
        context, name = self._context, self._container.name
        delay = RETRY_SECONDS
        while True:
            try:
                command = await self._command(number)
                break
            except ImageError as error:
                reason, message = error.reason, str(error)
            except (ContainerConfigError, CdiError, errors.StatusError) as error:
                reason, message = "CreateContainerConfigError", str(error)
            self._report_waiting(reason, message)
            context.record_warning("Failed", f"Error: {message}; next try in {delay:.1f} s")
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RETRY_SECONDS)
        self._observed.waits("ContainerCreating")
        started = await context.node.starter.start(context.container_folder(name), number, command)
        context.record_event("Started", f"Container started: {name}")
        return started

    async def _command(self, number: int) -> Command:
        node, state, container = self._context.node, self._context.state, self._container
        built = await container_specs.build(node, state, container)
        if built.unrun_hooks:
            programs = ", ".join(built.unrun_hooks)
            note = f"Container {container.name}: CDI hooks of its devices are not run: {programs}"
            self._context.record_event("HooksIgnored", note)
        start = f"{state.pod.metadata.uid}/containers/{container.name}/{number}"
        message = termination_messages.bind(node.runtime, container, node.folder, start)
        if message is not None:
            built = dataclasses.replace(built, binds=(*built.binds, message))
        helper = None if built.has_host_network else await node.network_helper()
        address = node.runtime_config.network.api_server
        spec = dataclasses.replace(built, api_server=address, network_helper=helper)
        await node.runtime.pull(container.image, container.image_pull_policy)
        folder = str(self._context.container_folder(container.name) / str(number))
        if node.runtime.limits_containers:
            limits = node.limits.within_pod(state.pod, spec.limits)
            return node.runtime.command(dataclasses.replace(spec, limits=limits), folder)
        limited = node.limits.prepare(state.pod, container.name, number, spec.limits)
        if limited.warning:
            self._context.record_warning(groups.NOT_ENFORCED, limited.warning)
        return limited.applied(node.runtime.command(spec, folder))

    def _report_waiting(self, reason: str, message: str) -> None:
        self._observed.waits(reason, message)
        self._context.state.notify_changed()

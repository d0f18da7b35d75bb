"""Stops the containers of a pod within its grace period."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from dray.api.semantics import pod_resources
from dray.api.types.containers import Container
from dray.node.containers import pod_sandboxes
from dray.node.containers.container_attempts import ContainerAttempt
from dray.node.pods.container_lifecycle import ContainerLifecycle
from dray.node.pods.context import PodWorkerContext


class PodTermination:
    """Stops what runs of a pod."""

    def __init__(self, context: PodWorkerContext) -> None:
        self._context = context

    async def stop(self, at_most_seconds: float | None = None) -> None:
        """Stop the containers together, then the sidecars one by one, the last first."""
        grace_seconds = self._context.grace_seconds
        if at_most_seconds is not None:
            grace_seconds = min(grace_seconds, at_most_seconds)
        spec = self._context.pod.spec
        sidecars = [
            container for container in spec.init_containers if pod_resources.is_sidecar(container)
        ]
        others = [container for container in spec.init_containers if container not in sidecars]
        await self._stop_all((*others, *spec.containers), grace_seconds)
        for sidecar in reversed(sidecars):
            await self._stop_all((sidecar,), grace_seconds)
        pod_sandboxes.end(str(self._context.folder))

    async def _stop_all(self, containers: Iterable[Container], grace_seconds: float) -> None:
        running = []
        for container in containers:
            # From the disk: a container that was just starting is not in the pod's state yet.
            last = self._context.last_attempt(container.name)
            if last is not None and last.has_begun and last.exit() is None:
                note = f"Stopping container {container.name}"
                self._context.record_event("Killing", note)
                running.append(self._stop(container, last, grace_seconds))
        await asyncio.gather(*running)

    async def _stop(
        self, container: Container, attempt: ContainerAttempt, grace_seconds: float
    ) -> None:
        observed = self._context.state.containers[container.name]
        observed.attempt = attempt
        try:
            async with asyncio.timeout(grace_seconds):
                lifecycle = ContainerLifecycle(self._context, container, attempt)
                await lifecycle.pre_stop(grace_seconds)
                attempt.terminate()
                observed.exit = await attempt.wait()
        except Exception as error:
            # Whatever has failed: a container that goes on would keep devices that others get.
            attempt.kill()
            observed.exit = await attempt.wait()
            if not isinstance(error, TimeoutError):
                raise
        self._context.state.notify_changed()

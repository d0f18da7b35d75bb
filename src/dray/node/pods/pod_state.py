"""The state of one pod on its node, which its worker changes and its status reporter reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from dray.api.semantics import pod_status as pod_predicates
from dray.api.types.pods import Pod
from dray.node.devices.preparation import ClaimsOfPod
from dray.node.pods.pod_status import Containers, ObservedContainer, PodFailure


class PodState:
    """A pod with its containers, claims and volumes. Call `notify_changed` after a change."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.containers: Containers = {
            container.name: ObservedContainer()
            for container in (*pod.spec.init_containers, *pod.spec.containers)
        }
        self.prepared_claims: ClaimsOfPod = {}
        self.volumes: dict[str, Path] = {}
        """The folder behind each volume."""
        self.is_over = pod_predicates.has_ended(pod)
        self.failure: PodFailure | None = None
        self.unreported = asyncio.Event()
        """Set while there is a change that the API does not show yet."""
        self._changed = asyncio.Event()

    def notify_changed(self) -> None:
        self.unreported.set()
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a condition, which is evaluated again after every change."""
        while not holds():
            await self._changed.wait()

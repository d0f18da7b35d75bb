"""Claims and volumes of a pod: prepared before its first container, given back after the last."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from dray.api import well_known
from dray.node.devices.preparation import ClaimsOfPod
from dray.node.pods.context import PodWorkerContext
from dray.node.pods.volumes import Volumes
from dray.protocol.services import DEFAULT_TIMEOUT_SECONDS as CALL_SECONDS

SLOW_SECONDS: Final = 5.0
"""A driver that has not answered by then is named in an event."""


class PodPreparation:
    """Prepares what a pod needs on its node. Each step is retried until it succeeds."""

    def __init__(self, context: PodWorkerContext) -> None:
        self._context = context

    async def prepare(self) -> None:
        """Fill in the claims and volumes of the pod's state."""
        context, state = self._context, self._context.state
        claims = await context.retry(self._prepare_claims, well_known.FAILED_PREPARE_REASON)
        state.prepared_claims = claims
        state.volumes = await context.retry(self._make_volumes, "FailedMount")

    async def unprepare(self) -> None:
        """Give back every claim that was prepared for the pod."""

        async def unprepare() -> None:
            await self._context.node.preparation.unprepare(self._context.uid)

        await self._context.retry(unprepare, "FailedUnprepareDynamicResources")

    async def _prepare_claims(self) -> ClaimsOfPod:
        slow = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._warn_of_slow_driver)
        try:
            return await self._context.node.preparation.prepare(self._context.pod)
        finally:
            slow.cancel()

    def _warn_of_slow_driver(self) -> None:
        if waiting := self._context.node.preparation.waits_for(self._context.uid):
            self._context.record_warning(
                "SlowPrepareDynamicResources",
                f"{waiting} after {SLOW_SECONDS:.0f} s; it is given up after {CALL_SECONDS:.0f} s",
            )

    async def _make_volumes(self) -> dict[str, Path]:
        node = self._context.node
        volumes = Volumes(node.client, node.folder, node.runtime_config.allows_host)
        return await volumes.prepare(self._context.pod)

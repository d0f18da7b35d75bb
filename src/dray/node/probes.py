"""Probes of a running container: has it started, does it live, is it ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from dray.api.containers import Probe
from dray.node.actions import Actions
from dray.node.observation import Observed


class Prober:
    """Probes one start of a container and keeps what is known of it current.

    `changed` is called when readiness changes, `dead` with a reason when the container must go.
    """

    def __init__(
        self,
        actions: Actions,
        seen: Observed,
        changed: Callable[[], None],
        dead: Callable[[str], None],
    ) -> None:
        self._actions = actions
        self._seen = seen
        self._changed = changed
        self._dead = dead

    async def run(self) -> None:
        """Until cancelled, which happens when the container ends."""
        container = self._actions.container
        if container.startup_probe is not None and not await self._starts(container.startup_probe):
            return
        self._seen.is_started = True
        self._set_ready(container.readiness_probe is None)
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe is not None:
                group.create_task(self._watch_readiness(container.readiness_probe))
            if container.liveness_probe is not None:
                group.create_task(self._watch_liveness(container.liveness_probe, "Liveness"))

    async def _starts(self, probe: Probe) -> bool:
        async for verdict in self._verdicts(probe):
            if verdict:
                return True
            self._dead("Startup probe failed")
            return False
        return False

    async def _watch_readiness(self, probe: Probe) -> None:
        async for verdict in self._verdicts(probe):
            self._set_ready(verdict)

    async def _watch_liveness(self, probe: Probe, word: str) -> None:
        async for verdict in self._verdicts(probe):
            if not verdict:
                self._dead(f"{word} probe failed")
                return

    async def _verdicts(self, probe: Probe) -> AsyncIterator[bool]:
        """What the probe's thresholds make of its results, whenever one of them is reached."""
        await asyncio.sleep(probe.initial_delay_seconds)
        in_a_row, last = 0, None
        while True:
            result = await self._actions.succeeds(probe, probe.timeout_seconds or 1)
            in_a_row = in_a_row + 1 if result == last else 1
            last = result
            threshold = probe.success_threshold or 1 if result else probe.failure_threshold or 3
            if in_a_row >= threshold:
                yield result
            await asyncio.sleep(probe.period_seconds or 10)

    def _set_ready(self, ready: bool) -> None:
        if self._seen.is_ready != ready:
            self._seen.is_ready = ready
            self._changed()

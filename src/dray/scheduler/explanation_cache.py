"""Explanations of claims without devices: computed one at a time, cached until something changes.

Nothing can be scheduled while the inventory is read, so explanations may take only a part of the
time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import msgspec

from dray.api.ids import ClaimKey
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.scheduler.cluster_state import SchedulerState

EXPLANATION_SECONDS = 3.0
"""The least time between two explanations of the same requests."""
EXPLANATIONS_LIMIT = 256
REST_FACTOR = 4
"""The pause after an explanation, as a multiple of its duration."""
MAX_CHARACTERS = 1024

Wording = Callable[[tuple[ClaimKey, ...]], str]
"""Return an explanation as text about the claims with these names, in the order of the pod."""
Why = Callable[[Pod, Sequence[ResourceClaim]], Wording]
"""Explain why a pod's claims cannot be allocated; the result holds for all with equal requests.

Reads the inventory, which must not change meanwhile.
"""


class _Explained(NamedTuple):
    at: float
    version: int
    wording: Wording


class ExplanationCache:
    """Explanations by requests: pods that ask for the same share one."""

    def __init__(self, state: SchedulerState, why: Why) -> None:
        self._state, self._why = state, why
        self._cache: dict[Hashable, _Explained] = {}
        self._lock = asyncio.Lock()
        self._not_before = 0.0

    async def of(self, pod: Pod, claims: Sequence[ResourceClaim]) -> Wording | float:
        """Return an explanation that is true now, or the time at which there may be another."""
        key = _key(pod, claims)
        async with self._lock:
            cached = self._cache.get(key)
            if cached is not None and cached.version == self._state.queue.version:
                return cached.wording
            due = cached.at + EXPLANATION_SECONDS if cached is not None else 0.0
            if due > _now():
                return due
            await asyncio.sleep(max(self._not_before - _now(), 0.0))
            return await self._explain(key, pod, claims)

    async def _explain(self, key: Hashable, pod: Pod, claims: Sequence[ResourceClaim]) -> Wording:
        async with self._state.exclusively():
            version = self._state.queue.version
            started = time.perf_counter()
            wording = await asyncio.to_thread(self._why, pod, claims)
            cost = time.perf_counter() - started
        self._not_before = _now() + cost * REST_FACTOR
        if len(self._cache) >= EXPLANATIONS_LIMIT:
            self._cache.clear()
        self._cache[key] = _Explained(_now(), version, wording)
        return wording


def _key(pod: Pod, claims: Sequence[ResourceClaim]) -> Hashable:
    """Return a key that is equal for pods with equal explanations, except for names."""
    allowed = tuple(sorted(pod.spec.node_selector.items()))
    return allowed, tuple(
        msgspec.json.encode(
            claim.spec.devices
            if claim.status.allocation is None
            else (claim.status.allocation.node_selector,)
        )
        for claim in claims
    )


def _now() -> float:
    return asyncio.get_running_loop().time()

"""Answers ResourcePoolStatusRequests once, and deletes them an hour later.

Behaviour of pkg/controller/resourcepoolstatusrequest, except that a pool which stays incomplete is
reported as such after a while. Upstream leaves such a request without a status.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import msgspec

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.ids import PoolId
from dray.api.types import dra
from dray.api.types.dra import PoolStatus, ResourcePoolStatusRequest, ResourceSlice
from dray.api.types.meta import Condition
from dray.client import object_writes
from dray.client.cache import ObjectChange
from dray.controllers import status_patches
from dray.controllers.devices import pool_summary
from dray.controllers.loops import Context, Loop

COMPLETE, FAILED = "Complete", "Failed"
DEFAULT_LIMIT = 100
ANSWERED_SECONDS, UNANSWERED_SECONDS = 3600.0, 24 * 3600.0
PATIENCE_SECONDS = 5.0
"""Time that a driver has to publish the rest of a pool before it is reported as incomplete."""


class PoolStatuses(Loop[str]):
    """The loop that answers requests. Keys are names of requests."""

    def __init__(self, context: Context) -> None:
        super().__init__("pool-status", context, workers=1)
        shared = context.caches
        self._requests = shared.pool_status_requests
        self._slices, self._claims = shared.slices, shared.claims
        self._rules = shared.taint_rules if context.features.device_taint_rules else None
        self._waiting: dict[str, float] = {}
        self.follow(self._requests, lambda change: self.queue.add(change.key.name))
        self.follow(self._slices, self._slice_changed)

    def resync(self) -> None:
        for request in self._requests:
            self.queue.add(request.metadata.name)

    def _slice_changed(self, _: ObjectChange[ResourceSlice]) -> None:
        for name in self._waiting:
            self.queue.add(name)

    async def reconcile(self, key: str) -> float | None:
        request = self._requests.get(key)
        if request is None:
            self._waiting.pop(key, None)
            return None
        if request.status is None:
            wait = await self._answer(request)
            if wait:
                return wait
        return await self._expire(request)

    async def _answer(self, request: ResourcePoolStatusRequest) -> float:
        """Write the status. Returns the seconds to wait for incomplete pools."""
        pools = self._pools(request)
        is_incomplete = any(
            (pool.validation_error or "").startswith(pool_summary.INCOMPLETE) for pool in pools
        )
        name, now = request.metadata.name, asyncio.get_running_loop().time()
        if is_incomplete:
            left = self._waiting.setdefault(name, now) + PATIENCE_SECONDS - now
            if left > 0:
                return left
        self._waiting.pop(name, None)
        status = self._status(request, pools)
        with contextlib.suppress(errors.NotFound):
            await status_patches.patch_status(
                self.client,
                kinds.RESOURCE_POOL_STATUS_REQUEST,
                request.metadata,
                dra.ResourcePoolStatusRequestStatus(),
                status,
            )
        return 0.0

    def _pools(self, request: ResourcePoolStatusRequest) -> list[PoolStatus]:
        """Return the status of every pool that the request selects, ordered by name."""
        spec = request.spec
        by_pool: dict[str, list[ResourceSlice]] = {}
        for resource_slice in self._slices:
            pool = resource_slice.spec.pool.name
            if resource_slice.spec.driver == spec.driver and spec.pool_name in (None, pool):
                by_pool.setdefault(pool, []).append(resource_slice)
        used = pool_summary.uses(self._results())
        rules = list(self._rules or ())
        return [
            pool_summary.pool_status(
                sorted(slices, key=lambda item: item.metadata.name),
                used.get(PoolId(spec.driver, pool), pool_summary.PoolUse()),
                rules,
                spec.default_partition_type_attribute,
            )
            for pool, slices in sorted(by_pool.items())
        ]

    def _results(self) -> Iterator[dra.DeviceRequestAllocationResult]:
        for claim in self._claims:
            if claim.status.allocation is not None:
                yield from claim.status.allocation.devices.results
        for broken in self._claims.undecodable.values():
            # What cannot be read as a whole still holds its devices.
            with contextlib.suppress(msgspec.ValidationError, KeyError, TypeError):
                results = broken.raw["status"]["allocation"]["devices"]["results"]
                yield from msgspec.convert(results, list[dra.DeviceRequestAllocationResult])

    def _status(
        self, request: ResourcePoolStatusRequest, pools: list[PoolStatus]
    ) -> dra.ResourcePoolStatusRequestStatus:
        shown = pools[: DEFAULT_LIMIT if request.spec.limit is None else request.spec.limit]
        flawed = sum(pool.validation_error is not None for pool in shown)
        message = f"Calculated status for {len(shown)} pools"
        if flawed:
            message += f" ({flawed} incomplete)"
        condition = Condition(
            type=COMPLETE,
            status="True",
            reason="CalculationComplete",
            message=message,
            last_transition_time=gotime.write(self.now()),
        )
        return dra.ResourcePoolStatusRequestStatus(
            pool_count=len(pools), pools=tuple(shown), conditions=(condition,)
        )

    async def _expire(self, request: ResourcePoolStatusRequest) -> float | None:
        since, seconds = request.metadata.creation_timestamp, UNANSWERED_SECONDS
        if request.status is not None:
            seconds = ANSWERED_SECONDS
            for condition in request.status.conditions:
                if condition.type in (COMPLETE, FAILED):
                    since = condition.last_transition_time
        if since is None:
            return None
        left = seconds - (self.now() - gotime.parse(since)).total_seconds()
        if left > 0:
            return left
        kind = kinds.RESOURCE_POOL_STATUS_REQUEST
        with contextlib.suppress(errors.NotFound):
            await object_writes.delete(self.client, kind, request.metadata)
        return None

"""Leader election on a Lease, with the rules of client-go's leaderelection."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dray import supervision
from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.http_messages import Request, Response
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client, Transport

log = logging.getLogger(__name__)

JITTER = 1.2
_READS = ("GET", "HEAD")


class LeadershipLost(Exception):
    """The lease could not be renewed in time, or another candidate holds it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of a lease; the defaults are those of Kubernetes' components.

    Raises ValueError unless a leader that cannot renew stops before its lease ends.
    """

    duration_seconds: float = 15.0
    deadline_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_seconds < self.deadline_seconds < self.duration_seconds:
            raise ValueError(f"a lease needs retry < deadline < duration: {self}")


class _LeaderTransport:
    """Sends writes only while the lease lasts."""

    def __init__(self, transport: Transport, election: LeaderElection) -> None:
        self._transport, self._election = transport, election

    async def send(self, request: Request) -> Response:
        if request.method not in _READS and not self._election.is_lease_valid:
            raise errors.service_unavailable(
                f"this process no longer leads as {self._election.name}: not sent"
            )
        return await self._transport.send(request)


class LeaderElection:
    """One candidate for one lease. `identity` must differ between candidates."""

    def __init__(
        self,
        client: Client,
        name: str,
        identity: str,
        *,
        now: Callable[[], datetime.datetime],
        namespace: str = "kube-system",
        timing: Timing | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self.name, self.namespace = name, namespace
        self._identity = identity
        self._timing = timing or Timing()
        self._now = now
        self._jitter = jitter
        self._lease: JsonObject | None = None
        self._seen_at = 0.0
        self._renewed_at = -math.inf

    @property
    def is_lease_valid(self) -> bool:
        """Whether the lease, as it was last renewed, has not ended."""
        now = asyncio.get_running_loop().time()
        return self.is_leading and now < self._renewed_at + self._timing.duration_seconds

    def as_leader(self, client: Client) -> Client:
        """Return a client that sends writes only while this candidate holds the lease.

        Work that was suspended longer than the lease cannot write before it notices.
        """
        return client.wrapped(lambda transport: _LeaderTransport(transport, self))

    @property
    def is_leading(self) -> bool:
        """Whether this candidate holds the lease as far as it has read."""
        return self._holder() == self._identity

    @property
    def is_standing_by(self) -> bool:
        """Whether another candidate holds the lease as far as this one has read."""
        return self._holder() not in ("", self._identity)

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then `lead` under it until that returns; may be run again after.

        Raises LeadershipLost, with `lead` cancelled, when the lease is lost meanwhile.
        """
        self._lease = None
        while not await self._attempt():
            await asyncio.sleep(self._timing.retry_seconds * (1 + JITTER * self._jitter()))
        log.info("%s leads as %s", self._identity, self.name)
        lost: Exception | None = None
        async with self._released():
            try:
                async with asyncio.TaskGroup() as group:
                    renewal = group.create_task(self._keep_renewing(), name=f"lease-{self.name}")
                    await lead()
                    renewal.cancel()
            except* LeadershipLost as losses:
                lost = losses.exceptions[0]
            # Not in `except*`: before Python 3.11.4, what is raised there is wrapped in a group.
            if lost is not None:
                supervision.raise_if_cancelled()
                raise lost

    async def _keep_renewing(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._timing.retry_seconds)
            deadline = self._renewed_at + self._timing.deadline_seconds
            try:
                async with asyncio.timeout_at(deadline):
                    renewed = await self._attempt()
            except TimeoutError:
                renewed = False
            if not renewed and (not self.is_leading or loop.time() >= deadline):
                raise LeadershipLost(f"the lease {self.namespace}/{self.name} was lost")

    async def _attempt(self) -> bool:
        """Acquire or renew the lease if that is allowed. Returns whether it is held now."""
        try:
            if not self.is_leading:
                self._observe(await self._read())
            if not self._may_take():
                return False
            # Before the request: for others the lease starts when the server has written it.
            started = asyncio.get_running_loop().time()
            self._observe(await self._write())
            self._renewed_at = started
        except errors.Conflict:
            # Another candidate wrote between the read and the write; the next attempt sees it.
            with contextlib.suppress(errors.StatusError):
                self._observe(await self._read())
            return False
        except errors.StatusError as error:
            log.warning("lease %s/%s: %s", self.namespace, self.name, error)
            return False
        return True

    async def _read(self) -> JsonObject | None:
        try:
            return await self._client.get(kinds.LEASE, self.name, self.namespace)
        except errors.NotFound:
            return None

    async def _write(self) -> JsonObject:
        if self._lease is None:
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": self._next_spec({}),
            }
            return await self._client.create(kinds.LEASE, body, self.namespace)
        # The whole object as it was read: the roles of Kubernetes allow no patch on leases.
        return await self._client.replace(
            kinds.LEASE, {**self._lease, "spec": self._next_spec(self._lease.get("spec") or {})}
        )

    def _next_spec(self, spec: dict[str, Any]) -> dict[str, Any]:
        now = gotime.write(self._now(), gotime.MICROSECONDS)
        following = {
            **spec,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self._timing.duration_seconds) or 1,
            "renewTime": now,
        }
        if spec.get("holderIdentity") != self._identity:
            following["acquireTime"] = now
            following["leaseTransitions"] = spec.get("leaseTransitions", 0) + bool(spec)
        return following

    def _may_take(self) -> bool:
        if self._holder() in ("", self._identity) or self._lease is None:
            return True
        seconds = (self._lease.get("spec") or {}).get("leaseDurationSeconds") or 0
        return asyncio.get_running_loop().time() > self._seen_at + seconds

    def _holder(self) -> str:
        spec = (self._lease or {}).get("spec") or {}
        return spec.get("holderIdentity") or ""

    def _observe(self, lease: JsonObject | None) -> None:
        if lease is None or self._lease is None or lease.get("spec") != self._lease.get("spec"):
            self._seen_at = asyncio.get_running_loop().time()
        self._lease = lease

    @contextlib.asynccontextmanager
    async def _released(self) -> AsyncIterator[None]:
        """Release the lease at the end, so that the next leader need not wait for it to expire."""
        try:
            yield
        finally:
            if self.is_leading:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._timing.deadline_seconds):
                        await self._release()

    async def _release(self) -> None:
        while self.is_leading and self._lease is not None:
            now = gotime.write(self._now(), gotime.MICROSECONDS)
            spec = {**self._lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            spec.update(renewTime=now, acquireTime=now)
            try:
                self._lease = await self._client.replace(kinds.LEASE, {**self._lease, "spec": spec})
            except errors.Conflict:
                # A renewal that was cancelled may have reached the server all the same.
                self._lease = await self._read()
            except errors.StatusError as error:
                log.warning("lease %s/%s not released: %s", self.namespace, self.name, error)
                return


async def run_whenever_leading(
    election: LeaderElection, name: str, work: Callable[[], Awaitable[None]]
) -> None:
    """Do the work whenever this process leads. After a lost lease, wait to lead again."""

    async def lead() -> None:
        await supervision.run_forever(name, work)

    while True:
        with contextlib.suppress(LeadershipLost):
            await election.run(lead)
        log.warning("this process no longer leads as %s", election.name)

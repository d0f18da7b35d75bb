"""The driver's side of the plugin API: registration, prepare, unprepare and health over sockets.

Two sockets, as kubelets expect them: one in the registry, where the node agent finds new drivers,
and one for the calls themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from dray.api import errors, kinds
from dray.api.conversion import canonical
from dray.api.types.dra import ResourceClaim
from dray.client.api_client import Client
from dray.driverkit.driver import DeviceHealth, PrepareError
from dray.driverkit.metrics import Metrics
from dray.driverkit.prepared_claims import PreparedClaims, PreparedDevice
from dray.driverkit.sockets import Listener, Sockets
from dray.protocol import services
from dray.protocol.services import Service

log = logging.getLogger(__name__)


HEALTH_SECONDS: Final = 10.0


class HealthFeed:
    """The latest health of every device. Watchers get every change, and a beat in between."""

    def __init__(self, pool: str) -> None:
        self.pool = pool
        self._current: tuple[DeviceHealth, ...] = ()
        self._changed = asyncio.Event()

    def set(self, current: Iterable[DeviceHealth]) -> None:
        self._current = tuple(current)
        self._changed.set()
        self._changed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        while True:
            changed = self._changed
            yield self._current
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEALTH_SECONDS):
                    await changed.wait()


@dataclass(frozen=True)
class PluginServer:
    """Serves one driver. `serving` is entered when both sockets listen."""

    driver: str
    client: Client
    claims: PreparedClaims
    health: HealthFeed
    sockets: Sockets
    metrics: Metrics
    prepared: Callable[[str], None]
    """Called with the uid of each claim that was prepared."""
    registered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a node agent has registered the driver."""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve while the block runs; calls are served before the registration invites them."""
        calls = Listener(self.sockets.plugin, self._add_calls)
        registration = Listener(self.sockets.registration, self._add_registration)
        async with calls.listening(), registration.listening():
            yield

    def _add_calls(self, server: grpc.aio.Server) -> None:
        for dra in _DRA:
            services.serve(server, dra, self._dra_answers(dra))
        for health in _HEALTH:
            watch = self._health_answer(health)
            services.serve(server, health, {"NodeWatchResources": watch})

    def _add_registration(self, server: grpc.aio.Server) -> None:
        services.serve(server, services.REGISTRATION, self._registration_answers())

    def _registration_answers(self) -> services.Answers:
        messages = services.REGISTRATION.messages

        async def info(_request: Any, _context: Any) -> Any:
            return messages.PluginInfo(
                type=services.PLUGIN_TYPE,
                name=self.driver,
                endpoint=str(self.sockets.plugin),
                supported_versions=[service.version for service in (*_DRA, *_HEALTH)],
            )

        async def notify(status: Any, context: Any) -> Any:
            if not status.plugin_registered:
                log.error(
                    "%s was not registered by the node agent that watches %s: %s",
                    self.driver,
                    self.sockets.registration.parent,
                    status.error,
                )
                await context.abort(grpc.StatusCode.UNKNOWN, f"not registered: {status.error}")
            registry = self.sockets.registration.parent
            log.info("%s is registered by the node agent that watches %s", self.driver, registry)
            self.metrics.registrations.add(self.driver)
            self.registered.set()
            return messages.RegistrationStatusResponse()

        return {"GetInfo": info, "NotifyRegistrationStatus": notify}

    def _dra_answers(self, service: Service) -> services.Answers:
        messages = service.messages

        async def prepare(request: Any, _context: Any) -> Any:
            response = messages.NodePrepareResourcesResponse()
            for claim in request.claims:
                claim_response = response.claims[claim.uid]
                devices, claim_response.error = await self._outcome("prepare", self._prepare(claim))
                claim_response.devices.extend(_device(messages, device) for device in devices or ())
            return response

        async def unprepare(request: Any, _context: Any) -> Any:
            response = messages.NodeUnprepareResourcesResponse()
            for claim in request.claims:
                claim_response = response.claims[claim.uid]
                work = self.claims.unprepare(claim.uid)
                _, claim_response.error = await self._outcome("unprepare", work)
            return response

        return {"NodePrepareResources": prepare, "NodeUnprepareResources": unprepare}

    async def _prepare(self, request: Any) -> Sequence[PreparedDevice]:
        """Read the claim from the API server; the node agent sends only its name."""
        document = await self.client.get(kinds.RESOURCE_CLAIM, request.name, request.namespace)
        claim = msgspec.convert(canonical.prune_nulls(document), ResourceClaim)
        if claim.metadata.uid != request.uid:
            raise PrepareError(f"claim {request.namespace}/{request.name} was replaced by another")
        devices = await self.claims.prepare(claim)
        self.prepared(claim.metadata.uid)
        return devices

    async def _outcome(self, operation: str, work: Awaitable[Any]) -> tuple[Any, str]:
        """Run work for one claim and return its result or error; other claims of the call go on."""
        with self.metrics.timed(operation) as timing:
            try:
                return await work, ""
            except (PrepareError, errors.StatusError, OSError) as error:
                timing.has_failed = True
                return None, str(error)

    def _health_answer(self, service: Service) -> Callable[[Any, Any], AsyncIterator[Any]]:
        messages = service.messages

        async def watch(_request: Any, _context: Any) -> AsyncIterator[Any]:
            async for current in self.health:
                now = int(time.time())
                yield messages.NodeWatchResourcesResponse(
                    devices=[_health(messages, self.health.pool, report, now) for report in current]
                )

        return watch


_DRA = (services.DRA_V1, services.DRA_V1BETA1)
_HEALTH = (services.HEALTH_V1, services.HEALTH_V1ALPHA1)


def _device(messages: Any, device: PreparedDevice) -> Any:
    message = messages.Device(
        request_names=device.requests,
        pool_name=device.pool,
        device_name=device.device,
        cdi_device_ids=device.cdi_ids,
    )
    if device.share_id is not None and "share_id" in messages.Device.DESCRIPTOR.fields_by_name:
        message.share_id = device.share_id
    return message


def _health(messages: Any, pool: str, device: DeviceHealth, now: int) -> Any:
    return messages.DeviceHealth(
        device=messages.DeviceIdentifier(pool_name=pool, device_name=device.device),
        health=device.health.value,
        last_updated_time=now,
        message=device.message,
    )

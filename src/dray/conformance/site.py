"""The node of the driver under test: its sockets, its slices and the calls of a node agent."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import grpc
import grpc.aio
import msgspec

from dray.api import kinds
from dray.api.conversion import canonical
from dray.api.types.dra import ResourceSlice
from dray.client.api_client import Client, ObjectSelection
from dray.conformance.check import CheckFailed, NotApplicable
from dray.conformance.claims import ClaimMaker, ClaimPlan, ClaimUnderTest
from dray.conformance.driver_process import DriverProcess, Launcher
from dray.driverkit.plugin import Directories
from dray.node.devices.drivers import ClaimReference, DriverDevice
from dray.protocol import services
from dray.protocol.services import Caller, Service

T = TypeVar("T")
PREPARE: Final = "NodePrepareResources"
UNPREPARE: Final = "NodeUnprepareResources"
LOOK_SECONDS: Final = 0.05
ASK_SECONDS: Final = 2.0
COMPLETE_SECONDS: Final = 3.0
DRA_SERVICES: Final = (services.DRA_V1, services.DRA_V1BETA1)
HEALTH_SERVICES: Final = (services.HEALTH_V1, services.HEALTH_V1ALPHA1)


@dataclass(frozen=True)
class Patience:
    """The times that the checks wait for a driver."""

    register_seconds: float = 30.0
    publish_seconds: float = 30.0
    restore_seconds: float = 45.0
    """Kubernetes' own helper for drivers publishes a deleted slice again after 30 s."""
    call_seconds: float = 20.0
    answer_seconds: float = 10.0
    """The longest time that a call may take."""
    end_seconds: float = 10.0


class CallFailed(Exception):
    """A call without an answer; the message has the method and the status."""


class Answer(NamedTuple):
    """The part of a response that belongs to one claim."""

    devices: tuple[DriverDevice, ...] = ()
    error: str = ""


class DriverRegistration(NamedTuple):
    """A driver behind a registration socket."""

    socket: Path
    type: str
    name: str
    endpoint: str
    versions: tuple[str, ...]

    def first_of(self, known: Sequence[Service]) -> Service | None:
        return next((service for service in known if service.version in self.versions), None)


class Site:
    """One node with the driver under test, for one run of the suite."""

    def __init__(
        self,
        client: Client,
        node: str,
        places: Directories,
        *,
        launcher: Launcher | None = None,
        socket: Path | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.client = client
        self.node = node
        self.places = places
        self.launcher = launcher
        self.patience = patience or Patience()
        self.claims = ClaimMaker(client, is_reserved=launcher is not None)
        self.process: DriverProcess | None = None
        self.longest: dict[str, float] = {}
        """The longest call so far, in seconds, by method."""
        self.refusals: list[str] = []
        """The texts with which claims were refused on purpose."""
        self._socket = socket
        self._registration: DriverRegistration | None = None
        self._has_given_up = False
        """Whether the driver had its time to register."""
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def start(self) -> None:
        """Start the driver where the suite runs it. Raises CommandInvalid."""
        if self.launcher is not None:
            self.process = await self.launcher.start(str(uuid.uuid4()))

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        if self.launcher is not None:
            await self.launcher.end()

    @property
    def state(self) -> str:
        return self.process.state if self.process else "the driver is not run by this suite"

    def need_process(self) -> tuple[Launcher, DriverProcess]:
        """Return how to start and end the driver. Raises NotApplicable with --socket."""
        if self.launcher is None or self.process is None:
            raise NotApplicable("needs --command: the suite has to start and end the driver")
        return self.launcher, self.process

    async def registrations(self) -> list[DriverRegistration]:
        """Return what answers on the registration sockets now."""
        sockets = [self._socket] if self._socket else sorted(self.places.registry.glob("*.sock"))
        asked = await asyncio.gather(*(self._introduced(path) for path in sockets))
        return [found for found in asked if found is not None]

    async def wait_for_registration(self) -> DriverRegistration:
        """Wait for a driver behind a registration socket. Raises TimeoutError, later at once."""

        async def look() -> DriverRegistration | None:
            found = await self.registrations()
            return found[-1] if found else None

        wait = 0.0 if self._has_given_up else self.patience.register_seconds
        try:
            return await until(look, wait, self._has_ended)
        except TimeoutError:
            self._has_given_up = True
            raise

    async def registration(self) -> DriverRegistration:
        """Return the driver's registration. Raises NotApplicable where it has none."""
        if self._registration is None:
            try:
                self._registration = await self.wait_for_registration()
            except TimeoutError:
                seen = "the driver is not registered: see registration.socket"
                raise NotApplicable(seen) from None
            self.claims.driver, self.claims.node = self._registration.name, self.node
        return self._registration

    def forget(self) -> None:
        """Forget the registration, because the process has changed."""
        self._registration = None
        self._has_given_up = False

    def use(self, registered: DriverRegistration) -> None:
        """Call this process of the driver from now on."""
        self._registration = registered

    async def slices(self) -> tuple[ResourceSlice, ...]:
        """Return the driver's slices for this node in the API now."""
        found = await self.slices_of_every_node()
        return tuple(one for one in found if one.spec.node_name in (None, self.node))

    async def slices_of_every_node(self) -> tuple[ResourceSlice, ...]:
        driver = (await self.registration()).name
        selection = ObjectSelection(field_selector=f"spec.driver={driver}")
        page = await self.client.list(kinds.RESOURCE_SLICE, selection)
        decoded = (msgspec.json.decode(raw) for raw in page.items)
        return tuple(msgspec.convert(canonical.prune_nulls(one), ResourceSlice) for one in decoded)

    async def published(self) -> tuple[ResourceSlice, ...]:
        """Return the slices as first seen with a device. Raises NotApplicable without one."""
        if not self.claims.slices:
            try:
                wait = self.patience.publish_seconds
                await until(self._with_devices, wait, self._has_ended)
            except TimeoutError:
                raise NotApplicable("no device is published: see slices.published") from None
            # A pool that stays incomplete has a check of its own.
            with contextlib.suppress(TimeoutError):
                await until(self._complete, COMPLETE_SECONDS, self._has_ended)
            self.claims.slices = await self.slices()
        return self.claims.slices

    async def _with_devices(self) -> bool:
        return any(one.spec.devices for one in await self.slices())

    async def _complete(self) -> bool:
        found = await self.slices()
        counts = Counter(one.spec.pool.name for one in found)
        return all(
            counts[one.spec.pool.name] == one.spec.pool.resource_slice_count for one in found
        )

    @contextlib.asynccontextmanager
    async def made(self, *plans: ClaimPlan) -> AsyncIterator[list[ClaimUnderTest]]:
        """Make claims; at the end unprepare and delete them, whatever the driver answers."""
        await self.registration()
        await self.published()
        async with self.claims.made(plans) as made:
            try:
                yield made
            finally:
                with contextlib.suppress(CallFailed, NotApplicable, TimeoutError):
                    await self.unprepare([claim.reference for claim in made])

    async def prepare(
        self, claims: Sequence[ClaimReference], service: Service | None = None
    ) -> Mapping[str, Answer]:
        """Call NodePrepareResources; answers by uid. Raises CallFailed."""
        response = await self._call(PREPARE, claims, service)
        driver = (await self.registration()).name
        return {uid: _answer(driver, entry) for uid, entry in response.claims.items()}

    async def unprepare(
        self, claims: Sequence[ClaimReference], service: Service | None = None
    ) -> Mapping[str, str]:
        """Call NodeUnprepareResources; errors by uid. Raises CallFailed."""
        response = await self._call(UNPREPARE, claims, service)
        return {uid: entry.error for uid, entry in response.claims.items()}

    async def devices_of(
        self, claim: ClaimUnderTest, service: Service | None = None
    ) -> tuple[DriverDevice, ...]:
        """Prepare a claim and return its devices. Raises CheckFailed where it is refused."""
        answer = (await self.prepare([claim.reference], service)).get(claim.uid)
        if answer is None:
            raise CheckFailed(f"{PREPARE} of {claim}: the answer has no entry for its uid")
        if answer.error:
            raise CheckFailed(f"{PREPARE} of {claim} failed: {answer.error}")
        return answer.devices

    async def released(self, claim: ClaimUnderTest) -> None:
        """Unprepare a claim. Raises CheckFailed where that is refused."""
        error = (await self.unprepare([claim.reference])).get(claim.uid)
        if error is None:
            raise CheckFailed(f"{UNPREPARE} of {claim}: the answer has no entry for its uid")
        if error:
            raise CheckFailed(f"{UNPREPARE} of {claim} failed: {error}")

    async def refusal_of(self, reference: ClaimReference) -> str:
        """Return the text with which a claim is refused, also as the call's own status.

        Raises CheckFailed where it is prepared.
        """
        try:
            answer = (await self.prepare([reference])).get(reference.uid, Answer())
        except CallFailed as error:
            return str(error)
        if not answer.error:
            with contextlib.suppress(CallFailed):
                await self.unprepare([reference])
            names = ", ".join(device.device for device in answer.devices) or "no devices"
            raise CheckFailed(f"the claim was prepared without an error, with {names}")
        self.refusals.append(answer.error)
        return answer.error

    async def caller(self, known: Sequence[Service]) -> Caller:
        """Return a caller of the newest listed service. Raises NotApplicable without one."""
        registered = await self.registration()
        service = registered.first_of(known)
        if service is None:
            versions = " or ".join(service.version for service in known)
            raise NotApplicable(f"the driver does not list {versions}")
        return self.caller_of(registered, service)

    def caller_of(self, registered: DriverRegistration, service: Service) -> Caller:
        return Caller(self._channel(registered.endpoint or str(registered.socket)), service)

    async def _call(
        self, method: str, claims: Sequence[ClaimReference], service: Service | None
    ) -> Any:
        chosen = service or (await self.registration()).first_of(DRA_SERVICES)
        if chosen is None:
            raise NotApplicable("the driver lists no version of the service DRAPlugin")
        caller = await self.caller([chosen])
        messages = [
            chosen.messages.Claim(namespace=one.namespace, name=one.name, uid=one.uid)
            for one in claims
        ]
        request = chosen.methods[method].request(claims=messages)
        begun = time.monotonic()
        try:
            return await caller.call(method, request, self.patience.call_seconds)
        except grpc.aio.AioRpcError as error:
            raise CallFailed(f"{method}: {error.code().name}: {error.details()}") from error
        finally:
            took = time.monotonic() - begun
            self.longest[method] = max(took, self.longest.get(method, 0.0))

    async def _introduced(self, path: Path) -> DriverRegistration | None:
        async with grpc.aio.insecure_channel(services.address(path)) as channel:
            caller = Caller(channel, services.REGISTRATION)
            try:
                info = await caller.call("GetInfo", caller.messages.InfoRequest(), ASK_SECONDS)
            except grpc.aio.AioRpcError:
                return None
        versions = tuple(info.supported_versions)
        return DriverRegistration(path, info.type, info.name, info.endpoint, versions)

    def _channel(self, endpoint: str) -> grpc.aio.Channel:
        if endpoint not in self._channels:
            # A restarted driver is called again at once, not after a growing pause.
            options = [
                ("grpc.max_reconnect_backoff_ms", 100),
                ("grpc.initial_reconnect_backoff_ms", 100),
            ]
            address = services.address(endpoint)
            self._channels[endpoint] = grpc.aio.insecure_channel(address, options)
        return self._channels[endpoint]

    def _has_ended(self) -> bool:
        return self.process is not None and not self.process.is_running


def _answer(driver: str, entry: Any) -> Answer:
    devices = tuple(
        DriverDevice(
            driver,
            tuple(device.request_names),
            device.pool_name,
            device.device_name,
            tuple(device.cdi_device_ids),
            getattr(device, "share_id", "") or None,
        )
        for device in entry.devices
    )
    return Answer(devices, entry.error)


async def together(work: Iterable[Awaitable[T]]) -> list[T]:
    """Await all to their end, also where one raises; then raise the first exception."""
    ended = await asyncio.gather(*work, return_exceptions=True)
    found: list[T] = []
    for one in ended:
        if isinstance(one, BaseException):
            raise one
        found.append(one)
    return found


async def until(
    look: Callable[[], Awaitable[T | None]],
    seconds: float,
    is_hopeless: Callable[[], bool] = lambda: False,
) -> T:
    """Look until something is found. Raises TimeoutError, at once where it is hopeless."""
    deadline = time.monotonic() + seconds
    while not (found := await look()):
        if time.monotonic() > deadline or is_hopeless():
            raise TimeoutError
        await asyncio.sleep(LOOK_SECONDS)
    return found

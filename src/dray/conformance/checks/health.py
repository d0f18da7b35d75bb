"""Checks of the health stream, for drivers that list the service DRAResourceHealth."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import grpc.aio

from dray.conformance.check import CheckFailed, Group, NotApplicable
from dray.conformance.site import HEALTH_SERVICES, Site

GROUP = Group("health", "kubelet/pkg/apis/dra-health/v1alpha1: api.proto")
FIRST_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 30.0
DAY_SECONDS: Final = 86_400
MESSAGE_CHARACTERS: Final = 1024
WATCH: Final = "NodeWatchResources"


@contextlib.asynccontextmanager
async def _stream(site: Site) -> AsyncIterator[Any]:
    caller = await site.caller(HEALTH_SERVICES)
    stream = caller.stream(WATCH, caller.messages.NodeWatchResourcesRequest())
    try:
        yield stream
    finally:
        stream.cancel()


async def _next(stream: Any, seconds: float) -> Any:
    """Return the next message. Raises CheckFailed without one, NotApplicable without a service."""
    try:
        async with asyncio.timeout(seconds):
            message = await stream.read()
    except TimeoutError:
        raise CheckFailed(f"the stream was silent for {seconds:g} s") from None
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise NotApplicable("the service is not served: see registration.served") from error
        raise CheckFailed(f"{WATCH}: {error.code().name}: {error.details()}") from error
    if message is grpc.aio.EOF:
        raise CheckFailed("the driver ended the stream")
    return message


@GROUP.check(
    "first",
    "A new stream begins with the health of the devices.",
    "Send the current health of all devices as soon as a stream is opened.",
)
async def first(site: Site) -> None:
    async with _stream(site) as stream:
        await _next(stream, FIRST_SECONDS)


@GROUP.check(
    "devices",
    "The stream names devices by pool and name as they are published, each once.",
    "Use the names of pool and device of the ResourceSlices.",
)
async def devices(site: Site) -> None:
    published = {
        (one.spec.pool.name, device.name)
        for one in await site.published()
        for device in one.spec.devices
    }
    async with _stream(site) as stream:
        message = await _next(stream, FIRST_SECONDS)
    named = [(one.device.pool_name, one.device.device_name) for one in message.devices]
    if unknown := sorted(set(named) - published):
        raise CheckFailed(f"the stream names devices that are not published: {unknown}")
    if len(named) != len(set(named)):
        raise CheckFailed("a message names a device more than once")


@GROUP.check(
    "values",
    "Health is one of UNKNOWN, HEALTHY and UNHEALTHY, with the time of the look in seconds.",
    "Set last_updated_time to seconds since 1970, and keep messages below 1024 characters.",
)
async def values(site: Site) -> None:
    async with _stream(site) as stream:
        message = await _next(stream, FIRST_SECONDS)
    for one in message.devices:
        name = one.device.device_name
        if one.health not in (0, 1, 2):
            raise CheckFailed(f"the health of {name} is {one.health}")
        if abs(one.last_updated_time - time.time()) > DAY_SECONDS:
            raise CheckFailed(f"last_updated_time of {name} is {one.last_updated_time}")
        if len(one.message) > MESSAGE_CHARACTERS:
            raise CheckFailed(f"the message of {name} has {len(one.message)} characters")


@GROUP.check(
    "several",
    "Two streams at once both get the health, as when a kubelet connects again.",
    "Keep no state that belongs to a single stream.",
)
async def several(site: Site) -> None:
    async with _stream(site) as one, _stream(site) as other:
        first = await _next(one, FIRST_SECONDS)
        second = await _next(other, FIRST_SECONDS)
    if len(first.devices) != len(second.devices):
        raise CheckFailed(
            f"{len(first.devices)} devices in one, {len(second.devices)} in the other"
        )


@GROUP.check(
    "regular",
    "An open stream gets a message at least every 30 s; kubelets take silence for Unknown.",
    "Send the current health again every 10 s, also where nothing has changed.",
    source="pkg/kubelet/cm/dra: healthinfo.go",
    in_background=True,
)
async def regular(site: Site) -> None:
    async with _stream(site) as stream:
        await _next(stream, FIRST_SECONDS)
        await _next(stream, SILENCE_SECONDS)

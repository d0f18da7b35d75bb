"""Checks of registration: a socket that the node agent finds, and what the driver says there."""

from __future__ import annotations

from pathlib import Path

import grpc
import grpc.aio

from dray.conformance.check import CheckFailed, Group
from dray.conformance.site import ASK_SECONDS, DRA_SERVICES, HEALTH_SERVICES, Site
from dray.driverkit.sockets import PATH_MAX
from dray.protocol import services
from dray.protocol.services import Caller, Service
from dray.validation import fields, identifiers

GROUP = Group("registration", "kubelet/pkg/apis/pluginregistration/v1: api.proto")
KNOWN_VERSIONS = tuple(service.version for service in (*DRA_SERVICES, *HEALTH_SERVICES))


@GROUP.check(
    "socket",
    "Soon after its start the driver serves GetInfo on a socket *.sock in the registry.",
    "Put the registration socket into {registry}; read the driver's log for why it is not there.",
    source="kubelet/pkg/apis/pluginregistration/v1: api.proto; pkg/kubelet/pluginmanager",
)
async def socket(site: Site) -> None:
    try:
        await site.wait_for_registration()
    except TimeoutError:
        found = sorted(path.name for path in site.places.registry.glob("*"))
        seen = f"no socket answers; the registry has {', '.join(found) or 'no files'}"
        raise CheckFailed(f"{seen}; {site.state}") from None


@GROUP.check(
    "type",
    "GetInfo says that the plugin's type is DRAPlugin.",
    'Set PluginInfo.type to "DRAPlugin".',
)
async def type_(site: Site) -> None:
    found = (await site.registration()).type
    if found != services.PLUGIN_TYPE:
        raise CheckFailed(f"the type is {found!r}")


@GROUP.check(
    "name",
    "The driver's name is a DNS subdomain of at most 63 characters.",
    "Choose a name below a domain that its vendor owns, in lower case, such as gpu.example.com.",
    source="api/resource/v1: types.go, ResourceSliceSpec.driver",
)
async def name(site: Site) -> None:
    found = (await site.registration()).name
    if problems := list(identifiers.driver_name(found, fields.Path("name"))):
        raise CheckFailed(f"the name is {found!r}: {problems[0]}")


@GROUP.check(
    "versions",
    "GetInfo lists v1.DRAPlugin or v1beta1.DRAPlugin, and nothing that kubelets do not know.",
    f"List the gRPC services that are served, of {', '.join(KNOWN_VERSIONS)}.",
    source="pkg/kubelet/cm/dra/plugin: registration.go",
)
async def versions(site: Site) -> None:
    found = (await site.registration()).versions
    shown = ", ".join(found) or "nothing"
    if not any(service.version in found for service in DRA_SERVICES):
        raise CheckFailed(f"it lists {shown}")
    if unknown := sorted(set(found) - set(KNOWN_VERSIONS)):
        raise CheckFailed(f"it lists {shown}; {', '.join(unknown)} is unknown")


@GROUP.check(
    "endpoint",
    "GetInfo names the socket for calls by an absolute path of at most 107 bytes that exists.",
    "Set PluginInfo.endpoint to the path of the socket on which the driver serves calls.",
)
async def endpoint(site: Site) -> None:
    found = (await site.registration()).endpoint
    if not found:
        return
    if not found.startswith("/") or len(found.encode()) > PATH_MAX:
        raise CheckFailed(f"the endpoint is {found!r}")
    if not Path(found).is_socket():
        raise CheckFailed(f"{found} is not a socket")


@GROUP.check(
    "served",
    "Every service that is listed is served on the endpoint.",
    "Register the services with the gRPC server of the endpoint, or do not list them.",
)
async def served(site: Site) -> None:
    registered = await site.registration()
    for service in (*DRA_SERVICES, *HEALTH_SERVICES):
        if service.version in registered.versions:
            status = await _status(site.caller_of(registered, service), service)
            if status in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAVAILABLE):
                raise CheckFailed(f"{service.version} is listed, and a call gives {status.name}")


async def _status(caller: Caller, service: Service) -> grpc.StatusCode | None:
    """Return the status of a call that asks for nothing, or None for success."""
    method, form = next(iter(service.methods.items()))
    try:
        if not form.streams:
            await caller.call(method, form.request(), ASK_SECONDS)
            return None
        stream = caller.stream(method, form.request())
        await stream.read()
        stream.cancel()
    except grpc.aio.AioRpcError as error:
        status: grpc.StatusCode = error.code()
        return status
    return None


@GROUP.check(
    "notified",
    "The driver accepts the news that it is registered.",
    "Implement NotifyRegistrationStatus, and answer without an error.",
)
async def notified(site: Site) -> None:
    await _notify(site)


@GROUP.check(
    "repeated",
    "A kubelet that restarts registers the driver again and gets the same answers.",
    "Do not change state in GetInfo, and accept NotifyRegistrationStatus more than once.",
)
async def repeated(site: Site) -> None:
    before = await site.registration()
    again = [one for one in await site.registrations() if one.socket == before.socket]
    if again != [before]:
        raise CheckFailed(f"first it said {before}, then {again}")
    await _notify(site)


async def _notify(site: Site) -> None:
    registered = await site.registration()
    async with grpc.aio.insecure_channel(services.address(registered.socket)) as channel:
        caller = Caller(channel, services.REGISTRATION)
        status = caller.messages.RegistrationStatus(plugin_registered=True)
        try:
            await caller.call("NotifyRegistrationStatus", status, site.patience.call_seconds)
        except grpc.aio.AioRpcError as error:
            seen = f"NotifyRegistrationStatus: {error.code().name}: {error.details()}"
            raise CheckFailed(seen) from error

"""A driver with one planted fault: `python -m tests.conformance_drivers.faulty CHECK …`.

The name of a fault is the id of the one check that must find it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from dray import driverkit
from dray.api import errors, kinds
from dray.driverkit import cdi, metadata, pool_layout, server
from dray.driverkit.driver import PrepareError
from dray.driverkit.prepared_claims import PreparedClaims
from dray.driverkit.publisher import Publisher
from dray.driverkit.server import PluginServer
from dray.protocol import services

FAULTS: Final[dict[str, Callable[[], None]]] = {}


class Sound(driverkit.Driver):
    """The driver without its fault."""

    name = "faulty.example.com"
    shade = 0

    def devices(self) -> Iterable[driverkit.Device]:
        for number in range(4):
            yield driverkit.device(f"lamp-{number}", colour="red", shade=self.shade)

    async def prepare(self, allocated: driverkit.Allocated) -> driverkit.Edits:
        return driverkit.Edits(env={"LAMP": allocated.name})


def plants(check: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(plant: Callable[[], None]) -> Callable[[], None]:
        FAULTS[check] = plant
        return plant

    return add


def wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace a function by one that is made from it."""
    setattr(owner, name, make(getattr(owner, name)))


@plants("registration.type")
def _registration_type() -> None:
    services.PLUGIN_TYPE = "DevicePlugin"  # type: ignore[misc]


@plants("registration.versions")
def _registration_versions() -> None:
    unknown = services.DRA_V1._replace(name="v1alpha4.DRAPlugin", version="v1alpha4.DRAPlugin")
    server._DRA = (*server._DRA, unknown)  # type: ignore[assignment]


@plants("slices.owner")
def _slices_owner() -> None:
    wrap(
        pool_layout,
        "lay_out",
        lambda lay_out: lambda pool, generation, _owner: lay_out(pool, generation),
    )


@plants("slices.node")
def _slices_node() -> None:
    """One more slice, for a node that the driver does not run on."""

    def make(reconcile: Any) -> Any:
        async def twice(self: Publisher, pool: Any) -> None:
            await reconcile(self, pool)
            body = {
                **kinds.RESOURCE_SLICE.type_meta,
                "metadata": {"name": "elsewhere"},
                "spec": {
                    "driver": Sound.name,
                    "nodeName": "elsewhere",
                    "pool": {"name": "elsewhere", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": "lamp-0"}],
                },
            }
            with contextlib.suppress(errors.AlreadyExists):
                await self._client.create(kinds.RESOURCE_SLICE, body)

        return twice

    wrap(Publisher, "_reconcile", make)


@plants("slices.count")
def _slices_count() -> None:
    def make(lay_out: Any) -> Any:
        def wrong(*given: Any) -> Any:
            (one,) = lay_out(*given)
            pool = msgspec.structs.replace(one.spec.pool, resource_slice_count=2)
            spec = msgspec.structs.replace(one.spec, pool=pool)
            return (msgspec.structs.replace(one, spec=spec),)

        return wrong

    wrap(pool_layout, "lay_out", make)


@plants("slices.stable")
def _slices_stable() -> None:
    def make(look: Any) -> Any:
        async def restless(plugin: Any) -> None:
            await look(plugin)
            plugin._driver.shade = (plugin._driver.shade + 1) % 1000
            asyncio.get_running_loop().call_later(0.5, plugin._changed.set)

        return restless

    from dray.driverkit.plugin import Plugin

    wrap(Plugin, "_look", make)
    # The metadata of a device that changes cannot be compared.
    wrap(Sound, "prepare", lambda _prepare: _without_shade)


async def _without_shade(self: Sound, allocated: driverkit.Allocated) -> driverkit.Prepared:
    shade = driverkit.DeviceAttribute(int_value=0)
    return driverkit.Prepared(driverkit.Edits(env={"LAMP": "red"}), attributes={"shade": shade})


@plants("slices.republished")
def _slices_republished() -> None:
    done: set[str] = set()

    def make(reconcile: Any) -> Any:
        async def once(self: Publisher, pool: Any) -> None:
            if str(pool) not in done and self._describe(pool) is not None:
                await reconcile(self, pool)
                done.add(str(pool))

        return once

    wrap(Publisher, "_reconcile", make)


@plants("prepare.requests")
def _prepare_requests() -> None:
    def make(prepare: Any) -> Any:
        async def first_only(self: PreparedClaims, claim: Any) -> Any:
            devices = await prepare(self, claim)
            return tuple(
                msgspec.structs.replace(device, requests=devices[0].requests) for device in devices
            )

        return first_only

    wrap(PreparedClaims, "prepare", make)


@plants("prepare.idempotent")
def _prepare_idempotent() -> None:
    def make(prepare: Any) -> Any:
        async def turned(self: PreparedClaims, claim: Any) -> Any:
            is_again = self.get(claim.metadata.uid) is not None
            devices = await prepare(self, claim)
            if not is_again:
                return devices
            return tuple(
                msgspec.structs.replace(device, cdi_ids=device.cdi_ids[::-1]) for device in devices
            )

        return turned

    wrap(PreparedClaims, "prepare", make)


@plants("prepare.v1beta1")
def _prepare_v1beta1() -> None:
    def make(device: Any) -> Any:
        def bare(messages: Any, prepared: Any) -> Any:
            message = device(messages, prepared)
            if messages is services.DRA_V1BETA1.messages:
                del message.cdi_device_ids[:]
            return message

        return bare

    wrap(server, "_device", make)


@plants("prepare.concurrent")
def _prepare_concurrent() -> None:
    busy: set[str] = set()

    def make(prepare: Any) -> Any:
        async def one_at_a_time(self: PreparedClaims, claim: Any) -> Any:
            uid = claim.metadata.uid
            if busy - {uid}:
                raise PrepareError("the driver is busy with another claim")
            busy.add(uid)
            try:
                await asyncio.sleep(0.05)
                return await prepare(self, claim)
            finally:
                busy.discard(uid)

        return one_at_a_time

    wrap(PreparedClaims, "prepare", make)


@plants("refusal.other-uid")
def _refusal_other_uid() -> None:
    async def careless(self: PluginServer, request: Any) -> Any:
        document = await self.client.get(kinds.RESOURCE_CLAIM, request.name, request.namespace)
        document["metadata"]["uid"] = request.uid
        from dray.api.types.dra import ResourceClaim

        return await self.claims.prepare(msgspec.convert(document, ResourceClaim))

    PluginServer._prepare = careless  # type: ignore[method-assign]


@plants("refusal.beside")
def _refusal_beside() -> None:
    def make(outcome: Any) -> Any:
        async def all_or_nothing(self: PluginServer, operation: str, work: Any) -> Any:
            answer, error = await outcome(self, operation, work)
            if "there is no device" in error:
                raise RuntimeError(error)
            return answer, error

        return all_or_nothing

    wrap(PluginServer, "_outcome", make)


@plants("refusal.sentence")
def _refusal_sentence() -> None:
    def make(outcome: Any) -> Any:
        async def talkative(self: PluginServer, operation: str, work: Any) -> Any:
            answer, error = await outcome(self, operation, work)
            trace = "Traceback (most recent call last):\n  File …\n"
            return answer, f"{trace}{error}" if error else ""

        return talkative

    wrap(PluginServer, "_outcome", make)


def _unprepare_fails(fails: Callable[[PreparedClaims, str], str]) -> None:
    def make(unprepare: Any) -> Any:
        async def strict(self: PreparedClaims, uid: str) -> None:
            if error := fails(self, uid):
                raise PrepareError(error)
            await unprepare(self, uid)

        return strict

    wrap(PreparedClaims, "unprepare", make)


@plants("unprepare.idempotent")
def _unprepare_idempotent() -> None:
    seen: set[str] = set()

    def fails(claims: PreparedClaims, uid: str) -> str:
        if claims.get(uid) is not None:
            seen.add(uid)
            return ""
        return f"claim {uid} was unprepared before" if uid in seen else ""

    _unprepare_fails(fails)


@plants("unprepare.unknown")
def _unprepare_unknown() -> None:
    seen: set[str] = set()

    def fails(claims: PreparedClaims, uid: str) -> str:
        if claims.get(uid) is not None:
            seen.add(uid)
        return "" if uid in seen else f"claim {uid} is not known to this driver"

    _unprepare_fails(fails)


@plants("unprepare.deleted-claim")
def _unprepare_deleted_claim() -> None:
    refused: set[str] = set()

    def make(answers: Any) -> Any:
        def reading(self: PluginServer, service: Any) -> Any:
            made = dict(answers(self, service))
            unprepare = made["NodeUnprepareResources"]

            async def checked(request: Any, context: Any) -> Any:
                response = service.messages.NodeUnprepareResourcesResponse()
                for claim in request.claims:
                    try:
                        if self.claims.get(claim.uid) is not None and claim.uid not in refused:
                            await self.client.get(kinds.RESOURCE_CLAIM, claim.name, claim.namespace)
                    except errors.NotFound as error:
                        # Once: the device is free for the other checks.
                        refused.add(claim.uid)
                        response.claims[claim.uid].error = str(error)
                if response.claims:
                    return response
                return await unprepare(request, context)

            return {**made, "NodeUnprepareResources": checked}

        return reading

    wrap(PluginServer, "_dra_answers", make)


@plants("cdi.valid")
def _cdi_valid() -> None:
    cdi.VERSION = "0.0.1"  # type: ignore[misc]


@plants("cdi.complete")
def _cdi_complete() -> None:
    def make(device: Any) -> Any:
        def more(messages: Any, prepared: Any) -> Any:
            message = device(messages, prepared)
            message.cdi_device_ids.append("faulty.example.com/lamp=all")
            return message

        return more

    wrap(server, "_device", make)


@plants("cdi.permissions")
def _cdi_permissions() -> None:
    def make(write: Any) -> Any:
        def open_to_all(*given: Any) -> Any:
            path = write(*given)
            path.chmod(0o666)
            return path

        return open_to_all

    wrap(cdi, "write", make)


@plants("cdi.removed")
def _cdi_removed() -> None:
    prepared: set[str] = set()

    def remembering(prepare: Any) -> Any:
        async def noting(self: PreparedClaims, claim: Any) -> Any:
            prepared.add(claim.metadata.uid)
            return await prepare(self, claim)

        return noting

    def leaving(undo: Any) -> Any:
        async def untidy(self: PreparedClaims, claim: Any) -> None:
            path = self._cdi_directory / self._cdi_file(claim.uid)
            text = path.read_text("utf-8") if path.exists() else ""
            await undo(self, claim)
            if text and claim.uid in prepared:
                path.write_text(text, "utf-8")

        return untidy

    wrap(PreparedClaims, "prepare", remembering)
    wrap(PreparedClaims, "_undo", leaving)


@plants("health.devices")
def _health_devices() -> None:
    def make(health: Any) -> Any:
        def renamed(messages: Any, pool: str, device: Any, now: int) -> Any:
            return health(messages, "another-pool", device, now)

        return renamed

    wrap(server, "_health", make)


@plants("health.values")
def _health_values() -> None:
    wrap(
        server,
        "_health",
        lambda health: (
            lambda messages, pool, device, now: health(messages, pool, device, now * 1000)
        ),
    )


@plants("metadata.content")
def _metadata_content() -> None:
    def make(text: Any) -> Any:
        def discoloured(document: dict[str, Any]) -> str:
            changed = json.loads(json.dumps(document).replace('"red"', '"blue"'))
            made: str = text(changed)
            return made

        return discoloured

    wrap(metadata, "_text", make)


@plants("restart.ends")
def _restart_ends() -> None:
    def make(serve: Any) -> Any:
        async def deaf(*given: Any) -> None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
            await serve(*given)

        return deaf

    from dray.driverkit import plugin

    wrap(plugin, "_serve", make)


@plants("restart.sockets")
def _restart_sockets() -> None:
    def make(serve: Any) -> Any:
        async def abrupt(*given: Any) -> None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: os._exit(0))
            await serve(*given)

        return abrupt

    from dray.driverkit import plugin

    wrap(plugin, "_serve", make)


@plants("restart.unprepared")
def _restart_unprepared() -> None:
    def make(prepare: Any) -> Any:
        def forgetful(
            self: PreparedClaims, driver: Any, data: Path, *rest: Any, **more: Any
        ) -> None:
            for path in data.glob("prepared-claims.json*"):
                path.unlink()
            prepare(self, driver, data, *rest, **more)

        return forgetful

    wrap(PreparedClaims, "__init__", make)


@plants("limits.long-claim")
def _limits_long_claim() -> None:
    def make(folder: Any) -> Any:
        return lambda self, namespace, name: self._folder / f"{namespace}_{name}"

    wrap(metadata.MetadataFiles, "_claim_folder", make)


@plants("cleanup.data")
def _cleanup_data() -> None:
    def make(prepare: Any) -> Any:
        async def noting(self: PreparedClaims, claim: Any) -> Any:
            folder = Path(self._checkpoint._path).parent
            (folder / f"{claim.metadata.uid}.log").write_text("prepared\n", "utf-8")
            return await prepare(self, claim)

        return noting

    wrap(PreparedClaims, "prepare", make)


def main(fault: str, *arguments: str) -> None:
    FAULTS[fault]()
    driverkit.main(Sound(), list(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])

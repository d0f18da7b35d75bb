"""Writes the status that a driver reports of prepared devices into their claims.

Uses server-side apply with the driver as field manager, so that entries of other drivers stay. A
failed write is retried, and after a restart everything is written once more.
"""

from __future__ import annotations

import logging

import msgspec

from dray.api import errors, http_messages, kinds
from dray.api.types.dra import AllocatedDeviceStatus
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client
from dray.client.controller import Controller
from dray.driverkit.driver import DeviceStatus
from dray.driverkit.prepared_claims import PreparedClaim, PreparedClaims, PreparedDevice

log = logging.getLogger(__name__)


STATUS = "status"


class StatusReports:
    """Keeps the status entries of one driver in sync. Run it until cancelled."""

    def __init__(self, driver: str, client: Client, claims: PreparedClaims) -> None:
        self._driver = driver
        self._client = client
        self._claims = claims
        self._controller: Controller[str] = Controller("device-status", self._write)

    def refresh(self, claim_uid: str) -> None:
        """Write the status of a claim's devices again."""
        self._controller.queue.add(claim_uid)

    async def run(self) -> None:
        for claim in self._claims:
            self.refresh(claim.uid)
        await self._controller.run()

    async def _write(self, uid: str) -> None:
        claim = self._claims.get(uid)
        if claim is None:
            return
        entries = [self._entry(device) for device in claim.devices if device.status]
        if entries:
            try:
                await self._apply(claim, entries)
            except (errors.NotFound, errors.Invalid) as error:
                log.warning("status of claim %s/%s: %s", claim.namespace, claim.name, error)

    async def _apply(self, claim: PreparedClaim, entries: list[JsonObject]) -> None:
        body = {
            "apiVersion": kinds.RESOURCE_CLAIM.preferred.api_version,
            "kind": kinds.RESOURCE_CLAIM.kind,
            "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid},
            STATUS: {"devices": entries},
        }
        await self._client.patch(
            kinds.RESOURCE_CLAIM,
            claim.name,
            body,
            claim.namespace,
            subresource=STATUS,
            patch_type=http_messages.APPLY_PATCH,
            force=True,
        )

    def _entry(self, device: PreparedDevice) -> JsonObject:
        status = device.status or DeviceStatus()
        entry = AllocatedDeviceStatus(
            driver=self._driver,
            pool=device.pool,
            device=device.device,
            share_id=device.share_id,
            conditions=status.conditions,
            data=msgspec.UNSET if status.data is None else status.data,
            network_data=status.network,
        )
        body: JsonObject = msgspec.to_builtins(entry)
        return body

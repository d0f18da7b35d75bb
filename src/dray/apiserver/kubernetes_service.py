"""Keeps the Service and EndpointSlice `kubernetes`, by which programs know the API server."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.apiserver import bootstrap
from dray.apiserver.storage import store_keys
from dray.store import store as stores
from dray.store.store import Delete, Store, Transaction

log = logging.getLogger(__name__)

NAME, NAMESPACE = "kubernetes", "default"
CLUSTER_IP: Final = "10.96.0.1"
"""The first address of the range that kubeadm takes; nothing answers there."""
PORT, TARGET_PORT = 443, 6443
CHECK_SECONDS: Final = 10.0


EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_ENDPOINTS: Final = store_keys.key(
    kinds.served("discovery.k8s.io", "EndpointSlice"), NAME, NAMESPACE
)


class KubernetesService:
    """Creates them whenever they are missing. What somebody changed in them stays."""

    def __init__(
        self, store: Store, now: Callable[[], datetime.datetime], new_uid: Callable[[], str]
    ) -> None:
        self._store, self._now, self._new_uid = store, now, new_uid
        self._address: tuple[str, int] | None = None

    async def create(self) -> None:
        wanted = [service()]
        if self._address is not None:
            wanted.append(endpoint_slice(*self._address))
        await bootstrap.write_missing(self._store, wanted, self._now(), self._new_uid)

    async def listens_at(self, host: str, port: int) -> None:
        """Write where the server listens, in place of what an earlier one wrote.

        Of several servers on one store, the one that started last is shown.
        """
        self._address = (EVERYWHERE.get(host, host), port)
        entry = await self._store.get(_ENDPOINTS)
        wanted = endpoint_slice(*self._address)
        if entry is not None and not _has_same(msgspec.json.decode(entry.value), wanted):
            with contextlib.suppress(stores.GuardFailed):
                await self._store.commit(Transaction((Delete(_ENDPOINTS, entry.revision),)))
        await self.create()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.create()
            except (stores.Unavailable, stores.ReadOnly) as error:
                log.warning("service %s/%s: %s", NAMESPACE, NAME, error)


def _has_same(stored: JsonObject, wanted: JsonObject) -> bool:
    return all(stored.get(field) == wanted[field] for field in ("endpoints", "ports"))


def service() -> JsonObject:
    https = {"name": "https", "protocol": "TCP", "port": PORT, "targetPort": TARGET_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [https],
            "clusterIP": CLUSTER_IP,
            "clusterIPs": [CLUSTER_IP],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


def endpoint_slice(address: str, port: int) -> JsonObject:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": NAME},
        },
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "protocol": "TCP", "port": port}],
    }

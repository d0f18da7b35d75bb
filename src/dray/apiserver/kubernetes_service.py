"""Keeps the Service `kubernetes`, by which programs in the cluster know the API server."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable
from typing import Final

from dray.api.types.meta import JsonObject
from dray.apiserver import bootstrap
from dray.store import store as stores
from dray.store.store import Store

log = logging.getLogger(__name__)

NAME, NAMESPACE = "kubernetes", "default"
CLUSTER_IP: Final = "10.96.0.1"
"""The first address of the range that kubeadm takes; nothing answers there."""
PORT, TARGET_PORT = 443, 6443
CHECK_SECONDS: Final = 10.0


class KubernetesService:
    """Creates the Service whenever it is missing. What somebody changed in it stays."""

    def __init__(
        self, store: Store, now: Callable[[], datetime.datetime], new_uid: Callable[[], str]
    ) -> None:
        self._store, self._now, self._new_uid = store, now, new_uid

    async def create(self) -> None:
        await bootstrap.write_missing(self._store, [service()], self._now(), self._new_uid)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.create()
            except (stores.Unavailable, stores.ReadOnly) as error:
                log.warning("service %s/%s: %s", NAMESPACE, NAME, error)


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

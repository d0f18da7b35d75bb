"""Keeps the ConfigMap with the certificate authority of the API server in every namespace.

Pods project it beside their token, and verify the server with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from dray.api import errors, kinds
from dray.api.types.meta import JsonObject, ObjectMeta, Wire
from dray.client.api_client import ObjectSelection
from dray.client.cache import Cache, ObjectChange
from dray.controllers.loops import Context, Loop

NAME: Final = "kube-root-ca.crt"
KEY: Final = "ca.crt"
DESCRIPTION: Final = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the "
    "kube-apiserver when using internal endpoints such as the internal service IP or "
    "kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
}


class _ConfigMap(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class RootAuthorityLoop(Loop[str]):
    """The loop over namespaces. Keys are their names."""

    def __init__(self, context: Context) -> None:
        super().__init__("root-ca", context, workers=1)
        self._data = {KEY: context.root_authority}
        self._namespaces = context.caches.namespaces
        named = ObjectSelection(field_selector=f"metadata.name={NAME}")
        self._published = Cache(context.client, kinds.CONFIG_MAP, _ConfigMap, named)
        self.follow(self._namespaces, lambda change: self.queue.add(change.key.name))
        self.follow(self._published, self._changed)

    async def run(self) -> None:
        # Not one of the shared caches: those have every ConfigMap.
        async with asyncio.TaskGroup() as group:
            group.create_task(self._published.run(), name="cache-root-ca")
            await super().run()

    async def synced(self) -> None:
        await self._namespaces.synced.wait()
        await self._published.synced.wait()

    def resync(self) -> None:
        for namespace in self._namespaces:
            self.queue.add(namespace.metadata.name)

    def _changed(self, change: ObjectChange[_ConfigMap]) -> None:
        self.queue.add(change.key.namespace)

    async def reconcile(self, key: str) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp:
            return
        found = self._published.get(NAME, key)
        if found is not None and found.data == self._data:
            return
        metadata: JsonObject = {"name": NAME, "namespace": key, "annotations": DESCRIPTION}
        body = {**kinds.CONFIG_MAP.type_meta, "metadata": metadata, "data": self._data}
        if found is None:
            with contextlib.suppress(errors.AlreadyExists):
                await self.client.create(kinds.CONFIG_MAP, body, key)
        else:
            metadata["uid"] = found.metadata.uid
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                await self.client.replace(kinds.CONFIG_MAP, body)

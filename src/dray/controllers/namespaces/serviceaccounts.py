"""Creates the service account `default` in every namespace."""

from __future__ import annotations

import contextlib

from dray.api import errors, kinds
from dray.client.cache import HasMetadata, ObjectChange
from dray.controllers.loops import Context, Loop

DEFAULT = "default"


class ServiceAccountLoop(Loop[str]):
    """The loop over namespaces. Keys are their names."""

    def __init__(self, context: Context) -> None:
        super().__init__("serviceaccounts", context, workers=1)
        self._namespaces = context.caches.namespaces
        self._accounts = context.caches.of(kinds.SERVICE_ACCOUNT)
        self.follow(self._namespaces, lambda change: self.queue.add(change.key.name))
        self.follow(self._accounts, self._account_changed)

    async def synced(self) -> None:
        await self._namespaces.synced.wait()
        await self._accounts.synced.wait()

    def resync(self) -> None:
        for namespace in self._namespaces:
            self.queue.add(namespace.metadata.name)

    def _account_changed(self, change: ObjectChange[HasMetadata]) -> None:
        if change.new is None and change.key.name == DEFAULT:
            self.queue.add(change.key.namespace)

    async def reconcile(self, key: str) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp:
            return
        if self._accounts.get(DEFAULT, key) is not None:
            return
        body = {
            **kinds.SERVICE_ACCOUNT.type_meta,
            "metadata": {"name": DEFAULT, "namespace": key},
        }
        with contextlib.suppress(errors.AlreadyExists):
            await self.client.create(kinds.SERVICE_ACCOUNT, body, key)

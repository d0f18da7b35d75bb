"""Whether the objects that a token names still exist, with the uids that it names.

As pkg/serviceaccount, the validator of bound tokens. The store itself is asked: what is deleted on
one server is gone on the others at the same moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dray.api import kinds
from dray.api.formats import gotime
from dray.api.kinds import Kind
from dray.apiserver.access.service_account_tokens import BoundObject, PrivateClaims
from dray.apiserver.storage.lookup import Lookup
from dray.client.cache import HasMetadata
from dray.store.store import Store

DELETION_LEEWAY_SECONDS = 60
"""How long a token outlives the moment at which its object was to be deleted."""


class _Reference(NamedTuple):
    kind: Kind
    namespace: str
    object: BoundObject


class BoundObjects:
    """Finds the objects of tokens in a store."""

    def __init__(self, store: Store) -> None:
        bound = (kinds.SERVICE_ACCOUNT, kinds.POD, kinds.SECRET, kinds.NODE)
        self._lookups = {kind.kind: Lookup(store, kind, HasMetadata) for kind in bound}

    async def exist(self, claims: PrivateClaims, now: float) -> bool:
        """Return whether the account and what the token is bound to exist at a time."""
        for reference in _references(claims):
            if not await self._exists(reference, now):
                return False
        return True

    async def _exists(self, reference: _Reference, now: float) -> bool:
        lookup = self._lookups[reference.kind.kind]
        found = await lookup.get(reference.object.name, reference.namespace)
        if found is None or found.metadata.uid != reference.object.uid:
            return False
        deleted = found.metadata.deletion_timestamp
        return not deleted or gotime.parse(deleted).timestamp() >= now - DELETION_LEEWAY_SECONDS


def _references(claims: PrivateClaims) -> Iterator[_Reference]:
    yield _Reference(kinds.SERVICE_ACCOUNT, claims.namespace, claims.serviceaccount)
    if claims.pod is not None:
        yield _Reference(kinds.POD, claims.namespace, claims.pod)
    if claims.secret is not None:
        yield _Reference(kinds.SECRET, claims.namespace, claims.secret)
    # A token of a pod says on which node it runs, but ends with the pod.
    if claims.node is not None and claims.pod is None:
        yield _Reference(kinds.NODE, "", claims.node)

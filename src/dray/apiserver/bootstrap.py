"""The objects of a new cluster: namespaces, roles and their bindings, priority classes.

Objects are created when they are missing and never overwritten: changes by an administrator stay,
and what is deleted comes back with the next start.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator

from dray.api import kinds
from dray.api.conversion import canonical
from dray.api.formats import gotime
from dray.api.types.meta import JsonObject
from dray.apiserver.access import bootstrap_policy
from dray.apiserver.admission import namespace_lifecycle, priority_classes
from dray.apiserver.storage import codec, store_keys
from dray.store.store import ABSENT, GuardFailed, Put, Store, Transaction

PUTS_AT_ONCE = 32


def objects() -> Iterator[JsonObject]:
    return itertools.chain(
        namespace_lifecycle.objects(), bootstrap_policy.objects(), priority_classes.objects()
    )


async def bootstrap(store: Store, now: datetime.datetime, new_uid: Callable[[], str]) -> None:
    """Write the missing objects of a new cluster; several servers may do so at once."""
    await write_missing(store, objects(), now, new_uid)


async def write_missing(
    store: Store,
    documents: Iterable[JsonObject],
    now: datetime.datetime,
    new_uid: Callable[[], str],
) -> None:
    """Write those of the objects that are missing."""
    missing = []
    for document in documents:
        put = _put(document, now, new_uid())
        if await store.get(put.key) is None:
            missing.append(put)
    for start in range(0, len(missing), PUTS_AT_ONCE):
        await _write(store, missing[start : start + PUTS_AT_ONCE])


async def _write(store: Store, puts: list[Put]) -> None:
    """Write all of them, except for those that another server wrote first."""
    while puts:
        try:
            await store.commit(Transaction(tuple(puts)))
            return
        except GuardFailed as failure:
            puts = [put for put in puts if put.key != failure.key]


def _put(document: JsonObject, now: datetime.datetime, uid: str) -> Put:
    group, _ = kinds.parse_api_version(document["apiVersion"])
    kind = kinds.served(group, document["kind"])
    metadata = {**document["metadata"], "uid": uid, "creationTimestamp": gotime.write(now)}
    written = canonical.write(
        store_keys.storage_gvk(kind).schema_type, {**document, "metadata": metadata}
    )
    key = store_keys.key(kind, metadata["name"], metadata.get("namespace", ""))
    return Put(key, codec.to_stored(written), ABSENT)

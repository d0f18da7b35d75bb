"""Revoked credentials, kept in sync with the ConfigMap that all servers follow."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from dray.api import kinds
from dray.api.semantics import revocation
from dray.api.semantics.revocation import NAME, NAMESPACE
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.follower import StoreFollower
from dray.apiserver.storage.lookup import Reader
from dray.store.store import Entry, Store

log = logging.getLogger(__name__)

_KEY = store_keys.key(kinds.CONFIG_MAP, NAME, NAMESPACE)


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class Revocations:
    """The revoked credentials of a store."""

    def __init__(self) -> None:
        self._reader = Reader(_ConfigMap)
        self._serials: frozenset[int] = frozenset()
        self._before: Mapping[str, float] = {}

    def follow(self, store: Store) -> StoreFollower:
        return StoreFollower(store, store_keys.prefix(kinds.CONFIG_MAP, NAMESPACE), self)

    @property
    def is_empty(self) -> bool:
        return not self._serials and not self._before

    def covers_user(self, name: str, issued: float) -> bool:
        """Return whether credentials are revoked that a user got at a time."""
        return issued < self._before.get(name, float("-inf"))

    def covers_serial(self, serial: str) -> bool:
        """Return whether a certificate is revoked; its number is hexadecimal."""
        return revocation.serial_number(serial) in self._serials

    def put(self, entry: Entry) -> None:
        if entry.key != _KEY:
            return
        serials: set[int] = set()
        before: dict[str, float] = {}
        for key, text in self._reader.read(entry).data.items():
            try:
                found = revocation.parse(text)
            except ValueError as error:
                log.error("%s/%s: data[%s] revokes nothing: %s", NAMESPACE, NAME, key, error)
                continue
            if found.serial:
                serials.add(revocation.serial_number(found.serial))
            else:
                latest = before.get(found.user, float("-inf"))
                before[found.user] = max(latest, revocation.seconds(found.before))
        self._serials, self._before = frozenset(serials), before

    def remove(self, key: str) -> None:
        if key == _KEY:
            self._serials, self._before = frozenset(), {}

"""Revoked credentials: the ConfigMap `dray-revoked` in kube-system, which all servers follow.

Each value is one revocation in JSON: `{"serial": "3f…"}` for one certificate, or `{"user": "alice",
"before": "2026-01-02T03:04:05Z"}` for all certificates and tokens that the user got before then.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from dray.api import kinds
from dray.api.formats import gotime
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.follower import StoreFollower
from dray.apiserver.storage.lookup import Reader
from dray.store.store import Entry, Store

log = logging.getLogger(__name__)

NAMESPACE, NAME = "kube-system", "dray-revoked"
_KEY = store_keys.key(kinds.CONFIG_MAP, NAME, NAMESPACE)


class Revocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One certificate, or everything that a user got before a time."""

    serial: str = ""
    user: str = ""
    before: str = ""


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


def parse(text: str) -> Revocation:
    """Return the revocation of a value. Raises ValueError with what is wrong."""
    try:
        revocation = msgspec.json.decode(text, type=Revocation)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a revocation in JSON: {error}") from error
    if bool(revocation.serial) == bool(revocation.user):
        raise ValueError('write either {"serial": …} or {"user": …, "before": …}')
    if bool(revocation.user) != bool(revocation.before):
        raise ValueError('"before" belongs to "user": credentials from before that time end')
    if revocation.serial:
        _number(revocation.serial)
    else:
        _seconds(revocation.before)
    return revocation


class Revocations:
    """What is revoked, kept in sync with the store."""

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
        return _number(serial) in self._serials

    def put(self, entry: Entry) -> None:
        if entry.key != _KEY:
            return
        serials: set[int] = set()
        before: dict[str, float] = {}
        for key, text in self._reader.read(entry).data.items():
            try:
                revocation = parse(text)
            except ValueError as error:
                log.error("%s/%s: data[%s] revokes nothing: %s", NAMESPACE, NAME, key, error)
                continue
            if revocation.serial:
                serials.add(_number(revocation.serial))
            else:
                latest = before.get(revocation.user, float("-inf"))
                before[revocation.user] = max(latest, _seconds(revocation.before))
        self._serials, self._before = frozenset(serials), before

    def remove(self, key: str) -> None:
        if key == _KEY:
            self._serials, self._before = frozenset(), {}


def _number(serial: str) -> int:
    """Return a serial number, which OpenSSL and browsers write with colons."""
    try:
        return int(serial.replace(":", ""), 16)
    except ValueError as error:
        raise ValueError(f"serial: {serial!r} is not a hexadecimal number") from error


def _seconds(time: str) -> float:
    try:
        return gotime.parse(time).timestamp()
    except ValueError as error:
        raise ValueError(f"before: {time!r} is not a time such as 2026-01-02T03:04:05Z") from error

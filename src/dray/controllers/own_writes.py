"""Tracks whether a cache has seen the loop's own writes, so that no work is done twice.

Resource versions are compared as numbers, which Kubernetes allows within one kind.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from dray.api.types.meta import JsonObject
from dray.client.cache import Cache

Key = TypeVar("Key", bound=Hashable)

UNSEEN_RETRY_SECONDS = 1.0
"""Delay until the next check; usually the event of the write comes first."""


class OwnWrites(Generic[Key]):
    """The last write of each key to the objects of one cache."""

    def __init__(self, cache: Cache[Any]) -> None:
        self._cache = cache
        self._versions: dict[Key, int] = {}

    def record(self, key: Key, written: JsonObject) -> None:
        version = _number(written.get("metadata", {}).get("resourceVersion", ""))
        self._versions[key] = max(version, self._versions.get(key, 0))

    def are_seen(self, key: Key) -> bool:
        version = self._versions.get(key)
        if version is None:
            return True
        if _number(self._cache.resource_version) < version:
            return False
        del self._versions[key]
        return True

    def forget(self, key: Key) -> None:
        self._versions.pop(key, None)


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0

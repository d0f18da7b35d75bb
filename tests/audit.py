"""Reads the audit log of a cluster: who asked for what, and what was refused."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from dray.api.types.meta import JsonObject

FORBIDDEN = 403


Right = tuple[str, str, str]
"""A verb, a group, and a resource with its subresource."""


class Asked(msgspec.Struct, frozen=True):
    """A request of the audit log."""

    user: str
    verb: str
    group: str
    resource: str
    namespace: str
    code: int

    @property
    def right(self) -> Right:
        return self.verb, self.group, self.resource


def read(log: Path) -> list[Asked]:
    return [_asked(msgspec.json.decode(line)) for line in log.read_bytes().splitlines()]


def _asked(event: JsonObject) -> Asked:
    about = event.get("objectRef", {})
    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return Asked(
        event["user"].get("username", ""),
        event["verb"],
        about.get("apiGroup", ""),
        resource,
        about.get("namespace", ""),
        event["responseStatus"]["code"],
    )


def refused(asked: Iterable[Asked]) -> set[Asked]:
    return {each for each in asked if each.code == FORBIDDEN}

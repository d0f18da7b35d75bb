"""Finds the Kubernetes version of a server, which kinds it has, and in which versions."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from dray.api import errors, features, kinds
from dray.api.features import Features
from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.client.api_client import Client, error_of
from dray.client.cache import MAX_RETRY_SECONDS, RETRY_SECONDS

log = logging.getLogger(__name__)


async def plurals(client: Client, group: str, version: str) -> set[str]:
    """Return the plurals of the kinds that a server has in a version of a group."""
    root = f"/apis/{group}" if group else "/api"
    response = await client.raw(Request("GET", f"{root}/{version}", headers={"accept": JSON}))
    if response.status == 404:
        return set()
    if response.status >= 400:
        raise error_of(response)
    document = msgspec.json.decode(response.body)
    return {resource["name"] for resource in document.get("resources") or ()}


async def as_served(client: Client, kind: Kind) -> Kind | None:
    """Return a kind in the newest version that the server has; None if it does not have it.

    Alpha versions are left out: older ones have fields that would be misunderstood. Errors of the
    server are retried with back-off, as caches do.
    """
    delay = RETRY_SECONDS
    while True:
        try:
            for version in (name for name in kind.versions if "alpha" not in name):
                if kind.plural in await plurals(client, kind.group, version):
                    return dataclasses.replace(kind, versions=(version,))
            return None
        except errors.StatusError as error:
            log.warning("cannot find out whether the server has %s: %s", kind.plural, error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RETRY_SECONDS)


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """The content of `/version`."""

    document: dict[str, Any]

    @property
    def is_dray(self) -> bool:
        return str(self.document.get("gitCommit", "")).startswith("dray-")

    @property
    def minor(self) -> str:
        """Return a version such as `1.37`; some providers write `37+`.

        A server that emulates an older version has the kinds, fields and gates of that one.
        """
        major, minor = self.document.get("emulationMajor"), self.document.get("emulationMinor")
        if not (major and minor):
            major, minor = self.document.get("major"), self.document.get("minor")
        return f"{major}.{str(minor).rstrip('+')}"

    @property
    def features(self) -> Features:
        """Return the default gates of the version; for unknown ones, those of the newest."""
        if self.minor in features.VERSIONS:
            return features.for_version(self.minor)
        return features.DEFAULT


async def version_of(client: Client) -> ServerVersion:
    """Return the version of a server, and whether it is dray's."""
    response = await client.send(Request("GET", "/version", headers={"accept": "application/json"}))
    return ServerVersion(msgspec.json.decode(response.body))


class OptionalKinds(NamedTuple):
    """The kinds that not every server has; None without the kind or its feature gate."""

    taint_rules: Kind | None = None
    groups: Kind | None = None

    @classmethod
    async def of(cls, client: Client, features: Features) -> OptionalKinds:
        """Return the kinds that a server has, each in the newest version that it has."""
        rules = kinds.DEVICE_TAINT_RULE if features.device_taint_rules else None
        groups = kinds.POD_GROUP if features.generic_workload else None
        return cls(
            await as_served(client, rules) if rules else None,
            await as_served(client, groups) if groups else None,
        )

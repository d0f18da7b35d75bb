"""The Kubernetes version of a server, and whether it is dray's API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from dray.api import features
from dray.api.features import Features
from dray.api.http_messages import Request
from dray.client.api_client import Client


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


async def read(client: Client) -> ServerVersion:
    response = await client.send(Request("GET", "/version", headers={"accept": "application/json"}))
    return ServerVersion(msgspec.json.decode(response.body))

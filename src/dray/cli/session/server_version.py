"""Which Kubernetes a server is, and whether it is dray's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from dray.api import features
from dray.api.features import Features
from dray.api.http_messages import Request
from dray.client import api_client
from dray.client.api_client import Client


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """What `/version` says."""

    document: dict[str, Any]

    @property
    def is_dray(self) -> bool:
        return str(self.document.get("gitCommit", "")).startswith("dray-")

    @property
    def minor(self) -> str:
        """Such as `1.37`; providers write `37+`."""
        return f"{self.document.get('major')}.{str(self.document.get('minor')).rstrip('+')}"

    @property
    def features(self) -> Features:
        """The gates that version has by default; those of the newest for one we do not know."""
        if self.minor in features.VERSIONS:
            return features.for_version(self.minor)
        return features.DEFAULT


async def ask(client: Client) -> ServerVersion:
    response = await client.raw(Request("GET", "/version", headers={"accept": "application/json"}))
    if response.status >= 400:
        raise api_client.error_of(response)
    return ServerVersion(msgspec.json.decode(response.body))

"""Opens a dashboard of one cluster: what the server has, who may look, and its models."""

from __future__ import annotations

from dray.api.features import Features
from dray.api.kinds import Kind
from dray.client.api_client import Client
from dray.client.discovery import OptionalKinds
from dray.ui.model import rights
from dray.ui.model.models import Models
from dray.ui.people import People
from dray.ui.web.dashboard import Dashboard


async def opened(
    client: Client,
    people: People,
    features: Features,
    *,
    name: str,
    version: str,
    observer: Client | None = None,
) -> Dashboard:
    """Return a dashboard. `client` finds out what the server has.

    `observer` reads all claims, to show that devices are in use whose claims a person may not see.
    """
    followed = await _followed(client, features)
    models = Models(features, followed, observer)
    return Dashboard(people, models, {"name": name, "version": version})


async def _followed(client: Client, features: Features) -> list[Kind]:
    served = await OptionalKinds.of(client, features)
    return [*rights.FOLLOWED, *((served.taint_rules,) if served.taint_rules else ())]

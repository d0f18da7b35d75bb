"""Opens a dashboard of one cluster. What takes long to import is left for the first person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.features import Features
from dray.client.api_client import Client
from dray.ui.people import People
from dray.ui.web.dashboard import Dashboard, DashboardSettings

if TYPE_CHECKING:
    from dray.ui.pages.backend import Backend


def opened(
    client: Client,
    people: People,
    features: Features,
    settings: DashboardSettings,
    observer: Client | None = None,
) -> Dashboard:
    """Return a dashboard. `client` finds out what the server has.

    `observer` reads all claims, to show that devices are in use whose claims a person may not see.
    """

    async def load() -> Backend:
        from dray.ui.pages.backend import Backend

        return await Backend.load(client, features, settings.history, observer)

    return Dashboard(people, load, settings)

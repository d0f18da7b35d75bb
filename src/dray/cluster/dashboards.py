"""The dashboard of a running cluster, for its owner and for everybody who can log in."""

from __future__ import annotations

from pathlib import Path

import dray
from dray.api.http_messages import User
from dray.apiserver.access.authentication import AUTHENTICATED
from dray.cluster.assembly import EXPORTER, RunningCluster
from dray.ui import opening
from dray.ui.people import ServerPeople
from dray.ui.web.dashboard import Dashboard, DashboardSettings

OWNER = User("admin", frozenset({"system:masters", AUTHENTICATED}))
"""The user of the kubeconfig that `dray up` writes, and of the links that it prints."""


def opened(cluster: RunningCluster, name: str, history: Path | None = None) -> Dashboard:
    """Return the dashboard of a cluster; its `run` has to run, and something has to serve it."""
    server = cluster.opened
    people = ServerPeople(server.app.handle, server.authenticator.authenticate, OWNER)
    observer = cluster.client(EXPORTER)
    version = f"dray {dray.__version__}"
    settings = DashboardSettings(name, version, allows_actions=True, history=history)
    return opening.opened(observer, people, server.features, settings, observer)

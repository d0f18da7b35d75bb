"""A dashboard on the HTTPS port of an API server, under every name of the server."""

from __future__ import annotations

import socket
from typing import Final

from aiohttp import web

from dray.ui.web.dashboard import ROOT, Dashboard
from dray.ui.web.request_checks import DashboardSite


class SecurePages:
    """Answers requests below `root` for an API server. `names` are more names of the server."""

    root: Final = ROOT

    def __init__(self, dashboard: Dashboard, names: tuple[str, ...] = ()) -> None:
        self._dashboard = dashboard
        own = {"localhost", "127.0.0.1", "::1", socket.gethostname(), *names}
        self._site = DashboardSite(is_secure=True, names=frozenset(map(str.lower, own)))

    def user_of(self, request: web.BaseRequest) -> str:
        return self._dashboard.user_of(request)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._dashboard.answer(request, self._site)

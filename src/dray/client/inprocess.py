"""Carries exchanges straight into an API server of the same process: no socket, every check.

The component keeps its own identity: authorisation, admission and validation run as over HTTPS.
"""

from __future__ import annotations

from dray.api.exchange import Handler, Request, Response, User


class InProcessTransport:
    def __init__(self, handler: Handler, user: User) -> None:
        self._handler = handler
        self._user = user

    async def send(self, request: Request) -> Response:
        return await self._handler(request, self._user)

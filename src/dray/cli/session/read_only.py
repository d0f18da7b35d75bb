"""A transport that only reads: it sends get, list and watch, and refuses everything else."""

from __future__ import annotations

from dray.api.http_messages import Request, Response
from dray.cli.command_errors import CommandError
from dray.client.api_client import Transport


class ReadOnlyTransport:
    """Sends GET requests. Raises CommandError for other methods, and for upgrades such as exec."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request) -> Response:
        if request.method != "GET" or any(name.lower() == "upgrade" for name in request.headers):
            raise CommandError(f"{request.method} {request.path} is refused: this only reads")
        return await self._transport.send(request)

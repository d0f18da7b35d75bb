"""Checks of every request: that it is for this server, and comes from its own page.

Any page that a browser has open can send requests to an address on the same machine, and a name
that somebody else owns may lead there (DNS rebinding). So Host has to be an address of this server,
and Origin, where a browser sends it, the page's own.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from dray.ui.pages.page_errors import PageError

API: Final = "/ui/api/"
_OWN_PAGE: Final = ("same-origin", "none")


@dataclass(frozen=True, slots=True)
class DashboardSite:
    """The protocol and the names under which a dashboard is reached."""

    is_secure: bool
    names: frozenset[str]

    @property
    def scheme(self) -> str:
        return "https" if self.is_secure else "http"


def check(request: web.BaseRequest, site: DashboardSite) -> None:
    """Raise PageError for a request to another server, or from another page."""
    host = request.headers.get("host", "")
    if len(request.headers.getall("host", ())) != 1 or not _is_own(host, request, site):
        raise PageError(
            421, "this server is not reached under that name", "Use the link that it printed."
        )
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() != f"{site.scheme}://{host.lower()}":
        raise PageError(403, "the request comes from another page")
    fetched = request.headers.get("sec-fetch-site")
    if fetched is not None and fetched not in _OWN_PAGE and request.path.startswith(API):
        raise PageError(403, "the request comes from another page")


def _is_own(host: str, request: web.BaseRequest, site: DashboardSite) -> bool:
    transport = request.transport
    own = transport.get_extra_info("sockname") if transport is not None else None
    try:
        parts = urlsplit(f"//{host}")
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if parts.netloc != host or "@" in host or not own:
        return False
    # Over HTTPS the port may be another one: that of a forwarding, or of a container's host.
    if not site.is_secure and (port or 80) != own[1]:
        return False
    return name in site.names or _is_address(name, str(own[0]))


def _is_address(name: str, own: str) -> bool:
    """Return whether a name is the address at which the connection arrived."""
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(own.partition("%")[0])
    except ValueError:
        return False

"""Certificates that are replaced before they end, while their process runs."""

from __future__ import annotations

import asyncio
import datetime
import logging
import ssl
import weakref
from collections.abc import Awaitable, Callable

from cryptography import x509

from dray.apiserver.access.certificates import KeyPair
from dray.client import rest
from dray.clock import utc_now

log = logging.getLogger(__name__)

REMAINING = 1 / 3
"""The part of its lifetime that a certificate has left when it is replaced."""
CHECK_SECONDS = 60.0

Clock = Callable[[], datetime.datetime]
Publish = Callable[[bytes], Awaitable[None]]
"""Called with a new certificate before it is served, together with the one before."""


def renewal_time(pair: KeyPair) -> datetime.datetime:
    """Return the time from which on a certificate is to be replaced."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return end - (end - start) * REMAINING


class RenewedPair:
    """The current certificate of a server, and the TLS contexts that serve it.

    Contexts give the new certificate to new connections; open ones go on with theirs.
    """

    def __init__(self, issue: Callable[[], KeyPair], now: Clock = utc_now) -> None:
        self._issue = issue
        self._now = now
        self._contexts: weakref.WeakSet[ssl.SSLContext] = weakref.WeakSet()
        self.pair = issue()
        self._renewal = renewal_time(self.pair)

    @property
    def certificate(self) -> bytes:
        return self.pair.certificate

    @property
    def is_due(self) -> bool:
        return self._now() >= self._renewal

    def serve_in(self, context: ssl.SSLContext) -> None:
        """Load the certificate into a context, and each later one."""
        rest.load_pair(context, self.pair.certificate, self.pair.key)
        self._contexts.add(context)

    async def renew(self, publish: Publish | None = None) -> None:
        """Replace the certificate if it is due."""
        if not self.is_due:
            return
        new = self._issue()
        if publish is not None:
            await publish(new.certificate + self.pair.certificate)
        for context in self._contexts:
            rest.load_pair(context, new.certificate, new.key)
        self.pair, self._renewal = new, renewal_time(new)
        log.info("the serving certificate is replaced; the new one is due at %s", self._renewal)

    async def run(
        self, publish: Publish | None = None, check_seconds: float = CHECK_SECONDS
    ) -> None:
        """Replace the certificate whenever it is due, until cancelled."""
        while True:
            await asyncio.sleep(check_seconds)
            try:
                await self.renew(publish)
            except Exception:
                # The certificate is valid for long: the next check tries again.
                log.exception("the serving certificate cannot be replaced")

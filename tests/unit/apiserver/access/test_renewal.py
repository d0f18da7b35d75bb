"""When a certificate is replaced, and what happens if that fails."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest

from dray.apiserver.access import renewal
from dray.apiserver.access.certificates import Authority
from dray.apiserver.access.renewal import RenewedPair
from dray.clock import utc_now
from tests import loop

DAY = datetime.timedelta(days=1)


class Clock:
    def __init__(self) -> None:
        self.now = utc_now()

    def __call__(self) -> datetime.datetime:
        return self.now


def renewed(folder: Path, clock: Clock) -> RenewedPair:
    authority = Authority.load_or_create(folder)
    return RenewedPair(lambda: authority.server_pair(["localhost"]), clock)


def test_a_certificate_is_replaced_when_a_third_of_its_life_is_left(tmp_path: Path) -> None:
    clock = Clock()
    pair = renewed(tmp_path, clock)
    first = pair.certificate
    clock.now += 243 * DAY
    loop.run(pair.renew())
    assert pair.certificate == first
    clock.now += DAY
    loop.run(pair.renew())
    assert pair.certificate != first


def test_a_new_certificate_is_published_with_the_old_one_before_it_is_served(
    tmp_path: Path,
) -> None:
    clock = Clock()
    pair = renewed(tmp_path, clock)
    first = pair.certificate
    published: list[tuple[bytes, bytes]] = []

    async def publish(certificates: bytes) -> None:
        published.append((certificates, pair.certificate))

    clock.now += 300 * DAY
    loop.run(pair.renew(publish))
    assert published == [(pair.certificate + first, first)]


def test_a_certificate_that_cannot_be_published_is_not_served(tmp_path: Path) -> None:
    clock = Clock()
    pair = renewed(tmp_path, clock)
    first = pair.certificate

    async def publish(_certificates: bytes) -> None:
        raise OSError("no API server")

    clock.now += 300 * DAY
    with pytest.raises(OSError, match="no API server"):
        loop.run(pair.renew(publish))
    assert pair.certificate == first
    assert pair.is_due


def test_contexts_are_not_kept_alive(tmp_path: Path) -> None:
    pair = renewed(tmp_path, Clock())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair.serve_in(context)
    assert len(pair._contexts) == 1
    del context
    assert len(pair._contexts) == 0


def test_the_time_is_that_of_the_certificate(tmp_path: Path) -> None:
    pair = Authority.load_or_create(tmp_path).server_pair(["localhost"])
    assert 242 * DAY < renewal.renewal_time(pair) - utc_now() < 244 * DAY

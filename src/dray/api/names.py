"""Ids as types, and the rules for names: DNS labels, subdomains, qualified names, C identifiers."""

from __future__ import annotations

from typing import NamedTuple


class PoolId(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class SharedDeviceId(NamedTuple):
    driver: str
    pool: str
    device: str
    share: str


class ClaimKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class RequestName(NamedTuple):
    """A request of a claim, or one alternative of a `firstAvailable` request."""

    parent: str
    sub: str = ""

    def __str__(self) -> str:
        return f"{self.parent}/{self.sub}" if self.sub else self.parent

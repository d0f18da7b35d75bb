"""Typed ids: pools, devices, claims, requests, kinds and resources."""

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

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.driver, self.pool)


class SharedDeviceId(NamedTuple):
    driver: str
    pool: str
    device: str
    share: str

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.driver, self.pool)


class GroupResource(NamedTuple):
    """A collection of the API: group and plural name."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupKind(NamedTuple):
    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class ObjectKey(NamedTuple):
    """An object within its kind; objects without a namespace have an empty one."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


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

"""The objects of each node: the pods bound to it, what those pods use, its slices.

The node authorizer reads it; `storage.follower` keeps it in sync.
As plugin/pkg/auth/authorizer/node,
Graph, for the objects that dray's nodes read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Protocol

from dray.api import kinds, well_known
from dray.api.types.containers import EnvFromSource, EnvVar
from dray.api.types.meta import ObjectMeta, Wire
from dray.api.types.pods import (
    LocalObjectReference,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodResourceClaimStatus,
)
from dray.api.types.volumes import Volume
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.lookup import Reader
from dray.store.store import Entry

CLAIMS, CONFIG_MAPS, SECRETS = "resourceclaims", "configmaps", "secrets"
NAMESPACES = "namespaces"
SERVICE_ACCOUNTS, VOLUME_CLAIMS = "serviceaccounts", "persistentvolumeclaims"


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class _Container(Wire, frozen=True):
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()


class _Spec(Wire, frozen=True):
    node_name: str = ""
    service_account_name: str = ""
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    containers: tuple[_Container, ...] = ()
    ephemeral_containers: tuple[_Container, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()


class _Status(Wire, frozen=True):
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class _Pod(Wire, frozen=True):
    """The fields of a pod that say on which node it is and what it uses."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class PodRelations:
    """The pods of each node, and the names of what each of them uses."""

    prefix = store_keys.prefix(kinds.POD)

    def __init__(self) -> None:
        self._reader = Reader(_Pod)
        self._node_of: dict[str, str] = {}
        self._uses: dict[str, dict[str, tuple[str, ...]]] = {}

    def put(self, entry: Entry) -> None:
        pod = self._reader.read(entry)
        node = pod.spec.node_name
        if node != self._node_of.get(entry.key, ""):
            self.remove(entry.key)
        if node:
            self._node_of[entry.key] = node
            self._uses.setdefault(node, {})[entry.key] = _rights_of(pod)

    def remove(self, key: str) -> None:
        node = self._node_of.pop(key, None)
        if node is not None:
            self._uses[node].pop(key, None)
            if not self._uses[node]:
                del self._uses[node]

    def is_bound(self, node: str, namespace: str, name: str) -> bool:
        return self._node_of.get(store_keys.key(kinds.POD, name, namespace)) == node

    def is_used(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Whether a pod on the node, in the object's namespace, uses the object."""
        used_name, prefix = f"{resource}/{name}", store_keys.prefix(kinds.POD, namespace)
        return any(
            used_name in used and key.startswith(prefix)
            for key, used in self._uses.get(node, {}).items()
        )


def _rights_of(pod: _Pod) -> tuple[str, ...]:
    """Return what a pod gives its node access to; a mirror pod, which the node made, nothing."""
    if well_known.MIRROR_POD_ANNOTATION in pod.metadata.annotations:
        return ()
    used = (f"{NAMESPACES}/{pod.metadata.namespace}", *_used_by(pod))
    return tuple(dict.fromkeys(map(sys.intern, used)))


def used_by(pod: dict[str, Any]) -> list[str]:
    """Return the objects that a pod refers to, as `resource/name`."""
    return list(_used_by(Reader(_Pod).convert(pod)))


def _used_by(pod: _Pod) -> Iterator[str]:
    spec = pod.spec
    if spec.service_account_name:
        yield f"{SERVICE_ACCOUNTS}/{spec.service_account_name}"
    for secret in spec.image_pull_secrets:
        yield f"{SECRETS}/{secret.name}"
    for container in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers):
        yield from _used_by_container(container)
    for volume in spec.volumes:
        yield from _used_by_volume(volume)
    for claim in _claims(pod):
        yield f"{CLAIMS}/{claim}"


def _used_by_container(container: _Container) -> Iterator[str]:
    for source in container.env_from:
        yield from _config_and_secret(source.config_map_ref, source.secret_ref)
    for variable in container.env:
        if value := variable.value_from:
            yield from _config_and_secret(value.config_map_key_ref, value.secret_key_ref)


def _config_and_secret(config_map: _Named | None, secret: _Named | None) -> Iterator[str]:
    if config_map:
        yield f"{CONFIG_MAPS}/{config_map.name}"
    if secret:
        yield f"{SECRETS}/{secret.name}"


def _used_by_volume(volume: Volume) -> Iterator[str]:
    if volume.secret:
        yield f"{SECRETS}/{volume.secret.secret_name}"
    if volume.config_map:
        yield f"{CONFIG_MAPS}/{volume.config_map.name}"
    if volume.persistent_volume_claim:
        yield f"{VOLUME_CLAIMS}/{volume.persistent_volume_claim.claim_name}"
    for projection in volume.projected.sources if volume.projected else ():
        yield from _config_and_secret(projection.config_map, projection.secret)


def _claims(pod: _Pod) -> Iterator[str]:
    generated = {
        status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses
    }
    for claim in pod.spec.resource_claims:
        name = claim.resource_claim_name or generated.get(claim.name)
        if name:
            yield name
    extended = pod.status.extended_resource_claim_status
    if extended and extended.resource_claim_name:
        yield extended.resource_claim_name


class _SliceSpec(Wire, frozen=True):
    node_name: str | None = None


class _Slice(Wire, frozen=True):
    spec: _SliceSpec = _SliceSpec()


class SliceRelations:
    """The node of each slice that belongs to one."""

    prefix = store_keys.prefix(kinds.RESOURCE_SLICE)

    def __init__(self) -> None:
        self._reader = Reader(_Slice)
        self._node_of: dict[str, str] = {}

    def put(self, entry: Entry) -> None:
        node = self._reader.read(entry).spec.node_name
        if node:
            self._node_of[entry.key] = sys.intern(node)
        else:
            self.remove(entry.key)

    def remove(self, key: str) -> None:
        self._node_of.pop(key, None)

    def is_of(self, node: str, name: str) -> bool:
        return self._node_of.get(store_keys.key(kinds.RESOURCE_SLICE, name)) == node

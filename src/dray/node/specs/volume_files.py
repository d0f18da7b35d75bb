"""Files of ConfigMap, Secret, downward API and projected volumes, with their modes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dray.api import kinds
from dray.api.types import volumes as types
from dray.api.types.pods import Pod
from dray.api.types.volumes import Volume, VolumeProjection
from dray.client.api_client import Client
from dray.node.runtimes.interface import ContainerConfigError
from dray.node.specs import value_sources

DEFAULT_MODE: Final = 0o644
TOKEN_SECONDS: Final = 3607
DownwardSource = types.DownwardAPIVolumeSource | types.DownwardAPIProjection
FileSource = value_sources.SecretInVolume | value_sources.ConfigMapInVolume | DownwardSource


@dataclass(frozen=True)
class VolumeFile:
    content: bytes
    mode: int = DEFAULT_MODE


FilesByPath = dict[str, VolumeFile]


@dataclass(frozen=True)
class VolumeFiles:
    """Reads the files of a pod's volumes from the API."""

    client: Client
    pod: Pod

    async def of(self, volume: Volume) -> FilesByPath:
        """Return the files of a volume by their paths in it. Raises ContainerConfigError."""
        if volume.projected is not None:
            found: FilesByPath = {}
            mode = _mode(volume.projected.default_mode)
            for projection in volume.projected.sources:
                found.update(await self._projected(projection, mode))
            return found
        source = volume.config_map or volume.secret or volume.downward_api
        if source is None:
            raise ContainerConfigError(
                f"volume {volume.name} is of a kind that this node does not support"
            )
        return await self._from_source(source, _mode(source.default_mode))

    async def _projected(self, projection: VolumeProjection, mode: int) -> FilesByPath:
        if (token := projection.service_account_token) is not None:
            content = await self._token(token.audience, token.expiration_seconds)
            return {token.path: VolumeFile(content, mode)}
        source = projection.config_map or projection.secret or projection.downward_api
        if source is None:
            raise ContainerConfigError(
                "a projected volume has a source that this node does not support"
            )
        return await self._from_source(source, mode)

    async def _from_source(self, source: FileSource, mode: int) -> FilesByPath:
        modes = {item.path: item.mode for item in source.items if item.mode is not None}
        if isinstance(source, DownwardSource):
            found = _downward(self.pod, source.items)
        else:
            values = await value_sources.values(self.client, self.pod.metadata.namespace, source)
            found = value_sources.chosen(values, source.items, bool(source.optional))
        return {path: VolumeFile(content, modes.get(path, mode)) for path, content in found.items()}

    async def _token(self, audience: str, seconds: int | None) -> bytes:
        metadata = self.pod.metadata
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata.name, "uid": metadata.uid}
        spec = {
            "audiences": [audience] if audience else [],
            "expirationSeconds": seconds or TOKEN_SECONDS,
            "boundObjectRef": bound,
        }
        made = await self.client.create_subresource(
            kinds.SERVICE_ACCOUNT,
            self.pod.spec.service_account_name or "default",
            "token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
            metadata.namespace,
        )
        return str(made["status"]["token"]).encode()


def _mode(default_mode: int | None) -> int:
    return DEFAULT_MODE if default_mode is None else default_mode


def _downward(pod: Pod, items: Iterable[types.DownwardAPIVolumeFile]) -> dict[str, bytes]:
    made = {}
    for item in items:
        if item.field_ref is not None:
            made[item.path] = value_sources.field(pod, item.field_ref.field_path).encode()
        elif item.resource_field_ref is not None:
            first = pod.spec.containers[0]
            made[item.path] = value_sources.resource(pod, first, item.resource_field_ref).encode()
    return made

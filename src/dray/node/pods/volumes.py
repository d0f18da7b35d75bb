"""Volumes of a pod as folders on the node, and where its containers see them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from dray import durable_files
from dray.api import kinds
from dray.api.types import volumes as types
from dray.api.types.containers import Container, VolumeMount
from dray.api.types.pods import Pod
from dray.api.types.volumes import Volume, VolumeProjection
from dray.client.api_client import Client
from dray.node.pods import environment, value_sources
from dray.node.runtimes.interface import Bind, ContainerConfigError

DEFAULT_MODE: Final = 0o644
TOKEN_SECONDS: Final = 3607
DownwardSource = types.DownwardAPIVolumeSource | types.DownwardAPIProjection
FileSource = value_sources.SecretInVolume | value_sources.ConfigMapInVolume | DownwardSource


@dataclass(frozen=True)
class Volumes:
    """Makes the volumes of pods under `folder`; `allows_host` lets them see the host's files."""

    client: Client
    folder: Path
    allows_host: bool = False

    async def prepare(self, pod: Pod) -> dict[str, Path]:
        """Make the volumes of a pod, and return their folders. Raises ContainerConfigError."""
        return {volume.name: await self._prepare(pod, volume) for volume in pod.spec.volumes}

    async def _prepare(self, pod: Pod, volume: Volume) -> Path:
        if volume.host_path is not None:
            return self._host_path(volume)
        target = self.folder / pod.metadata.uid / "volumes" / volume.name
        target.mkdir(parents=True, exist_ok=True)
        if volume.empty_dir is not None:
            target.chmod(0o777)
            return target
        files, mode = await self._files(pod, volume)
        for path, content in files.items():
            _write(target, path, content, mode)
        return target

    def _host_path(self, volume: Volume) -> Path:
        assert volume.host_path is not None
        if not self.allows_host:
            raise ContainerConfigError(f"volume {volume.name}: hostPath needs --allow-host-access")
        path = Path(volume.host_path.path)
        if volume.host_path.type == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            raise ContainerConfigError(f"volume {volume.name}: {path} does not exist on the node")
        return path

    async def _files(self, pod: Pod, volume: Volume) -> tuple[dict[str, bytes], int | None]:
        if volume.projected is not None:
            found: dict[str, bytes] = {}
            for projection in volume.projected.sources:
                found.update(await self._projected(pod, projection))
            return found, volume.projected.default_mode
        source = volume.config_map or volume.secret or volume.downward_api
        if source is None:
            raise ContainerConfigError(
                f"volume {volume.name} is of a kind that this node does not support"
            )
        return await self._from_source(pod, source), source.default_mode

    async def _projected(self, pod: Pod, projection: VolumeProjection) -> dict[str, bytes]:
        if (token := projection.service_account_token) is not None:
            return {token.path: await self._token(pod, token.audience, token.expiration_seconds)}
        source = projection.config_map or projection.secret or projection.downward_api
        if source is None:
            raise ContainerConfigError(
                "a projected volume has a source that this node does not support"
            )
        return await self._from_source(pod, source)

    async def _from_source(self, pod: Pod, source: FileSource) -> dict[str, bytes]:
        if isinstance(source, DownwardSource):
            return _downward(pod, source.items)
        values = await value_sources.values(self.client, pod.metadata.namespace, source)
        return value_sources.chosen(values, source.items, bool(source.optional))

    async def _token(self, pod: Pod, audience: str, seconds: int | None) -> bytes:
        metadata = pod.metadata
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata.name, "uid": metadata.uid}
        spec = {
            "audiences": [audience] if audience else [],
            "expirationSeconds": seconds or TOKEN_SECONDS,
            "boundObjectRef": bound,
        }
        made = await self.client.create_subresource(
            kinds.SERVICE_ACCOUNT,
            pod.spec.service_account_name or "default",
            "token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
            metadata.namespace,
        )
        return str(made["status"]["token"]).encode()


def binds(container: Container, folders: dict[str, Path], env: dict[str, str]) -> Iterable[Bind]:
    """Return the mounts of a container's volumes."""
    for mount in container.volume_mounts:
        if mount.name not in folders:
            raise ContainerConfigError(f"volume {mount.name} is not one of the pod's")
        source = folders[mount.name] / _sub_path(mount, env)
        if not source.exists():
            source.mkdir(parents=True)
        yield Bind(str(source), mount.mount_path, mount.read_only)


def _sub_path(mount: VolumeMount, env: dict[str, str]) -> str:
    path = mount.sub_path or environment.expand(mount.sub_path_expr, env)
    if os.path.isabs(path) or ".." in PurePosixPath(path).parts:
        raise ContainerConfigError(f"sub path {path} leaves its volume")
    return path


def _downward(pod: Pod, items: Iterable[types.DownwardAPIVolumeFile]) -> dict[str, bytes]:
    made = {}
    for item in items:
        if item.field_ref is not None:
            made[item.path] = value_sources.field(pod, item.field_ref.field_path).encode()
        elif item.resource_field_ref is not None:
            first = pod.spec.containers[0]
            made[item.path] = value_sources.resource(pod, first, item.resource_field_ref).encode()
    return made


def _write(folder: Path, path: str, content: bytes, mode: int | None) -> None:
    target = folder / path
    if ".." in PurePosixPath(path).parts:
        raise ContainerConfigError(f"{path} leaves its volume")
    target.parent.mkdir(parents=True, exist_ok=True)
    chosen = DEFAULT_MODE if mode is None else mode
    durable_files.replace_file(target, content, mode=chosen, single_writer=True)

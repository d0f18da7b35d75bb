"""Volumes of a pod as folders on the node, and where its containers see them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from dray import durable_files
from dray.api import kinds
from dray.api.types.containers import Container, VolumeMount
from dray.api.types.pods import Pod
from dray.api.types.volumes import DownwardAPIVolumeFile, Volume, VolumeProjection
from dray.client.api_client import Client
from dray.node.pods import environment, value_sources
from dray.node.runtimes.interface import Bind, ContainerConfigError

DEFAULT_MODE: Final = 0o644
TOKEN_SECONDS: Final = 3607


@dataclass(frozen=True)
class Volumes:
    """Makes the volumes of pods under `folder`; `allows_host` lets them see the host's files."""

    client: Client
    folder: Path
    allows_host: bool = False

    async def prepare(self, pod: Pod) -> dict[str, Path]:
        """The folder behind each volume; raises ConfigError for one that cannot be made."""
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
        client, namespace = self.client, pod.metadata.namespace
        if (chosen := volume.config_map) is not None:
            optional = bool(chosen.optional)
            values = await value_sources.config_map(client, namespace, chosen.name, optional)
            return value_sources.chosen(values, chosen.items, optional), chosen.default_mode
        if (secret := volume.secret) is not None:
            optional = bool(secret.optional)
            values = await value_sources.secret(client, namespace, secret.secret_name, optional)
            return value_sources.chosen(values, secret.items, optional), secret.default_mode
        if volume.downward_api is not None:
            return _downward(pod, volume.downward_api.items), volume.downward_api.default_mode
        if volume.projected is not None:
            found: dict[str, bytes] = {}
            for projection in volume.projected.sources:
                found.update(await self._projected(pod, projection))
            return found, volume.projected.default_mode
        raise ContainerConfigError(
            f"volume {volume.name} is of a kind that this node does not support"
        )

    async def _projected(self, pod: Pod, source: VolumeProjection) -> dict[str, bytes]:
        client, namespace = self.client, pod.metadata.namespace
        if (chosen := source.config_map) is not None:
            optional = bool(chosen.optional)
            values = await value_sources.config_map(client, namespace, chosen.name, optional)
            return value_sources.chosen(values, chosen.items, optional)
        if (secret := source.secret) is not None:
            optional = bool(secret.optional)
            values = await value_sources.secret(client, namespace, secret.name, optional)
            return value_sources.chosen(values, secret.items, optional)
        if source.downward_api is not None:
            return _downward(pod, source.downward_api.items)
        if (token := source.service_account_token) is not None:
            return {token.path: await self._token(pod, token.audience, token.expiration_seconds)}
        raise ContainerConfigError(
            "a projected volume has a source that this node does not support"
        )

    async def _token(self, pod: Pod, audience: str, seconds: int | None) -> bytes:
        spec = {
            "audiences": [audience] if audience else [],
            "expirationSeconds": seconds or TOKEN_SECONDS,
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod.metadata.name,
                "uid": pod.metadata.uid,
            },
        }
        made = await self.client.create_subresource(
            kinds.SERVICE_ACCOUNT,
            pod.spec.service_account_name or "default",
            "token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
            pod.metadata.namespace,
        )
        return str(made["status"]["token"]).encode()


def binds(container: Container, folders: dict[str, Path], env: dict[str, str]) -> Iterable[Bind]:
    """Where a container sees the volumes it mounts."""
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


def _downward(pod: Pod, items: Iterable[DownwardAPIVolumeFile]) -> dict[str, bytes]:
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

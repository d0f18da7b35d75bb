"""Volumes of a pod as folders on the node, and where its containers see them.

Files of the API are mounted read-only. What containers can change is reached by descriptor only:
neither a sub path nor a file of the agent passes a link that a container made.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.api.types.containers import Container, VolumeMount
from dray.api.types.pods import Pod
from dray.api.types.volumes import HostPathVolumeSource, Volume
from dray.client.api_client import Client
from dray.node import host_paths
from dray.node.host_paths import Owner, SafeFolder, UnsafePath
from dray.node.runtimes.interface import Bind, ContainerConfigError, HostIds
from dray.node.specs import environment, memory_volumes
from dray.node.specs.volume_files import VolumeFiles

FOLDER_MODE: Final = 0o755
EMPTY_MODE: Final = 0o777
GROUP_READS, SET_GROUP = 0o440, 0o2070
HOST_PATH_CHECKS: Final = {
    "Directory": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}
_NOT_FOR_VOLUMES: Final = ("/", "/proc", "/sys", "/dev")


@dataclass(frozen=True)
class PreparedVolume:
    """A volume on the node."""

    path: Path
    is_read_only: bool = False
    """Whether containers see it read-only, whatever their mounts say."""
    owner: Owner | None = None
    """The owner of folders that are made in it; None for the agent."""


@dataclass(frozen=True)
class Volumes:
    """Makes the volumes of pods under `folder`; `allows_host` lets them see the host's files."""

    client: Client
    folder: Path
    allows_host: bool = False
    ids: HostIds | None = None
    """The ids that the pod has on the host; None where they are those of the agent."""

    async def prepare(self, pod: Pod) -> dict[str, PreparedVolume]:
        """Make the volumes of a pod. Raises ContainerConfigError."""
        group = _file_system_group(pod, self.ids)
        made = {}
        for index, volume in enumerate(pod.spec.volumes):
            try:
                made[volume.name] = await self._prepare(pod, volume, group)
            except (UnsafePath, OSError) as error:
                where = f"spec.volumes[{index}] ({volume.name})"
                raise ContainerConfigError(f"{where}: {error}") from error
        return made

    async def _prepare(self, pod: Pod, volume: Volume, group: int | None) -> PreparedVolume:
        if volume.host_path is not None:
            return PreparedVolume(self._host_path(volume.name, volume.host_path))
        medium = volume.empty_dir.medium if volume.empty_dir is not None else ""
        if medium not in ("", "Memory"):
            raise ContainerConfigError(
                f"volume {volume.name}: emptyDir.medium {medium} is not supported"
            )
        owner = _owner(self.ids, group)
        beneath = f"{pod.metadata.uid}/volumes/{volume.name}"
        is_empty = volume.empty_dir is not None
        files = {} if is_empty else await VolumeFiles(self.client, pod).of(volume)
        if volume.empty_dir is not None:
            with SafeFolder.open(self.folder) as pods, pods.enter(beneath, mode=0o700):
                memory_volumes.mount(self.folder / beneath, volume.empty_dir)
        with SafeFolder.open(self.folder) as pods, pods.enter(beneath, mode=0o700) as folder:
            folder.set_rights(_folder_mode(volume, group), owner)
            for path, file in files.items():
                mode = file.mode if group is None else file.mode | GROUP_READS
                folder.write(path, file.content, mode=mode, folder_mode=FOLDER_MODE, owner=owner)
        return PreparedVolume(self.folder / beneath, not is_empty, owner)

    def _host_path(self, name: str, source: HostPathVolumeSource) -> Path:
        if not self.allows_host:
            raise ContainerConfigError(f"volume {name}: hostPath needs --allow-host-access")
        path, kind = Path(source.path), source.type or ""
        if kind == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
            kind = "Directory"
        elif kind == "FileOrCreate":
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            kind = "File"
        if not path.exists():
            raise ContainerConfigError(f"volume {name}: {path} does not exist on the node")
        if kind and kind not in HOST_PATH_CHECKS:
            raise ContainerConfigError(f"volume {name}: hostPath.type {kind} is not supported")
        if kind and not HOST_PATH_CHECKS[kind](path.stat().st_mode):
            raise ContainerConfigError(f"volume {name}: {path} on the node is not a {kind}")
        return path


def binds(
    container: Container, volumes: Mapping[str, PreparedVolume], env: Mapping[str, str]
) -> list[Bind]:
    """Return the mounts of a container's volumes. Raises ContainerConfigError."""
    made = []
    for index, mount in enumerate(container.volume_mounts):
        if mount.name not in volumes:
            raise ContainerConfigError(f"volume {mount.name} is not one of the pod's")
        try:
            made.append(_bind(mount, volumes[mount.name], env))
        except (UnsafePath, OSError) as error:
            where = f"container {container.name}: volumeMounts[{index}]"
            raise ContainerConfigError(f"{where}: {error}") from error
    return made


def make_mount_points(volumes: Mapping[str, PreparedVolume], mounts: Iterable[Bind]) -> None:
    """Make the folders on which volumes are mounted inside volumes that are mounted read-only.

    Nobody could make them later. Raises ContainerConfigError.
    """
    by_path = {str(volume.path): volume for volume in volumes.values()}
    listed = list(mounts)
    for outer in listed:
        for inner in listed:
            if outer.read_only and inner.target.startswith(f"{outer.target}/"):
                _make_mount_point(outer, inner, by_path[outer.source])


def container_path(path: str) -> str:
    """Return an absolute path in a container without dots. Raises UnsafePath."""
    if "\0" in path:
        raise UnsafePath(f"{path!r} has a NUL byte")
    if ".." in path.split("/"):
        raise UnsafePath(f"{path} must not contain '..'")
    return posixpath.normpath("/" + path.lstrip("/"))


def _bind(mount: VolumeMount, volume: PreparedVolume, env: Mapping[str, str]) -> Bind:
    if mount.mount_propagation not in (None, "None"):
        raise UnsafePath(f"mountPropagation {mount.mount_propagation} is not supported")
    if mount.bind_mount_options:
        raise UnsafePath("bindMountOptions are not supported")
    target = container_path(mount.mount_path)
    if target in _NOT_FOR_VOLUMES or target.startswith("/proc/"):
        raise UnsafePath(f"mountPath {target} is the system's: mount the volume elsewhere")
    path = mount.sub_path or environment.expand(mount.sub_path_expr, env)
    read_only = mount.read_only or volume.is_read_only
    names = host_paths.parts(path)
    if names:
        _make_sub_path(volume, "/".join(names))
    return Bind(str(volume.path), target, read_only, "/".join(names))


def _make_sub_path(volume: PreparedVolume, beneath: str) -> None:
    """Make the folders of a sub path, unless it is there. Raises UnsafePath for a link in it."""
    with SafeFolder.open(volume.path) as folder:
        found = folder.status(beneath)
        if found is None:
            mode = stat.S_IMODE(os.stat(volume.path).st_mode)
            folder.enter(beneath, mode=mode, owner=volume.owner).__exit__()
        elif stat.S_ISLNK(found.st_mode):
            raise UnsafePath(f"sub path {beneath} is a link; links are not followed")


def _make_mount_point(outer: Bind, inner: Bind, volume: PreparedVolume) -> None:
    path = posixpath.join(outer.beneath, inner.target[len(outer.target) + 1 :])
    try:
        _make_sub_path(volume, path)
    except (UnsafePath, OSError) as error:
        raise ContainerConfigError(f"mountPath {inner.target}: {error}") from error


def _folder_mode(volume: Volume, group: int | None) -> int:
    if volume.empty_dir is None:
        return FOLDER_MODE
    mode = EMPTY_MODE if volume.empty_dir.mode is None else volume.empty_dir.mode
    return mode if group is None else mode | SET_GROUP


def _owner(ids: HostIds | None, group: int | None) -> Owner | None:
    """Return the owner of a volume: root of the pod, or nobody where only root could set it."""
    if ids is None:
        return None
    return ids.first_user, ids.first_group if group is None else group


def _file_system_group(pod: Pod, ids: HostIds | None) -> int | None:
    """Return the host's id of the pod's fsGroup, or None without one.

    Raises ContainerConfigError for a group that the pod does not have on this node.
    """
    context = pod.spec.security_context
    if context is None or context.fs_group is None:
        return None
    found = ids.group(context.fs_group) if ids is not None else None
    if found is None and context.fs_group:
        raise ContainerConfigError(
            f"spec.securityContext.fsGroup: {context.fs_group} is not a group of containers on "
            "this node; leave it out, or give the node a range of ids in /etc/subgid"
        )
    return found

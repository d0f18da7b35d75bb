"""Containers in namespaces of their own: files, processes, users, network; also as ordinary user.

A container sees the system's programs and libraries read-only, an /etc made for it, empty folders
elsewhere, and what its volumes and devices put there. It sees nobody's home, nothing of /run, no
device that was not claimed, no process and no network of the host, and nothing of dray. There are
no images: the host's programs run. The shim makes all that, in `dray.node.containers`.
"""

from __future__ import annotations

import base64
import functools
import os
import platform
import posixpath
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from dray.node.containers import (
    container_attempts,
    container_root,
    seccomp,
    shim,
    system_calls,
)
from dray.node.containers.container_attempts import (
    Argv,
    Command,
    ContainerAttempt,
    SandboxMount,
    SandboxPlan,
)
from dray.node.runtimes import host_users
from dray.node.runtimes.interface import (
    Bind,
    ContainerConfigError,
    ContainerSpec,
    HostIds,
    Runtime,
    RuntimeUnusable,
    SecurityProfile,
)

NAME: Final = "sandbox"
PATH: Final = "/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SHOWN = ("/usr", *_SYSTEM)
_FROM_ETC = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl", "/etc/localtime")
_EMPTY = (
    *(("/tmp", "1777"), ("/run", "755"), ("/var/tmp", "1777"), ("/root", "700")),
    ("/home", "755"),
)
_RESERVED = ("/", "/proc", "/dev")
_OWN_IN_DEV: Final = frozenset((*container_root.DEVICES, "ptmx", "pts", "shm"))
"""What every container has in its own /dev."""
_PROBE_SECONDS = 30.0
_POD_DEPTH: Final = 3
"""The folder of a start is this far below that of its pod."""


class Sandbox(Runtime):
    """Nothing is to be discarded: sandboxes die with their shim."""

    name = NAME
    has_own_etc = False
    has_own_network = True
    forwards_api_server = True
    takes_network_helper = True
    caution = "The sandbox has no images: containers run the programs of the node"

    @property
    def default_environment(self) -> dict[str, str]:
        return {"PATH": PATH, "HOME": "/root"}

    @property
    def uses_host_user_id(self) -> bool:
        return os.geteuid() == 0

    def host_ids(self, host_user_id: int | None) -> HostIds | None:
        # An ordinary user maps itself: what it makes belongs to root of the pod already.
        if os.geteuid() != 0:
            return None
        users = host_users.mapping(host_user_id)
        (_, user, users_count), (_, group, groups_count) = users.uids[0], users.gids[0]
        return HostIds(user, group, min(users_count, groups_count))

    def try_out(self) -> None:
        if said := try_container(ContainerSpec(("/bin/true",))):
            raise RuntimeUnusable(f"no sandbox can be made here: {said}")

    def command(self, spec: ContainerSpec, folder: str) -> Command:
        pod = str(Path(folder).parents[_POD_DEPTH - 1]) if folder else ""
        return Command(
            list(spec.argv),
            spec.env,
            stdin=spec.stdin,
            stdin_once=spec.stdin_once,
            tty=spec.tty,
            sandbox=_plan(spec, pod),
        )

    def exec_command(
        self, attempt: ContainerAttempt, argv: Argv, *, stdin: bool = False, tty: bool = False
    ) -> Command:
        """Return a command that enters the sandbox, with no more rights than the container has."""
        if attempt.command().get("sandbox") is None:
            raise LookupError(
                f"container {attempt.folder.parent.name} was started by an earlier version of "
                "dray, which cannot be entered: restart the pod"
            )
        enter = container_attempts.interpreter("dray.node.containers.enter")
        kind = "tty" if tty else "pipes"
        return Command([*enter, str(attempt.folder), kind, *argv])


@functools.cache
def is_usable() -> bool:
    """Whether a sandbox works here."""
    try:
        Sandbox().try_out()
    except RuntimeUnusable:
        return False
    return True


def try_container(spec: ContainerSpec) -> str:
    """Run a small container without a pod, and return the error text; empty for success."""
    with tempfile.TemporaryDirectory(prefix="dray-sandbox-") as folder:
        try:
            plan = Command(list(spec.argv), {}, sandbox=_plan(spec, ""))
            (Path(folder) / shim.COMMAND).write_bytes(msgspec.json.encode(plan))
            argv = container_attempts.interpreter("dray.node.containers.try_out")
            subprocess.run(
                [*argv, folder], env={}, timeout=_PROBE_SECONDS, check=True, capture_output=True
            )
            attempt = ContainerAttempt(Path(folder))
            ended = attempt.exit()
            if ended is not None and ended.code == 0:
                return ""
            return attempt.log.read_text("utf-8", "replace").strip().partition("dray: ")[2]
        except (OSError, subprocess.SubprocessError, ContainerConfigError) as error:
            return str(error)


def _plan(spec: ContainerSpec, pod: str) -> SandboxPlan:
    """Return everything that the shim needs. Raises ContainerConfigError."""
    security = spec.security
    users = host_users.HOST if spec.has_host_users else host_users.mapping(spec.host_user_id)
    users.check(security)
    unknown = set(security.capabilities) - {*system_calls.CAPABILITIES}
    if unknown:
        raise ContainerConfigError(f"there is no capability {min(unknown)}")
    folder = spec.working_directory or "/"
    return SandboxPlan(
        pod=pod,
        hostname=spec.hostname,
        uids=users.uids,
        gids=users.gids,
        sets_groups=users.sets_groups,
        # An ordinary user mounts from inside the user namespace, where it is root.
        owner=users.host_owner if os.geteuid() == 0 else (0, 0),
        uid=security.uid,
        gid=security.gid,
        groups=list(security.groups),
        capabilities=list(_capabilities(security)),
        filter=_filter() if security.is_confined else "",
        has_read_only_root=security.has_read_only_root,
        has_host_network=spec.has_host_network,
        api_server=spec.api_server,
        network_helper=spec.network_helper,
        working_directory=folder,
        links=[(os.readlink(path), path) for path in _SYSTEM if os.path.islink(path)],
        folders=list(_EMPTY),
        files=spec.files,
        mounts=[*_system_files(), *_host_devices(spec), *_device_nodes(spec), *_binds(spec)],
    )


def _capabilities(security: SecurityProfile) -> tuple[str, ...]:
    return system_calls.CAPABILITIES if security.is_privileged else security.capabilities


@functools.cache
def _filter() -> str:
    return base64.b64encode(seccomp.default_filter(platform.machine())).decode("ascii")


def _system_files() -> Iterator[SandboxMount]:
    for folder in _SHOWN:
        if os.path.isdir(folder) and not os.path.islink(folder):
            yield SandboxMount(folder, folder)
    for path in _FROM_ETC:
        if os.path.exists(path):
            yield SandboxMount(path, path)


def _host_devices(spec: ContainerSpec) -> Iterator[SandboxMount]:
    """Yield every device of the node for a privileged container, except for those that all have."""
    if not spec.security.is_privileged:
        return
    claimed = {node.path for node in spec.device_nodes}
    for folder, below, names in os.walk("/dev"):
        below[:] = [name for name in below if name not in _OWN_IN_DEV]
        for name in names:
            path = posixpath.join(folder, name)
            mode = os.lstat(path).st_mode
            is_device = stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
            if is_device and name not in _OWN_IN_DEV and path not in claimed:
                yield SandboxMount(path, path, read_only=False, is_device=True)


def _device_nodes(spec: ContainerSpec) -> Iterator[SandboxMount]:
    for node in spec.device_nodes:
        if node.permissions and not {"r", "w"} <= {*node.permissions}:
            raise ContainerConfigError(
                f"device {node.path}: the sandbox gives devices to read and write, so the "
                f"permissions {node.permissions!r} of its CDI spec cannot be kept; use "
                "--runtime podman, or another device"
            )
        source = node.host_path or node.path
        yield SandboxMount(source, _target(node.path), read_only=False, is_device=True)


def _binds(spec: ContainerSpec) -> Iterator[SandboxMount]:
    """Mount outer folders first, so that what is mounted inside them stays visible."""
    for bind in sorted(spec.binds, key=lambda bind: len(Path(bind.target).parts)):
        if not _is_shown_anyway(bind):
            yield SandboxMount(bind.source, _target(bind.target), bind.read_only, bind.beneath)


def _target(path: str) -> str:
    """Return a path in the container. Raises ContainerConfigError for one that is not dray's."""
    found = posixpath.normpath(f"/{path.lstrip('/')}")
    if found in _RESERVED or found.startswith("/proc/"):
        raise ContainerConfigError(f"nothing can be mounted at {path} of a container")
    return found


def _is_shown_anyway(bind: Bind) -> bool:
    """Whether the container sees this very file already."""
    if bind.beneath or not bind.read_only:
        return False
    if not bind.target.startswith(tuple(f"{shown}/" for shown in _SHOWN)):
        return False
    return os.path.realpath(bind.source) == os.path.realpath(bind.target)

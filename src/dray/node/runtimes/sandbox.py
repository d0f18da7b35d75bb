"""Containers by bubblewrap: their own view of files, processes and users, as an ordinary user.

A container sees the system's programs and libraries read-only, an /etc made for it, empty folders
elsewhere, and what its volumes and devices put there. It sees nobody's home, nothing of /run, no
device that was not claimed, and nothing of dray. There are no images: the host's programs run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dray.node.containers import shim
from dray.node.containers.container_attempts import Argv, Command, ContainerAttempt
from dray.node.runtimes.interface import Bind, ContainerSpec, Runtime, RuntimeUnusable, in_terminal

NAME: Final = "sandbox"
PATH: Final = "/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SHOWN = ("/usr", *_SYSTEM)
_FROM_ETC = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl", "/etc/localtime")
_EMPTY = ("/tmp", "/run", "/var/tmp", "/root", "/home")
_PROBE_SECONDS = 10.0
_GENERATIONS: Final = 3
"""From the shim to bubblewrap, to bubblewrap inside, to the container's own process."""


class Sandbox(Runtime):
    """Nothing is to be discarded: sandboxes die with their shim."""

    name = NAME
    has_own_etc = False
    caution = "The sandbox has no images: containers run the programs of the node"

    @property
    def default_environment(self) -> dict[str, str]:
        return {"PATH": PATH, "HOME": "/root"}

    def try_out(self) -> None:
        if shutil.which("bwrap") is None:
            raise RuntimeUnusable("bubblewrap (bwrap) is not installed")
        told = ("--info-fd", shim.INFO_DESCRIPTOR)
        argv = [part for part in _argv(ContainerSpec(("/bin/true",))) if part not in told]
        try:
            ran = subprocess.run(argv, capture_output=True, timeout=_PROBE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeUnusable(f"bubblewrap cannot be run: {error}") from error
        if ran.returncode:
            said = ran.stderr.decode("utf-8", "replace").strip()
            raise RuntimeUnusable(f"bubblewrap cannot make a sandbox here: {said}")

    def command(self, spec: ContainerSpec, folder: str) -> Command:
        return Command(
            _argv(spec), spec.env, stdin=spec.stdin, stdin_once=spec.stdin_once, tty=spec.tty
        )

    def exec_command(
        self, attempt: ContainerAttempt, argv: Argv, *, stdin: bool = False, tty: bool = False
    ) -> Command:
        """Return a command that enters the sandbox, with no more rights than the container has."""
        entered = [
            "nsenter",
            *("--target", str(_first_process(attempt)), "--preserve-credentials"),
            *("--user", "--mount", "--pid", "--uts", "--ipc", "--root", "--wd", "--"),
            *("setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"),
            *in_terminal(argv, tty),
        ]
        return Command(entered, attempt.command()["env"])


def is_usable() -> bool:
    """Whether a sandbox works here, not only whether bubblewrap is installed."""
    try:
        Sandbox().try_out()
    except RuntimeUnusable:
        return False
    return True


def _argv(spec: ContainerSpec) -> list[str]:
    """Return the command line of a container; the shim fills in {info-fd}."""
    return [
        shutil.which("bwrap") or "bwrap",
        *_users(),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--cap-drop", "ALL", "--die-with-parent"),
        # With a terminal the container makes a session itself, once it is inside.
        *(() if spec.tty else ("--new-session",)),
        *("--hostname", spec.hostname[:63], "--info-fd", shim.INFO_DESCRIPTOR),
        *_system_files(),
        *("--proc", "/proc", "--dev", "/dev"),
        *(part for folder in _EMPTY for part in ("--tmpfs", folder)),
        *_device_nodes(spec),
        *_binds(spec),
        *("--chdir", spec.working_directory or "/", "--"),
        *in_terminal(spec.argv, spec.tty),
    ]


def _users() -> tuple[str, ...]:
    """Map an ordinary user to root inside. With another number, bubblewrap would nest a second user
    namespace, which nothing can enter to run a program there."""
    if os.getuid() == 0:
        return ("--unshare-user-try",)
    return ("--unshare-user", "--uid", "0", "--gid", "0")


def _first_process(attempt: ContainerAttempt) -> int:
    """Return the host's id of the container's first process. Raises LookupError without one."""
    process = attempt.pid
    for _ in range(_GENERATIONS):
        children = Path(f"/proc/{process}/task/{process}/children")
        try:
            process = int(children.read_text("ascii").split()[0])
        except (OSError, IndexError) as error:
            raise LookupError(f"container {attempt.folder.parent.name} does not run") from error
    return process


def _system_files() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for folder in _SYSTEM:
        if os.path.islink(folder):
            yield from ("--symlink", os.readlink(folder), folder)
        elif os.path.isdir(folder):
            yield from ("--ro-bind", folder, folder)
    for path in _FROM_ETC:
        yield from ("--ro-bind-try", path, path)


def _device_nodes(spec: ContainerSpec) -> Iterator[str]:
    for node in spec.device_nodes:
        yield from ("--dev-bind", node.host_path or node.path, node.path)


def _binds(spec: ContainerSpec) -> Iterator[str]:
    """Mount outer folders first, so that what is mounted inside them stays visible."""
    for bind in sorted(spec.binds, key=lambda bind: len(Path(bind.target).parts)):
        if not _is_shown_anyway(bind):
            source = os.path.join(bind.source, bind.beneath) if bind.beneath else bind.source
            yield from ("--ro-bind" if bind.read_only else "--bind", source, bind.target)


def _is_shown_anyway(bind: Bind) -> bool:
    """Whether the container sees this very file already; bubblewrap cannot mount on links."""
    if not bind.read_only or not bind.target.startswith(tuple(f"{shown}/" for shown in _SHOWN)):
        return False
    return os.path.realpath(bind.source) == os.path.realpath(bind.target)

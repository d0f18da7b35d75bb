"""Runs a program in a running container, with exactly the container's rights.

For exec, probes and hooks. The environment comes from the file that the agent wrote for the shim,
not from this process. Imports nothing but Python's own library, as the shim does.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from typing import Any, Final, NoReturn

from dray.node.containers import launch, pod_sandboxes, shim
from dray.node.containers import system_calls as calls

_FIRST_ARGUMENT: Final = 2
"""After the name of the program and the folder of dray's modules."""


def main() -> NoReturn:
    """Arguments: the folder of the container's start, `tty` or `pipes`, and the command line."""
    calls.leave_interpreter()
    folder, kind, *argv = sys.argv[_FIRST_ARGUMENT:]
    try:
        command = _read(os.path.join(folder, shim.COMMAND))
        process = _read(os.path.join(folder, shim.PROCESS))
        program = _start(command, process, argv, kind == "tty")
    except OSError as error:
        os.write(2, f"dray: cannot enter the container: {error.strerror}\n".encode())
        os._exit(launch.CANNOT_START_CODE)
    _, status = os.waitpid(program, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(128 - code if code < 0 else code)


def _start(command: dict[str, Any], process: dict[str, Any], argv: list[str], tty: bool) -> int:
    """Start the program in the container, and return its process. Raises OSError."""
    calls.forbid_tracing()
    namespaces = _namespaces(process)
    launch.join_groups(command)
    for descriptor in namespaces.values():
        calls.join_namespace(descriptor)
    program = os.fork()
    if program == 0:
        try:
            pod_sandboxes.keep_only()
            launch.become_user(command["sandbox"])
            calls.die_with_parent(signal.SIGKILL)
            env = {"TERM": "xterm", **command["env"]} if tty else command["env"]
            launch.run(command, argv, env, None, tty=tty)
        finally:
            os._exit(launch.CANNOT_START_CODE)
    return program


def _namespaces(process: dict[str, Any]) -> dict[str, int]:
    """Return descriptors of the container's namespaces, in the order to join them.

    Those that this process is in already are left out.
    """
    # Root loses the right to join the others with the user namespace; other users need it first.
    user = ("user",)
    others = tuple(name for name in launch.NAMESPACES if name not in user)
    names = (*others, *user) if os.geteuid() == 0 else (*user, *others)
    pid, born = int(process["pid"]), process["born"]
    found = {}
    for name in names:
        descriptor = _opened(f"/proc/{pid}/fd/{process['namespaces'][name]}")
        if not os.path.samestat(os.fstat(descriptor), os.stat(f"/proc/self/ns/{name}")):
            found[name] = descriptor
    # After the opening: the id may have been given to another process before.
    if pod_sandboxes.born(pid) != born:
        raise ProcessLookupError(errno.ESRCH, "it has ended")
    return found


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ProcessLookupError(errno.ESRCH, "it does not run") from None


def _read(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found

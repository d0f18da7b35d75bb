"""A fresh dray for the suite: `dray up` in a folder of its own, and agents on this computer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dray.node.limits import groups
from tools.e2e.groups import Group, Nodes

HERE: Final = Path(__file__).parent
SIMULATED_NODES: Final = 4
HISTORY: Final = "5m"
"""As long as an API server of Kubernetes keeps old revisions: a spec waits for their end."""
AGENTS: Final = 2
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
DRAY: Final = Path(sys.executable).with_name("dray")
SIMULATED_FLEET: Final = f"""description: Machines without devices
nodes:
  - name: node-{{number}}
    count: {SIMULATED_NODES}
    capacity: {{cpu: 16, memory: 64Gi, ephemeral-storage: 100Gi, pods: 110}}
"""
NO_FLEET: Final = "description: No machines\nnodes: []\n"
PAUSE: Final = "[sh, -c, exec sleep infinity]"
IMAGES: Final = f"""images:
  - name: registry.k8s.io/sig-storage/hostpathplugin
    files: {{{{/hostpathplugin: {{folder}}/hostpathplugin}}}}
  - name: registry.k8s.io/e2e-test-images/agnhost
    command: [/agnhost]
    files: {{{{/agnhost: {{folder}}/agnhost, /agnhost-2: {{folder}}/agnhost}}}}
  - {{{{name: registry.k8s.io/pause, command: {PAUSE}}}}}
  - {{{{name: registry.k8s.io/e2e-test-images/httpd, command: {PAUSE}}}}}
  - {{{{name: registry.k8s.io/e2e-test-images/nginx, command: {PAUSE}}}}}
"""
BUSYBOX: Final = """  - name: registry.k8s.io/e2e-test-images/busybox
    command: [/bin/sh]
    files: {{/bin/sh: {shell}}}
"""
SUBORDINATE_IDS: Final = "dray:100000:65536\n"
"""Users of containers on the computer: the suite runs some as user 1000."""
OWN_VIEW: Final = """set -e
mkdir -p /var/lib/kubelet /run/cdi "$1/kubelet" "$1/cdi"
mount --bind "$1/kubelet" /var/lib/kubelet
mount --bind "$1/cdi" /run/cdi
mount --bind "$1/ids" /etc/subuid
mount --bind "$1/ids" /etc/subgid
shift
exec "$@"
"""
"""Gives an agent its own folders of a kubelet and of CDI, so that one computer can be two nodes."""


class StartFailed(Exception):
    """A part of the cluster that did not start; the message has its last words."""


@contextlib.contextmanager
def running(group: Group, folder: Path) -> Iterator[Path]:
    """Run a cluster for a group of specs, and yield its kubeconfig. Raises StartFailed."""
    with contextlib.ExitStack() as stack:
        kubeconfig = stack.enter_context(_control_plane(group, folder))
        if group.nodes is Nodes.AGENTS:
            images = _images(folder)
            for number in range(1, AGENTS + 1):
                node = folder / f"node-{number}"
                stack.enter_context(_agent(group, node, kubeconfig, images))
        yield kubeconfig


@contextlib.contextmanager
def _control_plane(group: Group, folder: Path) -> Iterator[Path]:
    fleet = folder / "fleet.yaml"
    is_simulated = group.nodes is Nodes.SIMULATED
    fleet.write_text(SIMULATED_FLEET if is_simulated else NO_FLEET, "utf-8")
    data, listen = folder / "data", f"127.0.0.1:{_free_port()}"
    command = [str(DRAY), "up", "--runtime", "none", "--fleet", str(fleet)]
    command += ["--data", str(data), "--listen", listen, "--history", HISTORY, *_gates(group)]
    with _process(command, folder / "up.log", "dray is up"):
        yield data / "kubeconfig"


@contextlib.contextmanager
def _agent(group: Group, folder: Path, kubeconfig: Path, images: Path) -> Iterator[None]:
    folder.mkdir()
    (folder / "ids").write_text(SUBORDINATE_IDS, "utf-8")
    apart = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc"]
    apart += ["--kill-child", "sh", "-c", OWN_VIEW, "sh", str(folder)]
    command = [str(DRAY), "node", "--kubeconfig", str(kubeconfig), "--name", folder.name]
    command += ["--data", str(folder / "data"), "--address", "127.0.0.1", "--port", "0"]
    command += ["--kubelet-root-dir", "/var/lib/kubelet", "--images", str(images)]
    command += ["--runtime", "sandbox", "--allow-host-access", "--allow-privileged"]
    try:
        with _process([*apart, *command, *_gates(group)], folder / "node.log", "answers on"):
            yield
    finally:
        asyncio.run(_remove_limits(folder / "data"))


async def _remove_limits(state: Path) -> None:
    """Remove the control groups of containers that ended with their agent."""
    limits = groups.open_limits(state)
    for uid in limits.pods():
        await limits.remove_pod(uid)


def _images(folder: Path) -> Path:
    """Write what stands in for images, and return the file that names it."""
    for name in ("hostpathplugin", "agnhost"):
        shutil.copyfile(HERE / f"{name}.py", folder / name)
        (folder / name).chmod(0o755)
    text = IMAGES.format(folder=folder)
    if shell := shutil.which("bash"):
        # As the image's shell, and other than dash, it keeps variables with a `-` in their names.
        text += BUSYBOX.format(shell=shell)
    images = folder / "images.yaml"
    images.write_text(text, "utf-8")
    return images


def _gates(group: Group) -> list[str]:
    return ["--feature-gates", group.feature_gates] if group.feature_gates else []


@contextlib.contextmanager
def _process(command: Sequence[str], log: Path, ready: str) -> Iterator[None]:
    """Run a process of the cluster from when it says that it is ready until the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
    try:
        _wait(process, log, ready)
        yield
    finally:
        for pid in _forked_by_unshare(process) or [process.pid]:
            os.kill(pid, signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _forked_by_unshare(process: subprocess.Popen[bytes]) -> list[int]:
    """Return what `unshare --fork` waits for: it ignores SIGTERM itself."""
    try:
        if Path(f"/proc/{process.pid}/comm").read_text() != "unshare\n":
            return []
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    except OSError:
        return []
    return [int(pid) for pid in children.split()]


def _wait(process: subprocess.Popen[bytes], log: Path, ready: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while ready not in (text := log.read_text("utf-8", "replace")):
        if process.poll() is not None or time.monotonic() > deadline:
            command = " ".join(map(str, process.args)) if isinstance(process.args, list) else ""
            raise StartFailed(f"did not start: {command}\n{text}")
        time.sleep(0.1)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def can_run_agents() -> bool:
    """Whether nodes with containers can be made here: that needs root and `unshare`."""
    return os.geteuid() == 0 and shutil.which("unshare") is not None

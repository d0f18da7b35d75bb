"""Turns a container of a pod spec into the specification that a runtime starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dray.api.types.containers import Container
from dray.api.types.pods import Pod
from dray.driverkit import cdi
from dray.driverkit.cdi import Edits
from dray.node.devices import preparation
from dray.node.limits import resources
from dray.node.pods import environment, volumes
from dray.node.pods.context import NodeContext, PodState
from dray.node.runtimes.interface import Bind, ContainerConfigError, ContainerSpec


async def build(node: NodeContext, state: PodState, container: Container) -> ContainerSpec:
    """Return everything that the runtime needs to start a container of a prepared pod.

    Raises ContainerConfigError, CdiError and the errors of the API for what cannot be made.
    """
    pod, runtime = state.pod, node.runtime
    if not container.command and not runtime.has_images:
        raise ContainerConfigError(
            f"container {container.name} has no command and the {runtime.name} has no images: "
            "set command, or run the node with --runtime podman"
        )
    cdi_ids = preparation.cdi_ids(pod, container, state.prepared_claims)
    edits = cdi.resolve(cdi_ids, node.cdi_directories)
    hostname = pod.spec.hostname or pod.metadata.name
    env = {**runtime.default_environment, "HOSTNAME": hostname}
    env |= await environment.build(node.client, pod, container)
    env |= edits.env
    return ContainerSpec(
        environment.command(container, env),
        environment.arguments(container, env),
        env,
        container.working_dir,
        hostname,
        (
            *_etc(node, pod, hostname),
            *volumes.binds(container, state.volumes, env),
            *_mounts(edits),
        ),
        edits.device_nodes,
        image=container.image,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        limits=resources.resource_limits(container),
    )


def _etc(node: NodeContext, pod: Pod, hostname: str) -> Iterable[Bind]:
    """Write an /etc with the names of the container and nothing of the host's."""
    if node.runtime.has_own_etc:
        return
    folder = node.pod_folder(pod.metadata.uid) / "etc"
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in _etc_files(hostname, node.address).items():
        path = folder / file
        if not path.exists():
            path.write_text(content, "utf-8")
        yield Bind(str(path), f"/etc/{file}")


def _etc_files(hostname: str, address: str) -> Mapping[str, str]:
    return {
        "hostname": f"{hostname}\n",
        "hosts": f"127.0.0.1 localhost\n{address} {hostname}\n",
        "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
        "group": "root:x:0:\nnogroup:x:65534:\n",
        "nsswitch.conf": "hosts: files dns\n",
    }


def _mounts(edits: Edits) -> Iterable[Bind]:
    for mount in edits.mounts:
        yield Bind(mount.host_path, mount.container_path, "rw" not in mount.options)

"""Turns a container of a pod spec into the specification that a runtime starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dray.api.types.containers import Container
from dray.api.types.pods import Pod
from dray.driverkit import cdi
from dray.driverkit.cdi import CdiError, DeviceNode, Edits
from dray.node.containers import pod_sandboxes
from dray.node.devices import preparation
from dray.node.host_paths import SafeFolder, UnsafePath
from dray.node.limits import resources
from dray.node.pods.context import NodeContext, PodState
from dray.node.runtimes.interface import Bind, ContainerConfigError, ContainerSpec
from dray.node.specs import (
    environment,
    host_names,
    security_profiles,
    service_variables,
    volumes,
)

LOOPBACK: Final = "127.0.0.1"
"""The only address that a pod with a network of its own has for sure."""


async def build(node: NodeContext, state: PodState, container: Container) -> ContainerSpec:
    """Return everything that the runtime needs to start a container of a prepared pod.

    Raises ContainerConfigError, CdiError and the errors of the API for what cannot be made.
    """
    pod, runtime = state.pod, node.runtime
    image = node.runtime_config.images.find(container.image)
    if not container.command and not image.command and not runtime.has_images:
        raise ContainerConfigError(
            f"container {container.name} has no command and the {runtime.name} has no images: "
            "set command, or run the node with --images or --runtime podman"
        )
    allows_host = node.runtime_config.allows_host
    allows_privileged = node.runtime_config.allows_privileged
    security_profiles.check_pod(pod, allows_host=allows_host)
    security = security_profiles.profile_of(
        pod,
        container,
        allows_host=allows_host,
        allows_privileged=allows_privileged,
        has_images=runtime.has_images,
    )
    cdi_ids = preparation.cdi_ids(pod, container, state.prepared_claims)
    edits = cdi.resolve(cdi_ids, node.cdi_directories)
    hostname = host_names.hostname(pod)
    env = await _environment(node, pod, container, hostname, edits)
    command = environment.command(container, env) or image.command
    args = environment.arguments(container, env)
    environment.check_total(container, (*command, *args), env)
    binds, files = _mounted(node, state, container, env, edits)
    return ContainerSpec(
        command,
        args,
        env,
        _working_directory(container),
        hostname,
        (*image.binds, *binds),
        files,
        tuple(_device_nodes(edits)),
        unrun_hooks=tuple(dict.fromkeys(hook.path for hook in edits.hooks)),
        image=container.image,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        limits=resources.resource_limits(container),
        security=security,
        has_host_users=security_profiles.has_host_users(pod, allows_privileged=allows_privileged),
        host_user_id=state.host_user_id,
        has_host_network=pod.spec.host_network,
    )


async def _environment(
    node: NodeContext, pod: Pod, container: Container, hostname: str, edits: Edits
) -> dict[str, str]:
    """Return the variables of a container; those of its devices win."""
    of_services = await service_variables.build(node.client, pod, _api_server(node, pod))
    env = {**node.runtime.default_environment, "HOSTNAME": hostname, **of_services}
    of_pod = _with_addresses(pod, node.address)
    env |= await environment.build(node.client, of_pod, container, of_services)
    env |= edits.env
    if "HOME" in env:
        # Last, as with other runtimes: programs that read the output of `env` rely on it.
        env["HOME"] = env.pop("HOME")
    return env


def _with_addresses(pod: Pod, address: str) -> Pod:
    """Return the pod with the addresses that its status will have, also before it is written."""
    status = msgspec.structs.replace(pod.status, host_ip=address, pod_ip=address)
    return msgspec.structs.replace(pod, status=status)


def _api_server(node: NodeContext, pod: Pod) -> tuple[str, int] | None:
    """Return the address of the API server as the containers of a pod reach it."""
    address = node.runtime_config.network.api_server
    if address is not None and node.runtime.forwards_api_server and not pod.spec.host_network:
        return LOOPBACK, pod_sandboxes.API_SERVER_PORT
    return address


def _mounted(
    node: NodeContext,
    state: PodState,
    container: Container,
    env: Mapping[str, str],
    edits: Edits,
) -> tuple[tuple[Bind, ...], dict[str, str]]:
    """Return the mounts and own files of a container.

    What its volumes cover of /etc is the volume's.
    """
    of_volumes = volumes.binds(container, state.volumes, env)
    volumes.make_mount_points(state.volumes, of_volumes)
    covered = tuple(bind.target for bind in of_volumes)
    others = (*of_volumes, *_mounts(edits))
    if not node.runtime.mounts_files:
        _refuse_names(state.pod)
        return others, {}
    files = _etc_files(state.pod, node)
    kept = {name: files[name] for name in files if not _is_in(f"/etc/{name}", covered)}
    if node.runtime.has_own_etc:
        return (*_etc(node, state.pod, kept), *others), {}
    return others, {f"/etc/{name}": content for name, content in kept.items()}


def _is_in(target: str, folders: Iterable[str]) -> bool:
    return any(target == folder or target.startswith(f"{folder}/") for folder in folders)


def _etc(node: NodeContext, pod: Pod, files: Mapping[str, str]) -> Iterable[Bind]:
    """Write files of /etc for the containers of a pod, and mount them."""
    uid = pod.metadata.uid
    with (
        SafeFolder.open(node.folder) as pods,
        pods.enter(uid, mode=0o700) as of_pod,
        of_pod.enter("etc", mode=0o755) as folder,
    ):
        for file, content in files.items():
            if folder.status(file) is None:
                folder.write(file, content.encode(), mode=0o644)
            yield Bind(str(node.pod_folder(uid) / "etc" / file), f"/etc/{file}")


def _etc_files(pod: Pod, node: NodeContext) -> Mapping[str, str]:
    is_apart = node.runtime.has_own_network and not pod.spec.host_network
    names = {
        "hosts": host_names.hosts(pod, LOOPBACK if is_apart else node.address),
        "resolv.conf": host_names.resolv_conf(pod, reaches_loopback=not is_apart),
    }
    if node.runtime.has_own_etc:
        return names
    return {
        **names,
        "hostname": f"{host_names.hostname(pod)}\n",
        "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
        "group": "root:x:0:\nnogroup:x:65534:\n",
        "nsswitch.conf": "hosts: files dns\n",
    }


def _refuse_names(pod: Pod) -> None:
    """Raise ContainerConfigError for names that a runtime without own files cannot give."""
    for field, is_set in (
        ("hostAliases", bool(pod.spec.host_aliases)),
        ("dnsConfig", pod.spec.dns_config is not None),
        ("dnsPolicy", pod.spec.dns_policy == "None"),
    ):
        if is_set:
            raise ContainerConfigError(
                f"spec.{field}: containers have the names of the node here; leave it out, or run "
                "the node with --runtime sandbox or podman"
            )


def _working_directory(container: Container) -> str:
    try:
        return volumes.container_path(container.working_dir) if container.working_dir else ""
    except UnsafePath as error:
        where = f"container {container.name}: workingDir"
        raise ContainerConfigError(f"{where}: {error}") from error


def _mounts(edits: Edits) -> Iterable[Bind]:
    """Return the mounts of devices. Their drivers are trusted with the paths of the host."""
    for mount in edits.mounts:
        target = _path_of_device(mount.container_path)
        yield Bind(mount.host_path, target, "rw" not in mount.options)


def _device_nodes(edits: Edits) -> Iterable[DeviceNode]:
    for node in edits.device_nodes:
        host_path = node.host_path or node.path
        yield msgspec.structs.replace(node, path=_path_of_device(node.path), host_path=host_path)


def _path_of_device(path: str) -> str:
    try:
        return volumes.container_path(path)
    except UnsafePath as error:
        raise CdiError(f"a CDI spec has a path that no container can have: {error}") from error

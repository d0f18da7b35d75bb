"""Rights of a container as its securityContext has them: honoured, or refused with the field.

Containers run in a user namespace without privileges, with no_new_privs and a seccomp filter. What
would need more is refused: a pod that runs has exactly the rights that it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from dray.api.types.containers import (
    Container,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)
from dray.api.types.pods import Pod, PodSecurityContext, PodSpec
from dray.node.runtimes.interface import ContainerConfigError, SecurityProfile

ALLOWED_CAPABILITIES: Final = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
"""Those that reach nothing outside the pod's own user namespace."""
HOST_ACCESS: Final = "needs --allow-host-access on the node"
_NO_CONTEXT: Final = SecurityContext()
_NO_POD_CONTEXT: Final = PodSecurityContext()


def check_pod(pod: Pod, *, allows_host: bool) -> None:
    """Check that a pod asks for nothing that this node cannot give. Raises ContainerConfigError."""
    _refuse_first(_of_pod(pod.spec, allows_host))


def has_host_users(pod: Pod, *, allows_privileged: bool) -> bool:
    """Whether the users of a pod are those of the host: one of its containers is privileged."""
    return allows_privileged and any(
        container.security_context is not None and bool(container.security_context.privileged)
        for container in (*pod.spec.init_containers, *pod.spec.containers)
    )


def profile_of(
    pod: Pod,
    container: Container,
    *,
    allows_host: bool,
    allows_privileged: bool,
    has_images: bool,
) -> SecurityProfile:
    """Return the rights of a container. Raises ContainerConfigError with the path of a field."""
    path = _path(pod, container)
    context = container.security_context or _NO_CONTEXT
    of_pod = pod.spec.security_context or _NO_POD_CONTEXT
    where = f"{path}.{_CONTEXT}"
    _refuse_first(
        (*_of_container(pod.spec, container, path), *_of_context(context, where, allows_privileged))
    )
    uid = _first(context.run_as_user, of_pod.run_as_user, 0)
    if _first(context.run_as_non_root, of_pod.run_as_non_root, False) and uid == 0:
        where = "spec" if context.run_as_non_root is None else path
        raise ContainerConfigError(
            f"{where}.{_CONTEXT}.runAsNonRoot: container {container.name} would run as root; "
            "set runAsUser"
        )
    if has_images and of_pod.supplemental_groups_policy == "Strict":
        raise ContainerConfigError(
            f"spec.{_CONTEXT}.supplementalGroupsPolicy: Strict is not supported with images"
        )
    groups = (*of_pod.supplemental_groups, *_given(of_pod.fs_group))
    return SecurityProfile(
        uid=uid,
        gid=_first(context.run_as_group, of_pod.run_as_group, 0),
        groups=tuple(dict.fromkeys(groups)),
        has_read_only_root=bool(context.read_only_root_filesystem),
        capabilities=() if context.privileged else _capabilities(context, path),
        is_confined=not context.privileged and _is_confined(context, of_pod, path, allows_host),
        is_privileged=bool(context.privileged),
    )


_CONTEXT: Final = "securityContext"
Refusal = tuple[bool, str, str]
"""Whether a field is refused, its path, and why."""


def _refuse_first(refusals: Iterable[Refusal]) -> None:
    for is_refused, path, why in refusals:
        if is_refused:
            raise ContainerConfigError(f"{path}: {why}")


def _of_pod(spec: PodSpec, allows_host: bool) -> Iterator[Refusal]:
    context = spec.security_context or _NO_POD_CONTEXT
    path = f"spec.{_CONTEXT}"
    linux = spec.os is None or spec.os.name in ("", "linux")
    yield not linux, "spec.os.name", "this node runs linux"
    yield spec.host_pid, "spec.hostPID", "containers never see the processes of the node"
    yield spec.host_ipc, "spec.hostIPC", "containers never share memory with the node"
    yield spec.host_network and not allows_host, "spec.hostNetwork", HOST_ACCESS
    yield (
        bool(spec.host_users),
        "spec.hostUsers",
        "containers always have users of their own here; leave it out",
    )
    yield (
        bool(spec.runtime_class_name),
        "spec.runtimeClassName",
        "the node has one runtime, chosen with --runtime; leave it out",
    )
    yield (
        bool(spec.ephemeral_containers),
        "spec.ephemeralContainers",
        "they are not supported; use `kubectl exec`",
    )
    yield (
        bool(spec.share_process_namespace),
        "spec.shareProcessNamespace",
        "containers of a pod have process namespaces of their own here; leave it out",
    )
    yield (
        bool(context.sysctls),
        f"{path}.sysctls",
        "kernel settings cannot be changed here; leave them out",
    )
    yield (
        context.se_linux_options not in (None, SELinuxOptions()),
        f"{path}.seLinuxOptions",
        "SELinux is not supported; leave it out",
    )
    yield _app_armor(context, path)


def _of_container(spec: PodSpec, container: Container, path: str) -> Iterator[Refusal]:
    yield (
        bool(container.volume_devices),
        f"{path}.volumeDevices",
        "raw block devices are not supported; claim the device instead",
    )
    for index, port in enumerate(container.ports):
        yield (
            bool(port.host_port) and not spec.host_network,
            f"{path}.ports[{index}].hostPort",
            "ports of the node are not forwarded; leave it out",
        )


def _of_context(context: SecurityContext, path: str, allows_privileged: bool) -> Iterator[Refusal]:
    yield (
        bool(context.privileged) and not allows_privileged,
        f"{path}.privileged",
        "needs --allow-privileged on the node; better claim the devices that it needs",
    )
    yield (
        bool(context.allow_privilege_escalation) and not context.privileged,
        f"{path}.allowPrivilegeEscalation",
        "containers always run with no_new_privs here; set it to false, or leave it out",
    )
    yield (
        context.proc_mount not in (None, "", "Default"),
        f"{path}.procMount",
        f"{context.proc_mount} is not supported; only Default is",
    )
    yield (
        context.se_linux_options not in (None, SELinuxOptions()),
        f"{path}.seLinuxOptions",
        "SELinux is not supported; leave it out",
    )
    yield _app_armor(context, path)


def _app_armor(context: SecurityContext | PodSecurityContext, path: str) -> Refusal:
    profile = context.app_armor_profile
    return (
        profile is not None and profile.type == "Localhost",
        f"{path}.appArmorProfile.type",
        "profiles of the node are not supported; leave it out",
    )


def _is_confined(
    context: SecurityContext, of_pod: PodSecurityContext, path: str, allows_host: bool
) -> bool:
    """Whether the seccomp filter applies: also where the pod says nothing."""
    profile, where = context.seccomp_profile, f"{path}.{_CONTEXT}.seccompProfile.type"
    if profile is None:
        profile, where = of_pod.seccomp_profile, f"spec.{_CONTEXT}.seccompProfile.type"
    kind = (profile or SeccompProfile("RuntimeDefault")).type
    if kind == "RuntimeDefault":
        return True
    if kind != "Unconfined":
        raise ContainerConfigError(f"{where}: {kind} is not supported; RuntimeDefault is")
    if not allows_host:
        raise ContainerConfigError(f"{where}: Unconfined {HOST_ACCESS}")
    return False


def _capabilities(context: SecurityContext, path: str) -> tuple[str, ...]:
    """Return the capabilities that are added and not dropped; there are no others to begin with."""
    if context.capabilities is None:
        return ()
    dropped = {_capability(name) for name in context.capabilities.drop} - {"ALL"}
    added = [_capability(name) for name in context.capabilities.add]
    for index, name in enumerate(added):
        if name not in ALLOWED_CAPABILITIES:
            raise ContainerConfigError(
                f"{path}.{_CONTEXT}.capabilities.add[{index}]: {name} gives rights outside "
                f"the container; allowed are {', '.join(sorted(ALLOWED_CAPABILITIES))}"
            )
    return tuple(sorted(set(added) - dropped))


def _capability(name: str) -> str:
    return name.upper().removeprefix("CAP_")


def _path(pod: Pod, container: Container) -> str:
    for field, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
    ):
        for index, candidate in enumerate(containers):
            if candidate.name == container.name:
                return f"spec.{field}[{index}]"
    return f"container {container.name}"


def _given(value: int | None) -> tuple[int, ...]:
    return () if value is None else (value,)


def _first(of_container: int | None, of_pod: int | None, default: int) -> int:
    """Return the value of the container, else of the pod, else the default."""
    if of_container is not None:
        return of_container
    return default if of_pod is None else of_pod

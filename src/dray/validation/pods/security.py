"""Rules for security contexts of pods and containers."""

from __future__ import annotations

import re

from dray.api.types import containers, pods
from dray.validation import fields, identifiers, lists

_MAXIMUM_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_APP_ARMOR_NAME_MAX_BYTES = 4095
_SYSCTL_MAX_BYTES = 253
_SYSCTL_PART = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = re.compile(rf"({_SYSCTL_PART}[\./])*{_SYSCTL_PART}")
_SYSCTL_COMPLAINT = (
    f"must have at most {_SYSCTL_MAX_BYTES} characters and match regex ^{_SYSCTL.pattern}$"
)
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def _identity(value: int | None, path: fields.Path) -> fields.Errors:
    """Check a user or group id."""
    if value is not None and not 0 <= value <= _MAXIMUM_ID:
        yield fields.invalid(path, value, f"must be between 0 and {_MAXIMUM_ID}, inclusive")


def container_context(
    context: containers.SecurityContext | None, has_host_users: bool, path: fields.Path
) -> fields.Errors:
    if context is None:
        return
    yield from _identity(context.run_as_user, path.child("runAsUser"))
    yield from _identity(context.run_as_group, path.child("runAsGroup"))
    yield from _proc_mount(context.proc_mount, has_host_users, path.child("procMount"))
    yield from _seccomp(context.seccomp_profile, path.child("seccompProfile"))
    if context.allow_privilege_escalation is False:
        yield from _no_escalation(context, path)
    yield from _app_armor(context.app_armor_profile, path.child("appArmorProfile"))


def _proc_mount(value: str | None, has_host_users: bool, path: fields.Path) -> fields.Errors:
    yield from fields.one_of(path, value, ("Default", "Unmasked"))
    if has_host_users and value == "Unmasked":
        yield fields.invalid(path, value, "`hostUsers` must be false to use `Unmasked`")


def _no_escalation(context: containers.SecurityContext, path: fields.Path) -> fields.Errors:
    if context.privileged:
        yield fields.invalid(
            path, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        )
    if context.capabilities and "CAP_SYS_ADMIN" in context.capabilities.add:
        yield fields.invalid(
            path,
            context,
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
        )


def _seccomp(profile: containers.SeccompProfile | None, path: fields.Path) -> fields.Errors:
    if profile is None:
        return
    missing = "type is required when seccompProfile is set"
    yield from fields.required_one_of(path.child("type"), profile.type, _PROFILES, missing)
    local = path.child("localhostProfile")
    if profile.type == "Localhost":
        if profile.localhost_profile is None:
            yield fields.required(local, "must be set when seccomp type is Localhost")
        else:
            yield from identifiers.relative(profile.localhost_profile, local)
    elif profile.localhost_profile is not None:
        yield fields.invalid(local, profile, "can only be set when seccomp type is Localhost")


def _app_armor(profile: containers.AppArmorProfile | None, path: fields.Path) -> fields.Errors:
    if profile is None:
        return
    local, name = path.child("localhostProfile"), profile.localhost_profile
    if profile.type == "Localhost":
        if name is None:
            yield fields.required(local, "must be set when AppArmor type is Localhost")
        else:
            yield from _app_armor_name(name, local)
    elif profile.type in ("RuntimeDefault", "Unconfined"):
        if name is not None:
            yield fields.invalid(local, name, "can only be set when AppArmor type is Localhost")
    else:
        missing = "type is required when appArmorProfile is set"
        yield from fields.required_one_of(path.child("type"), profile.type, _PROFILES, missing)


def _app_armor_name(name: str, path: fields.Path) -> fields.Errors:
    stripped = name.strip()
    if stripped != name:
        yield fields.invalid(path, name, "must not be padded with whitespace")
    elif not stripped:
        yield fields.required(path, "must be set when AppArmor type is Localhost")
    yield from fields.limited_bytes(path, name, _APP_ARMOR_NAME_MAX_BYTES)


def pod_context(spec: pods.PodSpec, path: fields.Path) -> fields.Errors:
    context = spec.security_context
    if context is None:
        return
    yield from _identity(context.fs_group, path.child("fsGroup"))
    yield from _identity(context.run_as_user, path.child("runAsUser"))
    yield from _identity(context.run_as_group, path.child("runAsGroup"))
    yield from lists.each_item(
        context.supplemental_groups, _identity, path.child("supplementalGroups")
    )
    yield from _sysctls(context.sysctls, spec, path.child("sysctls"))
    yield from fields.one_of(
        path.child("fsGroupChangePolicy"),
        context.fs_group_change_policy,
        ("Always", "OnRootMismatch"),
    )
    yield from _seccomp(context.seccomp_profile, path.child("seccompProfile"))
    yield from _app_armor(context.app_armor_profile, path.child("appArmorProfile"))
    yield from fields.one_of(
        path.child("supplementalGroupsPolicy"),
        context.supplemental_groups_policy,
        ("Merge", "Strict"),
    )


def _sysctls(
    values: tuple[pods.Sysctl, ...], spec: pods.PodSpec, path: fields.Path
) -> fields.Errors:
    seen: set[str] = set()
    for index, sysctl in enumerate(values):
        name, name_path = sysctl.name, path.index(index).child("name")
        if not name:
            yield fields.required(name_path)
        elif len(name.encode()) > _SYSCTL_MAX_BYTES or not _SYSCTL.fullmatch(name):
            yield fields.invalid(name_path, name, _SYSCTL_COMPLAINT)
        elif name in seen:
            yield fields.duplicate(name_path, name)
        seen.add(name)
        yield from _sysctl_of_host(name, spec, name_path)


def _sysctl_of_host(name: str, spec: pods.PodSpec, path: fields.Path) -> fields.Errors:
    """Reject a sysctl of a namespace that the pod shares with its node."""
    dotted = name.replace("/", ".")
    if spec.host_network and dotted.startswith("net."):
        yield fields.invalid(path, name, "may not be specified when 'hostNetwork' is true")
    elif spec.host_ipc and dotted.startswith(_IPC_SYSCTLS):
        yield fields.invalid(path, name, "may not be specified when 'hostIPC' is true")

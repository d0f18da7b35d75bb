"""Rules for what a container sees of the volumes of its pod: files and block devices."""

from __future__ import annotations

from collections.abc import Mapping

from dray.api.types import containers
from dray.api.types.volumes import Volume
from dray.validation import fields, identifiers, lists
from dray.validation.pods import volumes

_MOUNT_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_BIND_MOUNT_OPTIONS = ("nodev", "noexec", "nosuid")


def mounts(
    container: containers.Container, usable: Mapping[str, Volume], path: fields.Path
) -> fields.Errors:
    devices = {device.name: device.device_path for device in container.volume_devices}
    seen: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        name_path, file_path = path.index(index).child("name"), path.index(index).child("mountPath")
        yield from fields.required_text(name_path, mount.name)
        if mount.name not in usable:
            yield fields.not_found(name_path, mount.name)
        yield from fields.required_text(file_path, mount.mount_path)
        if mount.mount_path in seen:
            yield fields.invalid(file_path, mount.mount_path, "must be unique")
        seen.add(mount.mount_path)
        if mount.name in devices:
            yield fields.invalid(name_path, mount.name, "must not already exist in volumeDevices")
        if mount.mount_path in devices.values():
            detail = "must not already exist as a path in volumeDevices"
            yield fields.invalid(file_path, mount.mount_path, detail)
        yield from _mount_options(mount, container, path.index(index), path)


def _mount_options(
    mount: containers.VolumeMount,
    container: containers.Container,
    path: fields.Path,
    list_path: fields.Path,
) -> fields.Errors:
    """Check options of mounts; some errors are reported at the list, as in Kubernetes."""
    if mount.sub_path:
        yield from identifiers.relative(mount.sub_path, list_path.child("subPath"))
    if mount.sub_path_expr:
        if mount.sub_path:
            yield fields.invalid(
                path.child("subPathExpr"),
                mount.sub_path_expr,
                "subPathExpr and subPath are mutually exclusive",
            )
        yield from identifiers.relative(mount.sub_path_expr, list_path.child("subPathExpr"))
    yield from _mount_propagation(mount, container, list_path.child("mountPropagation"))
    yield from _recursive_read_only(mount, list_path.child("recursiveReadOnly"))
    options = path.child("bindMountOptions")
    for index, option in enumerate(mount.bind_mount_options):
        yield from fields.one_of(options.index(index), option, _BIND_MOUNT_OPTIONS)
    yield from lists.distinct(mount.bind_mount_options, lists.itself, options)


def _mount_propagation(
    mount: containers.VolumeMount, container: containers.Container, path: fields.Path
) -> fields.Errors:
    yield from fields.one_of(path, mount.mount_propagation, _MOUNT_PROPAGATIONS)
    context = container.security_context
    if mount.mount_propagation == "Bidirectional" and not (context and context.privileged):
        yield fields.forbidden(
            path, "Bidirectional mount propagation is available only to privileged containers"
        )


def _recursive_read_only(mount: containers.VolumeMount, path: fields.Path) -> fields.Errors:
    mode = mount.recursive_read_only
    if mode is None or mode == "Disabled":
        return
    if mode not in _RECURSIVE_READ_ONLY:
        yield fields.not_supported(path, mode, _RECURSIVE_READ_ONLY)
        return
    if not mount.read_only:
        yield fields.forbidden(path, "may only be specified when readOnly is true")
    if mount.mount_propagation not in (None, "None"):
        yield fields.forbidden(
            path, "may only be specified when mountPropagation is None or not specified"
        )


def devices(
    container: containers.Container, usable: Mapping[str, Volume], path: fields.Path
) -> fields.Errors:
    """Check volumes that a container sees as block devices."""
    mounted = {mount.name: mount.mount_path for mount in container.volume_mounts}
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(container.volume_devices):
        name_path = path.index(index).child("name")
        file, file_path = device.device_path, path.index(index).child("devicePath")
        yield from fields.required_text(name_path, device.name)
        if device.name in seen_names:
            yield fields.invalid(name_path, device.name, "must be unique")
        seen_names.add(device.name)
        yield from _device_volume(device.name, usable, name_path)
        yield from fields.required_text(file_path, file)
        if file in seen_paths:
            yield fields.invalid(file_path, file, "must be unique")
        if ".." in file.split("/"):
            yield fields.invalid(file_path, file, "can not contain backsteps ('..')")
        seen_paths.add(file)
        if device.name in mounted:
            yield fields.invalid(name_path, device.name, "must not already exist in volumeMounts")
        if file in mounted.values():
            yield fields.invalid(
                file_path, file, "must not already exist as a path in volumeMounts"
            )


def _device_volume(name: str, usable: Mapping[str, Volume], path: fields.Path) -> fields.Errors:
    volume = usable.get(name)
    if volume is None:
        yield fields.not_found(path, name)
    elif volumes.has_source(volume) and volume.persistent_volume_claim is None:
        yield fields.invalid(
            path,
            name,
            "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
        )

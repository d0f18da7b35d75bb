"""Rules for the volumes of a pod.

A volume of a kind unknown to dray has no source here, so that a missing source is valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from dray.api.formats import quantity
from dray.api.schema import merge_rules
from dray.api.types import volumes
from dray.validation import fields, identifiers, lists
from dray.validation.pods import environment

HOST_PATH_TYPES: Final = merge_rules.ENUMS["core.v1.HostPathType"]
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_TEN_MINUTES_SECONDS = 600
_TOKEN_MAX_SECONDS = 2**32


def pod_volumes(
    values: tuple[volumes.Volume, ...], path: fields.Path
) -> tuple[list[fields.FieldError], dict[str, volumes.Volume]]:
    """Return the errors, and the volumes without any: only those can be mounted."""
    errors: list[fields.FieldError] = []
    usable: dict[str, volumes.Volume] = {}
    for index, volume in enumerate(values):
        volume_errors = list(_volume(volume, path.index(index), usable))
        if not volume_errors:
            usable[volume.name] = volume
        errors += volume_errors
    return errors, usable


def _volume(
    volume: volumes.Volume, path: fields.Path, others: Mapping[str, volumes.Volume]
) -> fields.Errors:
    yield from _source(volume, path)
    yield from fields.required_text(path.child("name"), volume.name, identifiers.dns_label)
    if volume.name in others:
        yield fields.duplicate(path.child("name"), volume.name)


def _source(volume: volumes.Volume, path: fields.Path) -> fields.Errors:
    """Check the first source; `emptyDir` is checked first."""
    for index, (field, errors) in enumerate(_sources(volume, path)):
        if index:
            yield fields.forbidden(path.child(field), "may not specify more than 1 volume type")
        else:
            yield from errors


def _sources(volume: volumes.Volume, path: fields.Path) -> Iterator[tuple[str, fields.Errors]]:
    """Yield each source that is set: its field and its errors."""
    if volume.empty_dir is not None:
        yield "emptyDir", _empty_dir(volume.empty_dir, path.child("emptyDir"))
    if volume.host_path is not None:
        yield "hostPath", _host_path(volume.host_path, path.child("hostPath"))
    if volume.secret is not None:
        yield "secret", _secret(volume.secret, path.child("secret"))
    if volume.persistent_volume_claim is not None:
        claim_path = path.child("persistentVolumeClaim")
        yield (
            "persistentVolumeClaim",
            fields.required_text(
                claim_path.child("claimName"), volume.persistent_volume_claim.claim_name
            ),
        )
    if volume.downward_api is not None:
        yield "downwarAPI", _downward_api(volume.downward_api, path.child("downwardAPI"))
    if volume.config_map is not None:
        yield "configMap", _config_map(volume.config_map, path.child("configMap"))
    if volume.projected is not None:
        yield "projected", _projected(volume.projected, path.child("projected"))
    if volume.image is not None:
        yield "image", _image(volume.image, path.child("image"))


def has_source(volume: volumes.Volume) -> bool:
    return any(_sources(volume, fields.ROOT))


def _empty_dir(source: volumes.EmptyDirVolumeSource, path: fields.Path) -> fields.Errors:
    if source.size_limit is not None and quantity.parse(source.size_limit).sign() < 0:
        yield fields.forbidden(
            path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity"
        )
    if source.mode is not None and not 0 <= source.mode <= 0o1777:
        yield fields.invalid(
            path.child("mode"),
            source.mode,
            "must be a number between 0 and 01777 (octal), both inclusive",
        )


def _host_path(source: volumes.HostPathVolumeSource, path: fields.Path) -> fields.Errors:
    if not source.path:
        yield fields.required(path.child("path"))
        return
    yield from identifiers.no_backsteps(source.path, path.child("path"))
    yield from fields.one_of(path.child("type"), source.type, HOST_PATH_TYPES)


def _secret(source: volumes.SecretVolumeSource, path: fields.Path) -> fields.Errors:
    yield from fields.required_text(path.child("secretName"), source.secret_name)
    yield from _mode(source.default_mode, path.child("defaultMode"))
    yield from lists.each_item(source.items, _key_to_path, path.child("items"))


def _config_map(source: volumes.ConfigMapVolumeSource, path: fields.Path) -> fields.Errors:
    yield from fields.required_text(path.child("name"), source.name)
    yield from _mode(source.default_mode, path.child("defaultMode"))
    yield from lists.each_item(source.items, _key_to_path, path.child("items"))


def _mode(mode: int | None, path: fields.Path) -> fields.Errors:
    if mode is not None and not 0 <= mode <= 0o777:
        yield fields.invalid(
            path, mode, "must be a number between 0 and 0777 (octal), both inclusive"
        )


def _key_to_path(item: volumes.KeyToPath, path: fields.Path) -> fields.Errors:
    yield from fields.required_text(path.child("key"), item.key)
    yield from fields.required_text(path.child("path"), item.path)
    yield from identifiers.relative_and_not_reserved(item.path, path.child("path"))
    yield from _mode(item.mode, path.child("mode"))


def _downward_api(source: volumes.DownwardAPIVolumeSource, path: fields.Path) -> fields.Errors:
    yield from _mode(source.default_mode, path.child("defaultMode"))
    for item in source.items:
        yield from _downward_file(item, path)


def _downward_file(item: volumes.DownwardAPIVolumeFile, path: fields.Path) -> fields.Errors:
    yield from fields.required_text(path.child("path"), item.path)
    yield from identifiers.relative_and_not_reserved(item.path, path.child("path"))
    if item.field_ref is not None:
        yield from environment.field_selector(
            item.field_ref, environment.VOLUME_FIELDS, path.child("fieldRef")
        )
        if item.resource_field_ref is not None:
            yield fields.invalid(
                path,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            )
    elif item.resource_field_ref is not None:
        yield from environment.resource_selector(
            item.resource_field_ref, path.child("resourceFieldRef"), in_volume=True
        )
    else:
        yield fields.required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _mode(item.mode, path.child("mode"))


def _projected(source: volumes.ProjectedVolumeSource, path: fields.Path) -> fields.Errors:
    yield from _mode(source.default_mode, path.child("defaultMode"))
    used: set[str] = set()
    for index, projection in enumerate(source.sources):
        projection_path = path.child("sources").index(index)
        yield from _projection(projection, projection_path, path)
        for target, shown in _projected_paths(projection):
            if target in used:
                yield fields.invalid(path, shown, "conflicting duplicate paths")
            used.add(target)
        if _source_count(projection) > 1:
            yield fields.forbidden(
                projection_path, "may not specify more than 1 volume type per source"
            )


def _source_count(projection: volumes.VolumeProjection) -> int:
    return sum(getattr(projection, name) is not None for name in projection.__struct_fields__)


def _projection(
    projection: volumes.VolumeProjection, path: fields.Path, volume_path: fields.Path
) -> fields.Errors:
    if projection.secret is not None:
        yield from _projected_keys(projection.secret, path.child("secret"))
    if projection.config_map is not None:
        yield from _projected_keys(projection.config_map, path.child("configMap"))
    if projection.downward_api is not None:
        for item in projection.downward_api.items:
            yield from _downward_file(item, path.child("downwardAPI"))
    if projection.service_account_token is not None:
        yield from _token(
            projection.service_account_token, path.child("serviceAccountToken"), volume_path
        )


def _projected_keys(
    source: volumes.SecretProjection | volumes.ConfigMapProjection, path: fields.Path
) -> fields.Errors:
    yield from fields.required_text(path.child("name"), source.name)
    yield from lists.each_item(source.items, _key_to_path, path.child("items"))


def _token(
    token: volumes.ServiceAccountTokenProjection, path: fields.Path, volume_path: fields.Path
) -> fields.Errors:
    """Check a token; its path is reported at the volume, as in Kubernetes."""
    seconds, seconds_path = token.expiration_seconds, path.child("expirationSeconds")
    if seconds is None:
        yield fields.required(seconds_path)
    elif seconds < _TEN_MINUTES_SECONDS:
        yield fields.invalid(
            seconds_path, seconds, "may not specify a duration less than 10 minutes"
        )
    elif seconds > _TOKEN_MAX_SECONDS:
        yield fields.invalid(
            seconds_path, seconds, "may not specify a duration larger than 2^32 seconds"
        )
    yield from fields.required_text(
        volume_path.child("path"), token.path, identifiers.relative_and_not_reserved
    )


def _projected_paths(projection: volumes.VolumeProjection) -> Iterator[tuple[str, str]]:
    """Yield the path of each projected file and its name for messages."""
    for source in (projection.secret, projection.config_map):
        if source is not None:
            yield from ((item.path, source.name) for item in source.items if item.path)
    if projection.downward_api is not None:
        for item in projection.downward_api.items:
            if item.path:
                yield item.path, item.path


def _image(source: volumes.ImageVolumeSource, path: fields.Path) -> fields.Errors:
    yield from fields.required_text(path.child("reference"), source.reference)
    yield from fields.required_one_of(path.child("pullPolicy"), source.pull_policy, PULL_POLICIES)

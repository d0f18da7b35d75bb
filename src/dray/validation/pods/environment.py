"""Rules for a container's environment: variables, their sources, and the downward API."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from dray.api.formats import names, quantity
from dray.api.types import containers
from dray.validation import fields, identifiers, metadata

ENVIRONMENT_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_POD_FIELDS = frozenset(
    (
        *ENVIRONMENT_FIELDS,
        *VOLUME_FIELDS,
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
    )
)
_CONTAINER_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", *(f"1{unit}i" for unit in "KMGTPE"))


def variables(values: tuple[containers.EnvVar, ...], path: fields.Path) -> fields.Errors:
    for index, variable in enumerate(values):
        variable_path = path.index(index)
        yield from fields.required_text(variable_path.child("name"), variable.name, _variable_name)
        if variable.value_from is not None:
            yield from _source(
                variable.value_from, variable.value, variable_path.child("valueFrom")
            )


def _variable_name(name: str, path: fields.Path) -> fields.Errors:
    yield from fields.invalid_details(path, name, names.relaxed_environment_variable_errors(name))


def _source(source: containers.EnvVarSource, value: str, path: fields.Path) -> fields.Errors:
    if source.field_ref is not None:
        yield from field_selector(source.field_ref, ENVIRONMENT_FIELDS, path.child("fieldRef"))
    if source.resource_field_ref is not None:
        yield from resource_selector(source.resource_field_ref, path.child("resourceFieldRef"))
    if source.config_map_key_ref is not None:
        yield from _key_selector(source.config_map_key_ref, path.child("configMapKeyRef"))
    if source.secret_key_ref is not None:
        yield from _key_selector(source.secret_key_ref, path.child("secretKeyRef"))
    if source.file_key_ref is not None:
        yield from _file_selector(source.file_key_ref, path.child("fileKeyRef"))
    count = sum(getattr(source, name) is not None for name in source.__struct_fields__)
    if not count:
        yield fields.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`",
        )
    elif value:
        yield fields.invalid(path, "", "may not be specified when `value` is not empty")
    elif count > 1:
        yield fields.invalid(path, "", "may not have more than one field specified at a time")


def field_selector(
    selector: containers.ObjectFieldSelector, supported: Collection[str], path: fields.Path
) -> fields.Errors:
    if not selector.api_version:
        yield fields.required(path.child("apiVersion"))
        return
    if not selector.field_path:
        yield fields.required(path.child("fieldPath"))
        return
    complaint = _unsupported_field(selector)
    if complaint:
        yield fields.invalid(
            path.child("fieldPath"), selector.field_path, f"error converting fieldPath: {complaint}"
        )
        return
    field, subscript = _subscripted(selector.field_path)
    if field == "metadata.annotations" and subscript is not None:
        yield from identifiers.label_name(subscript.lower(), path)
    elif field == "metadata.labels" and subscript is not None:
        yield from identifiers.label_name(subscript, path)
    elif field not in supported:
        yield fields.not_supported(path.child("fieldPath"), field, sorted(supported))


def _unsupported_field(selector: containers.ObjectFieldSelector) -> str:
    if selector.api_version != "v1":
        return f"unsupported pod version: {selector.api_version}"
    field, subscript = _subscripted(selector.field_path)
    if subscript is not None:
        if field in ("metadata.annotations", "metadata.labels"):
            return ""
        return f"field label does not support subscript: {selector.field_path}"
    return "" if field in _POD_FIELDS else f"field label not supported: {field}"


def _subscripted(field_path: str) -> tuple[str, str | None]:
    """Split `metadata.labels['app']` into the field and its key."""
    field, bracket, rest = field_path.partition("['")
    if bracket and field and rest.endswith("']"):
        return field, rest.removesuffix("']")
    return ("spec.nodeName" if field_path == "spec.host" else field_path), None


def resource_selector(
    selector: containers.ResourceFieldSelector, path: fields.Path, *, in_volume: bool = False
) -> fields.Errors:
    if in_volume and not selector.container_name:
        yield fields.required(path.child("containerName"))
    elif not selector.resource:
        yield fields.required(path.child("resource"))
    elif selector.resource not in _CONTAINER_RESOURCES and not _is_huge_pages(selector.resource):
        yield fields.not_supported(path.child("resource"), selector.resource, _CONTAINER_RESOURCES)
    yield from _divisor(selector, path.child("divisor"))


def _is_huge_pages(resource: str) -> bool:
    return resource.startswith(("requests.hugepages-", "limits.hugepages-"))


def _divisor(selector: containers.ResourceFieldSelector, path: fields.Path) -> fields.Errors:
    if not selector.divisor:
        return
    divisor, resource = quantity.parse(selector.divisor), selector.resource
    name = resource.partition(".")[2]
    if divisor.sign() == 0:
        return
    if name == "cpu":
        if str(divisor) not in ("1m", "1"):
            yield fields.invalid(
                path, resource, "only divisor's values 1m and 1 are supported with the cpu resource"
            )
        return
    units = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
    words = "hugepages" if _is_huge_pages(resource) else units.get(name)
    if words and str(divisor) not in _BYTE_DIVISORS:
        yield fields.invalid(
            path,
            resource,
            f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the "
            f"{words} resource",
        )


def _key_selector(
    selector: containers.ConfigMapKeySelector | containers.SecretKeySelector, path: fields.Path
) -> fields.Errors:
    yield from identifiers.object_name(selector.name, path.child("name"))
    yield from fields.required_text(path.child("key"), selector.key, identifiers.config_key)


def _file_selector(selector: containers.FileKeySelector, path: fields.Path) -> fields.Errors:
    yield from fields.required_text(path.child("key"), selector.key, _variable_name)
    yield from fields.required_text(
        path.child("volumeName"), selector.volume_name, identifiers.dns_label
    )
    yield from fields.required_text(path.child("path"), selector.path, identifiers.no_backsteps)


def sources(values: tuple[containers.EnvFromSource, ...], path: fields.Path) -> fields.Errors:
    """Check config maps and secrets that become variables as a whole."""
    for index, source in enumerate(values):
        source_path = path.index(index)
        if source.prefix:
            yield from _variable_name(source.prefix, source_path.child("prefix"))
        if source.config_map_ref is not None:
            yield from _source_name(
                source.config_map_ref.name, source_path.child("configMapRef").child("name")
            )
        if source.secret_ref is not None:
            yield from _source_name(
                source.secret_ref.name, source_path.child("secretRef").child("name")
            )
        if source.config_map_ref is None and source.secret_ref is None:
            yield fields.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif source.config_map_ref is not None and source.secret_ref is not None:
            yield fields.invalid(path, "", "may not have more than one field specified at a time")


def _source_name(name: str, path: fields.Path) -> fields.Errors:
    if not name:
        yield fields.required(path)
        return
    yield from fields.invalid_details(path, name, metadata.subdomain_name(name, True))

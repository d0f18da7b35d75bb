"""Rules for names (objects, labels, drivers, pools, devices, attributes) and file paths."""

from __future__ import annotations

import re
from typing import Final

from dray.api.formats import gotext, names
from dray.api.semantics import pod_resources
from dray.validation import fields


def no_backsteps(value: str, path: fields.Path) -> fields.Errors:
    if ".." in value.split("/"):
        yield fields.invalid(path, value, "must not contain '..'")


def relative(value: str, path: fields.Path) -> fields.Errors:
    if value.startswith("/"):
        yield fields.invalid(path, value, "must be a relative path")
    yield from no_backsteps(value, path)


def relative_and_not_reserved(value: str, path: fields.Path) -> fields.Errors:
    """Reject absolute paths and names starting with "..", which the node agent uses in volumes."""
    yield from relative(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield fields.invalid(path, value, "must not start with '..'")


SHORT_NAME: Final = "format=k8s-short-name"
LONG_NAME: Final = "format=k8s-long-name"
LONG_NAME_CASELESS: Final = "format=k8s-long-name-caseless"
LABEL_KEY: Final = "format=k8s-label-key"
LABEL_VALUE: Final = "format=k8s-label-value"
POOL_NAME: Final = "format=k8s-resource-pool-name"
FULLY_QUALIFIED_NAME: Final = "format=k8s-resource-fully-qualified-name"
EXTENDED_RESOURCE_NAME: Final = "format=k8s-extended-resource-name"
UUID: Final = "format=k8s-uuid"

DRIVER_NAME_MAX_BYTES: Final = 63
POOL_NAME_MAX_BYTES: Final = 253
ATTRIBUTE_ID_MAX_BYTES: Final = 32
ATTRIBUTE_NAME_MAX_BYTES: Final = DRIVER_NAME_MAX_BYTES + 1 + ATTRIBUTE_ID_MAX_BYTES


def dns_label(value: str, path: fields.Path) -> fields.Errors:
    return fields.invalid_details(path, value, names.dns_label_errors(value), origin=SHORT_NAME)


def dns_subdomain(value: str, path: fields.Path) -> fields.Errors:
    return fields.invalid_details(path, value, names.dns_subdomain_errors(value), origin=LONG_NAME)


def label_name(value: str, path: fields.Path) -> fields.Errors:
    return fields.invalid_details(path, value, names.qualified_name_errors(value), origin=LABEL_KEY)


def label_value(value: str, path: fields.Path) -> fields.Errors:
    return fields.invalid_details(path, value, names.label_value_errors(value))


def labels(values: dict[str, str], path: fields.Path) -> fields.Errors:
    for key, value in values.items():
        yield from label_name(key, path)
        yield from fields.with_origin(label_value(value, path), LABEL_VALUE)


def config_key(value: str, path: fields.Path) -> fields.Errors:
    return fields.invalid_details(path, value, names.config_key_errors(value))


def object_name(value: str, path: fields.Path) -> fields.Errors:
    """Check a name that must be a DNS subdomain: of a node, a claim, a secret …"""
    return fields.invalid_details(path, value, names.dns_subdomain_errors(value))


def driver_name(value: str, path: fields.Path) -> fields.Errors:
    if not value:
        yield fields.required(path)
        return
    yield from fields.limited_bytes(path, value, DRIVER_NAME_MAX_BYTES)
    yield from fields.invalid_details(path, value, names.dns_subdomain_errors(value.lower()))


_DRIVER_NAME_ORIGINS = {
    fields.ErrorType.REQUIRED: "",
    fields.ErrorType.TOO_LONG: "maxLength",
    fields.ErrorType.INVALID: LONG_NAME_CASELESS,
}


def covered_driver_name(value: str, path: fields.Path) -> fields.Errors:
    """Check a driver name at a field that has declarative rules too."""
    for error in driver_name(value, path):
        yield from fields.covered((error,), _DRIVER_NAME_ORIGINS[error.type])


def pool_name(value: str, path: fields.Path) -> fields.Errors:
    if not value:
        yield fields.required(path)
        return
    yield from fields.limited_bytes(path, value, POOL_NAME_MAX_BYTES, origin=POOL_NAME)
    for part in value.split("/"):
        yield from fields.with_origin(dns_subdomain(part, path), POOL_NAME)


def qualified_name(value: str, path: fields.Path) -> fields.Errors:
    """Check the name of an attribute or capacity: an id, or a driver's domain and an id.

    A name with more than one slash is accepted, as by validateQualifiedName in
    pkg/apis/resource/validation.
    """
    parts = value.split("/")
    if len(parts) == 1:
        yield from c_identifier(value, path)
    elif len(parts) == 2:
        domain, identifier = parts
        if domain:
            yield from driver_name(domain, path)
        else:
            yield fields.invalid(path, "", "the domain must not be empty")
        if identifier:
            yield from c_identifier(identifier, path)
        else:
            yield fields.invalid(path, "", "the name must not be empty")


def fully_qualified_name(value: str, path: fields.Path) -> fields.Errors:
    yield from fields.with_origin(qualified_name(value, path), FULLY_QUALIFIED_NAME)
    if "/" not in value:
        yield fields.invalid(
            path,
            value,
            "a fully qualified name must be a domain and a name separated by a slash",
            origin=FULLY_QUALIFIED_NAME,
        )


def is_node_allocatable(name: str) -> bool:
    """Return whether devices may stand for this resource of a node."""
    return name in ("cpu", "memory") or pod_resources.is_huge_page_resource(name)


def c_identifier(value: str, path: fields.Path) -> fields.Errors:
    yield from fields.limited_bytes(path, value, ATTRIBUTE_ID_MAX_BYTES)
    yield from fields.invalid_details(path, value, names.c_identifier_errors(value))


_NORMALIZED_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CASELESS_UUID = re.compile(_NORMALIZED_UUID.pattern, re.IGNORECASE | re.ASCII)
_DIGITS_OF_UUID = re.compile("[0-9a-f]{32}", re.IGNORECASE | re.ASCII)


def is_normalized_uuid(value: str) -> bool:
    return _NORMALIZED_UUID.fullmatch(value) is not None


def uuid(value: str, path: fields.Path) -> fields.Errors:
    if is_normalized_uuid(value):
        return
    complaint = _uuid_complaint(value)
    if complaint:
        detail = f"error validating uid: {complaint}"
    else:
        detail = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
            "with lowercase hexadecimal characters"
        )
    yield fields.invalid(path, value, detail, origin=UUID)


def _uuid_complaint(value: str) -> str:
    """Return the error of github.com/google/uuid, which accepts more forms than Kubernetes."""
    length = len(value.encode())
    hyphenated = value
    if length == 45:
        if value[:9].lower() != "urn:uuid:":
            return f"invalid urn prefix: {gotext.quote(value[:9])}"
        hyphenated = value[9:]
    elif length == 38:
        if not (value.startswith("{") and value.endswith("}")):
            return "invalid bracketed UUID format"
        hyphenated = value[1:-1]
    elif length == 32:
        return "" if _DIGITS_OF_UUID.fullmatch(value) else "invalid UUID format"
    elif length != 36:
        return f"invalid UUID length: {length}"
    return "" if _CASELESS_UUID.fullmatch(hyphenated) else "invalid UUID format"

"""Formats of strings as declarative rules: names, label keys, ids.

They mean the same as the rules in `identifiers`, in other words: Kubernetes has both, and shows
these where a field has both. Follows apimachinery, pkg/api/validate/strfmt.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from dray.api.formats import names
from dray.validation import fields, identifiers
from dray.validation.declarative.rule_language import Operation, Rule


def formatted(errors_of: Callable[[str], Collection[str]], origin: str) -> Rule:
    return lambda value, _old, path, _operation: fields.invalid_details(
        path, value, errors_of(value), origin=origin
    )


short_name = formatted(lambda value: names.dns_label_errors(value, "bytes"), identifiers.SHORT_NAME)
long_name = formatted(
    lambda value: names.dns_subdomain_errors(value, "bytes"), identifiers.LONG_NAME
)
long_name_caseless = formatted(names.caseless_dns_subdomain_errors, identifiers.LONG_NAME_CASELESS)
path_segment = formatted(names.path_segment_errors, "format=k8s-path-segment-name")
label_key = formatted(names.qualified_name_errors, identifiers.LABEL_KEY)


def uuid(value: str, _old: Any, path: fields.Path, _operation: Operation) -> fields.Errors:
    if not identifiers.is_normalized_uuid(value):
        detail = "must be a lowercase UUID in 8-4-4-4-12 format"
        yield fields.invalid(path, value, detail, origin=identifiers.UUID)


def pool_name(value: str, _old: Any, path: fields.Path, _operation: Operation) -> fields.Errors:
    origin = identifiers.POOL_NAME
    yield from fields.limited_bytes(path, value, identifiers.POOL_NAME_MAX_BYTES, origin=origin)
    for index, part in enumerate(value.split("/")):
        if not part:
            detail = f"segment {index}: must not be empty"
            yield fields.invalid(path, value, detail, origin=origin)
            continue
        for complaint in names.dns_subdomain_errors(part, "bytes"):
            detail = f"segment {index}: {complaint}"
            yield fields.invalid(path, part, detail, origin=origin)


def fully_qualified_name(
    value: str, _old: Any, path: fields.Path, _operation: Operation
) -> fields.Errors:
    origin = identifiers.FULLY_QUALIFIED_NAME
    parts = value.split("/")
    if len(parts) == 1:
        yield from fields.with_origin(identifiers.c_identifier(value, path), origin)
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        yield fields.invalid(path, value, detail, origin=origin)
    elif len(parts) == 2:
        yield from fields.with_origin(_domain(parts[0], path), origin)
        if parts[1]:
            yield from fields.with_origin(identifiers.c_identifier(parts[1], path), origin)
        else:
            yield fields.invalid(path, "", "name must not be empty", origin=origin)


def _domain(domain: str, path: fields.Path) -> fields.Errors:
    if not domain:
        yield fields.invalid(path, "", "prefix must not be empty")
        return
    yield from fields.limited_bytes(path, domain, identifiers.DRIVER_NAME_MAX_BYTES)
    for detail in names.dns_subdomain_errors(domain, "bytes"):
        yield fields.invalid(path, domain, f"prefix: {detail}")


def extended_resource_name(
    value: str, _old: Any, path: fields.Path, _operation: Operation
) -> fields.Errors:
    details = []
    if "/" not in value:
        details.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in value:
        details.append('must not have "kubernetes.io/" domain')
    if value.startswith("requests."):
        details.append('must not have "requests." prefix')
    details += names.qualified_name_errors(f"requests.{value}")
    yield from fields.invalid_details(
        path, value, details, origin=identifiers.EXTENDED_RESOURCE_NAME
    )

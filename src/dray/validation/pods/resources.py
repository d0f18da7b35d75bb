"""Rules for resource requirements: names, amounts, limits, and the claims a container uses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from dray.api.formats import names, quantity
from dray.api.formats.quantity import Quantity
from dray.api.semantics import pod_resources
from dray.api.types import containers
from dray.validation import fields, identifiers, lists

COMPUTE: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
COUNTED: Final = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
LIMITED: Final = frozenset(
    f"{side}.{name}" for side in ("requests", "limits") for name in COMPUTE
) | {"requests.storage"}
_STANDARD = COMPUTE | COUNTED | LIMITED | {"storage"}
_POD_LEVEL = ("cpu", "hugepages-", "memory")
_HUGE_PAGES = "hugepages-"


def resource_name(name: str, path: fields.Path) -> fields.Errors:
    details = names.qualified_name_errors(name)
    yield from fields.invalid_details(path, name, details)
    is_standard = name in _STANDARD or pod_resources.is_huge_page_resource(
        name.removeprefix("requests.")
    )
    if not details and "/" not in name and not is_standard:
        yield fields.invalid(path, name, "must be a standard resource type or fully qualified")


def container_resource_name(name: str, path: fields.Path) -> fields.Errors:
    yield from resource_name(name, path)
    if "/" not in name:
        if name not in COMPUTE and not pod_resources.is_huge_page_resource(name):
            yield fields.invalid(path, name, "must be a standard resource for containers")
    elif not pod_resources.is_native_resource(name) and not pod_resources.is_extended_resource(
        name
    ):
        yield fields.invalid(path, name, "doesn't follow extended resource name standard")


def pod_resource_name(name: str, path: fields.Path) -> fields.Errors:
    """Check the name of a pod-level resource."""
    errors = list(resource_name(name, path))
    yield from errors
    if not errors and not pod_resources.is_pod_level_resource(name):
        yield fields.not_supported(path, name, _POD_LEVEL)


def amount(name: str, value: Quantity, path: fields.Path) -> fields.Errors:
    """Check that an amount is not negative, and whole if the resource is counted."""
    if value.sign() < 0:
        yield fields.invalid(path, str(value), "must be greater than or equal to 0")
    is_counted = name in COUNTED or pod_resources.is_extended_resource(name)
    if is_counted and value.milli_value() % 1000:
        yield fields.invalid(path, str(value), "must be an integer")


def overhead(values: dict[str, str], path: fields.Path) -> fields.Errors:
    """Check the overhead of a pod, which Kubernetes reads as limits."""
    for name, text in values.items():
        name_path = path.child("limits").key(name)
        yield from container_resource_name(name, name_path)
        yield from amount(name, quantity.parse(text), name_path)


def requirements(
    value: containers.ResourceRequirements,
    claim_names: Collection[str],
    path: fields.Path,
    name_rule: lists.Rule[str] = container_resource_name,
) -> fields.Errors:
    limits = pod_resources.parse_amounts(value.limits)
    requests = pod_resources.parse_amounts(value.requests)
    for name, limit in limits.items():
        yield from _resource(name, limit, path.child("limits").key(name), name_rule)
    for name, request in requests.items():
        yield from _resource(name, request, path.child("requests").key(name), name_rule)
        yield from _request_within_limit(name, request, limits.get(name), path)
    used = limits.keys() | requests.keys()
    if any(map(pod_resources.is_huge_page_resource, used)) and not used & {"cpu", "memory"}:
        yield fields.forbidden(path, "HugePages require cpu or memory")
    yield from _claims(value.claims, claim_names, path.child("claims"))


def _resource(
    name: str, value: Quantity, path: fields.Path, name_rule: lists.Rule[str]
) -> fields.Errors:
    yield from name_rule(name, path)
    yield from amount(name, value, path)
    if pod_resources.is_huge_page_resource(name) and not _is_divisible(name, value):
        yield fields.invalid(
            path, str(value), f"{value} is not positive integer multiple of {name}"
        )


def _is_divisible(name: str, value: Quantity) -> bool:
    try:
        page = quantity.parse(name.removeprefix(_HUGE_PAGES))
    except quantity.QuantityError:
        return False
    return page.sign() > 0 and not page.milli_value() % 1000 and not value.value() % page.value()


def _request_within_limit(
    name: str, request: Quantity, limit: Quantity | None, path: fields.Path
) -> fields.Errors:
    if limit is None:
        if not pod_resources.is_overcommittable_resource(name):
            yield fields.required(
                path.child("limits"), "Limit must be set for non overcommitable resources"
            )
    elif request != limit and not pod_resources.is_overcommittable_resource(name):
        yield fields.invalid(
            path.child("requests"), str(request), f"must be equal to {name} limit of {limit}"
        )
    elif request > limit:
        yield fields.invalid(
            path.child("requests"),
            str(request),
            f"must be less than or equal to {name} limit of {limit}",
        )


def _claims(
    claims: tuple[containers.ContainerClaim, ...], claim_names: Collection[str], path: fields.Path
) -> fields.Errors:
    """Check that claims are used whole or by request, each once, and that the pod has them."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        if not claim.name:
            yield fields.required(path.index(index))
            continue
        yield from _claim_used_once(claim, seen, path.index(index))
        if claim.name not in claim_names:
            yield _unknown_claim(claim.name, claim_names, path.index(index))


def _claim_used_once(
    claim: containers.ContainerClaim, seen: set[str], path: fields.Path
) -> fields.Errors:
    if claim.name in seen:
        yield fields.duplicate(path, claim.name)
        return
    reference = claim.name
    if claim.request:
        yield from identifiers.dns_label(claim.request, path.child("request"))
        reference = f"{claim.name}/{claim.request}"
    if reference in seen:
        yield fields.duplicate(path, reference)
    elif not claim.request:
        for other in seen:
            if other.startswith(f"{claim.name}/"):
                yield fields.duplicate(path, claim.name)
    seen.add(reference)


def _unknown_claim(name: str, claim_names: Collection[str], path: fields.Path) -> fields.FieldError:
    listed = f": {', '.join(sorted(claim_names))}" if claim_names else " which is empty"
    return fields.not_found(
        path, name, f"must be one of the names in pod.spec.resourceClaims{listed}"
    )

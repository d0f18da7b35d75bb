"""Rules for ResourceClaim and ResourceClaimTemplate: requests, constraints, configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from dray.api.features import Features
from dray.api.types import dra
from dray.cel import device
from dray.validation import fields, identifiers, lists, memo, metadata
from dray.validation.dra import classes, taints

REQUESTS_MAX_ITEMS: Final = 32
ALTERNATIVES_MAX_ITEMS: Final = 8
CONSTRAINTS_MAX_ITEMS: Final = 32
DERIVED_ATTRIBUTES_MAX_COST: Final = 1_000_000
ALLOCATION_MODES: Final = ("All", "ExactCount")

_SomeRequest = dra.ExactDeviceRequest | dra.DeviceSubRequest

_REFERENCE_COMPLAINT = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)


def resource_claim(claim: dra.ResourceClaim, features: Features) -> fields.Errors:
    yield from metadata.created(claim.metadata, namespaced=True)
    yield from claim_spec(claim.spec, fields.SPEC, features)


def resource_claim_update(new: dra.ResourceClaim, old: dra.ResourceClaim) -> fields.Errors:
    """Check an update; the spec cannot change, so nothing else in it is checked again."""
    yield from metadata.created(new.metadata, namespaced=True)
    yield from metadata.updated(new.metadata, old.metadata)
    unchanged = fields.immutable(fields.SPEC, new.spec, old.spec)
    yield from fields.covered(unchanged, "immutable")


def claim_template(template: dra.ResourceClaimTemplate, features: Features) -> fields.Errors:
    yield from metadata.created(template.metadata, namespaced=True)
    yield from metadata.of_template(template.spec.metadata, fields.SPEC.child("metadata"))
    yield from claim_spec(template.spec.spec, fields.SPEC.child("spec"), features)


def claim_template_update(
    new: dra.ResourceClaimTemplate, old: dra.ResourceClaimTemplate
) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from fields.immutable(fields.SPEC, new.spec, old.spec)


_sound_specs = memo.ValidValueCache()


def claim_spec(spec: dra.ResourceClaimSpec, path: fields.Path, features: Features) -> fields.Errors:
    return _sound_specs.check(spec, features, lambda: _claim_spec(spec, path, features))


def _claim_spec(
    spec: dra.ResourceClaimSpec, path: fields.Path, features: Features
) -> fields.Errors:
    path = path.child("devices")
    claim = spec.devices
    if classes.is_too_much_work(_selectors(claim)):
        yield classes.too_much_work(path.child("requests"))
        return
    references = request_references(claim)
    requests = _Requests(claim.constraints, features)
    yield from lists.limited_set(
        claim.requests,
        REQUESTS_MAX_ITEMS,
        requests.request,
        lambda request: request.name,
        path.child("requests"),
        covered=True,
    )
    yield from lists.limited(
        claim.constraints,
        CONSTRAINTS_MAX_ITEMS,
        lambda constraint, constraint_path: _constraint(
            constraint, constraint_path, references, features
        ),
        path.child("constraints"),
        size_covered=True,
    )
    yield from lists.limited(
        claim.config,
        classes.CONFIGURATIONS_MAX_ITEMS,
        lambda config, config_path: _configuration(config, config_path, references),
        path.child("config"),
        size_covered=True,
    )
    if requests.derived_attributes_cost > DERIVED_ATTRIBUTES_MAX_COST:
        yield fields.forbidden(
            path,
            "too complex, total cost of derived attribute CEL expressions in the claim "
            "exceeds cost limit",
        )


def _selectors(claim: dra.DeviceClaim) -> list[dra.DeviceSelector]:
    return [
        selector
        for request in claim.requests
        for part in (request.exactly, *request.first_available)
        if part is not None
        for selector in part.selectors
    ]


def request_references(claim: dra.DeviceClaim) -> frozenset[str]:
    """Return all names of requests: "request" and "request/subrequest"."""
    references = set()
    for request in claim.requests:
        references.add(request.name)
        references.update(f"{request.name}/{sub.name}" for sub in request.first_available)
    return frozenset(references)


def request_reference(name: str, path: fields.Path, references: Collection[str]) -> fields.Errors:
    parts = name.split("/")
    if len(parts) > 2:
        yield fields.invalid(path, name, _REFERENCE_COMPLAINT)
        return
    for part in parts:
        yield from identifiers.dns_label(part, path)
    if name not in references:
        yield fields.invalid(path, name, _REFERENCE_COMPLAINT)


def configured_requests(
    names: tuple[str, ...], path: fields.Path, references: Collection[str]
) -> fields.Errors:
    """Check the requests that a constraint or configuration applies to."""
    yield from lists.limited_set(
        names,
        REQUESTS_MAX_ITEMS,
        lambda name, name_path: request_reference(name, name_path, references),
        lists.itself,
        path,
        covered=True,
    )


def _constraint(
    constraint: dra.DeviceConstraint,
    path: fields.Path,
    references: Collection[str],
    features: Features,
) -> fields.Errors:
    yield from configured_requests(constraint.requests, path.child("requests"), references)
    for field, attribute in (
        ("matchAttribute", constraint.match_attribute),
        ("distinctAttribute", constraint.distinct_attribute),
    ):
        if attribute is not None:
            yield from fields.covered(
                identifiers.fully_qualified_name(attribute, path.child(field))
            )
            return
    if features.consumable_capacity:
        yield fields.required(
            path,
            'exactly one of "matchAttribute" or "distinctAttribute" is required, '
            "but multiple fields are set",
        )
    else:
        yield fields.required(path.child("matchAttribute"))


def _configuration(
    config: dra.DeviceClaimConfiguration, path: fields.Path, references: Collection[str]
) -> fields.Errors:
    yield from configured_requests(config.requests, path.child("requests"), references)
    yield from classes.opaque_configuration(config.opaque, path, is_stored=False)


class _Requests:
    """The rules for the requests of one claim, and the cost of their derived attributes so far."""

    def __init__(self, constraints: Iterable[dra.DeviceConstraint], features: Features) -> None:
        self.derived_attributes_cost = 0
        self._constrained = _constrained_attributes(constraints)
        self._features = features

    def request(self, request: dra.DeviceRequest, path: fields.Path) -> fields.Errors:
        yield from identifiers.dns_label(request.name, path.child("name"))
        if request.first_available and request.exactly is not None:
            yield fields.invalid(
                path,
                None,
                "exactly one of `exactly` or `firstAvailable` is required, "
                "but multiple fields are set",
            )
        elif request.first_available:
            yield from lists.limited_set(
                request.first_available,
                ALTERNATIVES_MAX_ITEMS,
                lambda sub, sub_path: self._alternative(sub, sub_path, request.name),
                lambda sub: sub.name,
                path.child("firstAvailable"),
                covered=True,
            )
        elif request.exactly is not None:
            yield from self._exact(request.exactly, path.child("exactly"), request.name)
        else:
            yield fields.required(path, "exactly one of `exactly` or `firstAvailable` is required")

    def _alternative(
        self, request: dra.DeviceSubRequest, path: fields.Path, parent: str
    ) -> fields.Errors:
        yield from identifiers.dns_label(request.name, path.child("name"))
        yield from fields.covered(_class_name(request, path))
        yield from self._devices(request, path, f"{parent}/{request.name}")

    def _exact(
        self, request: dra.ExactDeviceRequest, path: fields.Path, name: str
    ) -> fields.Errors:
        yield from _class_name(request, path)
        yield from self._devices(request, path, name)

    def _devices(self, request: _SomeRequest, path: fields.Path, reference: str) -> fields.Errors:
        yield from classes.selectors(request.selectors, path.child("selectors"), self._features)
        yield from self._derived_attributes(
            request.derived_attributes, path.child("derivedAttributes"), reference
        )
        yield from _allocation_mode(request, path)
        yield from lists.each_item(
            request.tolerations, taints.toleration, path.child("tolerations")
        )

    def _derived_attributes(
        self, attributes: tuple[dra.DeviceDerivedAttribute, ...], path: fields.Path, reference: str
    ) -> fields.Errors:
        for index, attribute in enumerate(attributes):
            yield from self._derived_attribute(attribute, path.index(index), reference)
        yield from lists.distinct(attributes, lambda attribute: attribute.name, path)

    def _derived_attribute(
        self, attribute: dra.DeviceDerivedAttribute, path: fields.Path, reference: str
    ) -> fields.Errors:
        if attribute.name and not self._is_constrained(attribute.name, reference):
            yield fields.invalid(
                path.child("name"),
                attribute.name,
                "must be referenced by at least one matchAttribute or distinctAttribute "
                "constraint targeting this request",
            )
        if attribute.expression:
            yield from self._expression(attribute.expression, path.child("expression"))

    def _is_constrained(self, attribute: str, reference: str) -> bool:
        parent = reference.partition("/")[0]
        return any((target, attribute) in self._constrained for target in ("", reference, parent))

    def _expression(self, expression: str, path: fields.Path) -> fields.Errors:
        if classes.is_too_long(expression):
            yield fields.too_long(path, classes.EXPRESSION_MAX_BYTES)
            return
        compiled = device.compile_derived_attribute(
            expression,
            stored=False,
            consumable_capacity=self._features.consumable_capacity,
            list_type_attributes=self._features.list_type_attributes,
        )
        if compiled.error is not None:
            yield classes.compile_error(compiled.error, expression, path)
            return
        if compiled.estimated_cost > DERIVED_ATTRIBUTES_MAX_COST:
            yield classes.too_complex(path)
        self.derived_attributes_cost += compiled.estimated_cost


def _constrained_attributes(
    constraints: Iterable[dra.DeviceConstraint],
) -> frozenset[tuple[str, str]]:
    """Return (request reference, attribute) of each constraint; "" means all requests."""
    attributes: set[tuple[str, str]] = set()
    for constraint in constraints:
        attribute = constraint.match_attribute
        if attribute is None:
            attribute = constraint.distinct_attribute
        if attribute is not None:
            attributes.update((target, attribute) for target in constraint.requests or ("",))
    return frozenset(attributes)


def _class_name(request: _SomeRequest, path: fields.Path) -> fields.Errors:
    return fields.required_text(
        path.child("deviceClassName"), request.device_class_name, identifiers.dns_subdomain
    )


def _allocation_mode(request: _SomeRequest, path: fields.Path) -> fields.Errors:
    mode, count = request.allocation_mode, request.count
    if mode == "All":
        if count != 0:
            yield fields.invalid(
                path.child("count"), count, "must not be specified when allocationMode is 'All'"
            )
    elif mode == "ExactCount":
        if count <= 0:
            yield fields.invalid(path.child("count"), count, "must be greater than zero")
    else:
        yield fields.not_supported(
            path.child("allocationMode"), mode, ALLOCATION_MODES, covered=True
        )

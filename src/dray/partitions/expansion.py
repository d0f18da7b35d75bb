"""`partitionRequest`: a request for a partition by its size, expanded to plain DRA.

This is dray's only extension of the API. A request may contain

    partitionRequest: {count: 1, resources: {memory: 20Gi, compute: 2}}

beside its class and selectors, in every version of the API. `move_to_annotation` moves it to an
annotation, so that the rest is a claim as Kubernetes defines it. `expand` replaces a request that
the annotation names by `firstAvailable`: the profiles that are large enough, from small to large.
The annotation stays, and an object that is written again with the same annotation keeps its
expansion.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dray.api import well_known
from dray.api.formats import quantity
from dray.api.types.dra import DeviceClass
from dray.api.types.meta import JsonObject
from dray.cel import device as cel
from dray.partitions import profiles
from dray.partitions.profiles import PartitionDevice, Profile
from dray.validation import fields
from dray.validation.fields import FieldError, Path

FIELD = "partitionRequest"
ANNOTATION = "dray.dev/partition-requests"
MAX_ALTERNATIVES = 8
_KINDS = ("ResourceClaim", "ResourceClaimTemplate")
_COPIED = ("tolerations", "capacity", "derivedAttributes")


class PartitionRequestError(Exception):
    """A partition request that cannot be expanded."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


class Expansion(NamedTuple):
    """A spec as it will be stored, its errors, and remarks for the author."""

    spec: JsonObject
    errors: tuple[FieldError, ...] = ()
    remarks: tuple[str, ...] = ()


def move_to_annotation(document: JsonObject) -> None:
    """Move every partition request to the annotation, in any version of the API.

    Replaces members of `document` and changes nothing inside of them: a patch that is applied
    again after a conflict shares them.
    """
    if document.get("kind") not in _KINDS:
        return
    requested = {
        request["name"]: fields_of[FIELD]
        for request in device_requests(claim_spec(document))
        for fields_of in (request, request.get("exactly"))
        if isinstance(fields_of, dict)
        and FIELD in fields_of
        and isinstance(request.get("name"), str)
    }
    if not requested:
        return
    document["spec"] = _without_partition_requests(document["spec"])
    metadata = document.get("metadata", {})
    annotations = metadata.get("annotations") or {} if isinstance(metadata, dict) else None
    if isinstance(annotations, dict):
        text = json.dumps(requested, separators=(",", ":"), sort_keys=True)
        document["metadata"] = {**metadata, "annotations": {**annotations, ANNOTATION: text}}


def _without_partition_requests(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_without_partition_requests, value))
    if not isinstance(value, dict):
        return value
    return {
        key: _without_partition_requests(inner) if key in _PARENTS_OF_FIELD else inner
        for key, inner in value.items()
        if key != FIELD
    }


_PARENTS_OF_FIELD = ("spec", "devices", "requests", "exactly")


def requested_partitions(document: JsonObject) -> dict[str, Any]:
    """Return the partition requests of a claim or template by the name of their request."""
    text = ((document.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION)
    try:
        requested = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return requested if isinstance(requested, dict) else {}


def claim_spec(document: JsonObject) -> JsonObject:
    """Return the spec of a claim, or of the claims that a template makes."""
    spec = document.get("spec") or {}
    if document.get("kind") == "ResourceClaimTemplate" and isinstance(spec, dict):
        spec = spec.get("spec") or {}
    return spec if isinstance(spec, dict) else {}


def device_requests(spec: JsonObject) -> list[JsonObject]:
    """Return the requests of a spec, in any version and also of one that is not checked yet."""
    devices = spec.get("devices")
    requests = devices.get("requests") if isinstance(devices, dict) else None
    listed = requests if isinstance(requests, list) else []
    return [request for request in listed if isinstance(request, dict)]


def expand(
    spec: JsonObject,
    requested: Mapping[str, Any],
    published: Iterable[PartitionDevice],
    classes: Iterable[DeviceClass],
    path: Path = fields.SPEC,
) -> Expansion:
    """Expand the requests that `requested` names, in a spec of the storage version."""
    partitions = PublishedPartitions(published, classes)
    path = path.child("devices").child("requests")
    requests, errors, remarks = device_requests(spec), list[FieldError](), list[str]()
    for index, request in enumerate(requests):
        partition_request = requested.get(request.get("name", ""))
        if partition_request is None or request.get("firstAvailable"):
            continue
        try:
            requests[index], remark = _expand_request(
                request, partition_request, partitions, path.index(index)
            )
            remarks.append(remark)
        except PartitionRequestError as refusal:
            errors.append(refusal.error)
    devices = {**spec["devices"], "requests": requests}
    return Expansion({**spec, "devices": devices}, tuple(errors), tuple(remarks))


def keep_previous_expansion(
    new: JsonObject, old: JsonObject, classes: Iterable[DeviceClass]
) -> JsonObject:
    """Return `new` with the expanded requests of `old` where it still requests the same."""
    partitions = PublishedPartitions((), classes)
    before = {request.get("name"): request for request in device_requests(old)}
    requests = [
        _kept(request, before.get(request.get("name"), {}), partitions)
        for request in device_requests(new)
    ]
    return {**new, "devices": {**new["devices"], "requests": requests}}


def _kept(request: JsonObject, before: JsonObject, partitions: PublishedPartitions) -> JsonObject:
    alternatives, exactly = before.get("firstAvailable"), request.get("exactly")
    if not alternatives or not exactly:
        return request
    class_name = partitions.partition_class(exactly.get("deviceClassName", ""))
    is_same = all(
        alternative.get("deviceClassName") == class_name
        and (alternative.get("selectors") or [])[:-1] == (exactly.get("selectors") or [])
        and all(alternative.get(field) == exactly.get(field) for field in _COPIED)
        for alternative in alternatives
    )
    return before if is_same else request


class PublishedPartitions:
    """Published partitions, and the device classes that select them."""

    def __init__(
        self, published: Iterable[PartitionDevice], classes: Iterable[DeviceClass]
    ) -> None:
        self._published = tuple(published)
        self._classes = {device_class.metadata.name: device_class for device_class in classes}

    def partition_class(self, name: str) -> str:
        """Return the class of the partitions of a class's devices, or the class itself."""
        for device_class in self._classes.values():
            if name in (
                device_class.metadata.labels.get(well_known.PARTITIONS_OF_ANNOTATION),
                device_class.metadata.annotations.get(well_known.PARTITIONS_OF_ANNOTATION),
            ):
                return device_class.metadata.name
        return name

    def selectors(self, class_name: str) -> list[str]:
        device_class = self._classes.get(class_name)
        selectors = device_class.spec.selectors if device_class else ()
        return [selector.cel.expression for selector in selectors if selector.cel]

    def profiles(self, class_name: str, selectors: Sequence[str]) -> list[Profile]:
        """Return the profiles of all devices that the class and the selectors match."""
        expressions = (*self.selectors(class_name), *selectors)
        compiled = [cel.compile_selector(expression, stored=True) for expression in expressions]
        cached: dict[Any, bool] = {}
        return profiles.distinct_profiles(
            partition for partition in self._published if _is_accepted(partition, compiled, cached)
        )


def _is_accepted(
    partition: PartitionDevice, selectors: Sequence[cel.Selector], cached: dict[Any, bool]
) -> bool:
    view = cel.view(partition.driver, partition.device)
    for selector in selectors:
        if selector.error is not None:
            return False
        key = (selector.expression, selector.shape(view))
        if key not in cached:
            cached[key] = selector.matches_or_false(view)
        if not cached[key]:
            return False
    return True


def pending(spec: JsonObject, requested: Mapping[str, Any]) -> list[JsonObject]:
    """Return the partition requests that are not expanded yet."""
    return [
        request
        for request in device_requests(spec)
        if request.get("name") in requested and not request.get("firstAvailable")
    ]


def expressions(request: JsonObject, partitions: PublishedPartitions) -> list[str]:
    """Return every selector that decides which partitions a request may get."""
    exactly = request.get("exactly") or {}
    class_name = partitions.partition_class(exactly.get("deviceClassName", ""))
    return [*partitions.selectors(class_name), *_expressions(exactly)]


def _expand_request(
    request: JsonObject, requested: Any, partitions: PublishedPartitions, path: Path
) -> tuple[JsonObject, str]:
    path = path.child(FIELD)
    exactly = request.get("exactly") or {}
    for error in _problems(exactly, requested, path):
        raise PartitionRequestError(error)
    resources, count = requested["resources"], requested.get("count", 1)
    sizes = {name: quantity.parse(str(value)) for name, value in resources.items()}
    class_name = partitions.partition_class(exactly.get("deviceClassName", ""))
    published = partitions.profiles(class_name, _expressions(exactly))
    if not published:
        why = f'no partition of class "{class_name}" is published'
        raise PartitionRequestError(fields.invalid(path, requested, why))
    enough = [profile for profile in published if profile.is_enough(sizes)][:MAX_ALTERNATIVES]
    if not enough:
        error = fields.invalid(path.child("resources"), resources, _largest(published))
        raise PartitionRequestError(error)
    alternatives = [_alternative(profile, exactly, class_name, count) for profile in enough]
    shown = ", else ".join(profile.describe(sizes) for profile in enough)
    remark = f'request "{request["name"]}" asks for {shown} of class {class_name}'
    return {"name": request["name"], "firstAvailable": _named_apart(alternatives)}, remark


def _expressions(exactly: JsonObject) -> list[str]:
    selectors = exactly.get("selectors") or ()
    return [selector["cel"]["expression"] for selector in selectors if selector.get("cel")]


def _problems(exactly: JsonObject, requested: Any, path: Path) -> fields.Errors:
    """Yield the errors of a partition request and of the request that contains it.

    The caller stops at the first: what follows relies on what was checked before.
    """
    if not exactly:
        yield fields.forbidden(path, "needs a request with a deviceClassName of its own")
    if not isinstance(requested, dict):
        yield fields.invalid(path, requested, "must be an object with count and resources")
    for name in sorted(set(requested) - {"count", "resources"}):
        yield fields.not_supported(path, name, ("count", "resources"))
    count, resources = requested.get("count", 1), requested.get("resources")
    if type(count) is not int or count < 1:
        yield fields.invalid(path.child("count"), count, "must be greater than zero")
    if not isinstance(resources, dict) or not resources:
        yield fields.required(
            path.child("resources"), "set the memory or compute that it must have"
        )
    for name, value in resources.items():
        yield from _size_problems(value, path.child("resources").key(name))
    if exactly.get("allocationMode", "ExactCount") != "ExactCount":
        yield fields.forbidden(path, "cannot be combined with allocationMode: All")
    if exactly.get("count", 1) > 1:
        yield fields.forbidden(path, "cannot be combined with count: set partitionRequest.count")
    if exactly.get("adminAccess"):
        yield fields.forbidden(path, "cannot be combined with adminAccess")


def _size_problems(value: Any, path: Path) -> fields.Errors:
    if isinstance(value, bool) or not isinstance(value, str | int):
        yield fields.invalid(path, value, "must be a quantity")
    try:
        if quantity.parse(str(value)).sign() <= 0:
            yield fields.invalid(path, value, "must be greater than zero")
    except quantity.QuantityError as error:
        yield fields.invalid(path, value, str(error))


def _largest(published: Sequence[Profile]) -> str:
    largest = published[-1]
    sizes = ", ".join(f"{name} {amount}" for name, amount in largest.sizes)
    return f"no partition is large enough; the largest published is {largest.name} with {sizes}"


def _alternative(profile: Profile, exactly: JsonObject, class_name: str, count: int) -> JsonObject:
    selector = {"cel": {"expression": profile.expression}}
    alternative = {
        "name": profile.label,
        "deviceClassName": class_name,
        "selectors": [*(exactly.get("selectors") or []), selector],
        "allocationMode": "ExactCount",
        "count": count,
    }
    copied = {field: exactly[field] for field in _COPIED if field in exactly}
    return {**alternative, **copied}


def _named_apart(alternatives: list[JsonObject]) -> list[JsonObject]:
    """Make the names of the alternatives unique: equal ones get their index."""
    names = [alternative["name"] for alternative in alternatives]
    for index, alternative in enumerate(alternatives):
        if names.count(alternative["name"]) > 1:
            alternative["name"] = f"{names[index]}-{index}"
    return alternatives

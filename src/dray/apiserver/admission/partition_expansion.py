"""`partitionRequest`: asking for a part of a device by its size, turned into plain DRA.

Pure, and used by the command line too. A request may say

    partitionRequest: {count: 1, resources: {memory: 20Gi, compute: 2}}

beside its class and selectors, in every version of the API. `lift` takes that out of the object and
notes it in an annotation, so that what remains is a claim as Kubernetes knows it. `expand` replaces
a request with such a note by `firstAvailable`: the profiles that are large enough, from small to
large. The note stays, and an object that is written again with the same note keeps its expansion.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.types.dra import DeviceClass
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import partition_profiles
from dray.apiserver.admission.partition_profiles import PartitionDevice, Profile
from dray.cel import device as cel
from dray.cel.runtime.values import CostExceeded, EvaluationError
from dray.validation import fields
from dray.validation.fields import FieldError, Path

FIELD = "partitionRequest"
ANNOTATION = "dray.dev/partition-requests"
CLASS_MARK = "dray.dev/partitions-of"
MAX_ALTERNATIVES = 8
_KINDS = ("ResourceClaim", "ResourceClaimTemplate")
_COPIED = ("tolerations", "capacity", "derivedAttributes")


class PartitionRequestError(Exception):
    """A partition request that cannot be turned into anything."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


class Expansion(NamedTuple):
    """A spec as it will be stored, what was wrong with it, and what people may want to know."""

    spec: JsonObject
    errors: tuple[FieldError, ...] = ()
    remarks: tuple[str, ...] = ()


def move_to_annotation(document: JsonObject) -> None:
    """Move every partition request from its request to the annotation, in any version.

    Of `document` only the members change, and not what is inside of them: others may have that too.
    """
    if document.get("kind") not in _KINDS:
        return
    asked = {
        request["name"]: place[FIELD]
        for request in _requests(claim_spec(document))
        for place in (request, request.get("exactly"))
        if isinstance(place, dict) and FIELD in place and isinstance(request.get("name"), str)
    }
    if not asked:
        return
    document["spec"] = _without_partition_requests(document["spec"])
    metadata = document.get("metadata", {})
    annotations = metadata.get("annotations") or {} if isinstance(metadata, dict) else None
    if isinstance(annotations, dict):
        text = json.dumps(asked, separators=(",", ":"), sort_keys=True)
        document["metadata"] = {**metadata, "annotations": {**annotations, ANNOTATION: text}}


def _without_partition_requests(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_without_partition_requests, value))
    if not isinstance(value, dict):
        return value
    return {
        key: _without_partition_requests(inner) if key in _ON_THE_WAY else inner
        for key, inner in value.items()
        if key != FIELD
    }


_ON_THE_WAY = ("spec", "devices", "requests", "exactly")


def requested_partitions(document: JsonObject) -> dict[str, Any]:
    """What was asked for, by request."""
    text = ((document.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION)
    try:
        asked = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return asked if isinstance(asked, dict) else {}


def claim_spec(document: JsonObject) -> JsonObject:
    """The spec of a claim, or of the claims that a template makes."""
    spec = document.get("spec") or {}
    if document.get("kind") == "ResourceClaimTemplate" and isinstance(spec, dict):
        spec = spec.get("spec") or {}
    return spec if isinstance(spec, dict) else {}


def _requests(spec: JsonObject) -> list[JsonObject]:
    devices = spec.get("devices")
    requests = devices.get("requests") if isinstance(devices, dict) else None
    listed = requests if isinstance(requests, list) else []
    return [each for each in listed if isinstance(each, dict)]


def expand(
    spec: JsonObject,
    asked: Mapping[str, Any],
    published: Iterable[PartitionDevice],
    classes: Iterable[DeviceClass],
    path: Path = fields.SPEC,
) -> Expansion:
    """A claim's spec, in the storage version, with each request that is asked for expanded."""
    market = PublishedPartitions(published, classes)
    path = path.child("devices").child("requests")
    requests, errors, remarks = [], list[FieldError](), list[str]()
    for index, request in enumerate(_requests(spec)):
        wanted = asked.get(request.get("name", ""))
        if wanted is None or request.get("firstAvailable"):
            requests.append(request)
            continue
        try:
            expanded, remark = _expand_request(request, wanted, market, path.index(index))
            requests.append(expanded)
            remarks.append(remark)
        except PartitionRequestError as refusal:
            requests.append(request)
            errors.append(refusal.error)
    devices = {**spec["devices"], "requests": requests}
    return Expansion({**spec, "devices": devices}, tuple(errors), tuple(remarks))


def keep_previous_expansion(
    new: JsonObject, old: JsonObject, classes: Iterable[DeviceClass]
) -> JsonObject:
    """`new`, with the requests of `old` that it asks for in the words it used before."""
    market = PublishedPartitions((), classes)
    before = {request.get("name"): request for request in _requests(old)}
    requests = [
        _kept(request, before.get(request.get("name"), {}), market) for request in _requests(new)
    ]
    return {**new, "devices": {**new["devices"], "requests": requests}}


def _kept(request: JsonObject, before: JsonObject, market: PublishedPartitions) -> JsonObject:
    alternatives, exactly = before.get("firstAvailable"), request.get("exactly")
    if not alternatives or not exactly:
        return request
    class_name = market.partition_class(exactly.get("deviceClassName", ""))
    is_same = all(
        alternative.get("deviceClassName") == class_name
        and (alternative.get("selectors") or [])[:-1] == (exactly.get("selectors") or [])
        and all(alternative.get(field) == exactly.get(field) for field in _COPIED)
        for alternative in alternatives
    )
    return before if is_same else request


class PublishedPartitions:
    """What is published, by class."""

    def __init__(
        self, published: Iterable[PartitionDevice], classes: Iterable[DeviceClass]
    ) -> None:
        self._published = tuple(published)
        self._classes = {device_class.metadata.name: device_class for device_class in classes}

    def partition_class(self, name: str) -> str:
        """The class of the partitions of a class's devices; without one, the class itself."""
        for device_class in self._classes.values():
            if name in (
                device_class.metadata.labels.get(CLASS_MARK),
                device_class.metadata.annotations.get(CLASS_MARK),
            ):
                return device_class.metadata.name
        return name

    def selectors(self, class_name: str) -> list[str]:
        found = self._classes.get(class_name)
        return (
            [selector.cel.expression for selector in found.spec.selectors if selector.cel]
            if found
            else []
        )

    def profiles(self, class_name: str, selectors: Sequence[str]) -> list[Profile]:
        """The profiles of all devices that the class and the selectors accept."""
        expressions = (*self.selectors(class_name), *selectors)
        compiled = [cel.compile_selector(expression, stored=True) for expression in expressions]
        answers: dict[Any, bool] = {}
        return partition_profiles.profiles(
            offer for offer in self._published if _is_accepted(offer, compiled, answers)
        )


def _is_accepted(
    offer: PartitionDevice, selectors: Sequence[cel.Selector], answers: dict[Any, bool]
) -> bool:
    view = cel.view(offer.driver, offer.device)
    for selector in selectors:
        if selector.error is not None:
            return False
        question = (selector.expression, selector.shape(view))
        if question not in answers:
            answers[question] = _matches(selector, view)
        if not answers[question]:
            return False
    return True


def _matches(selector: cel.Selector, view: cel.DeviceView) -> bool:
    try:
        return selector.matches(view)
    except (EvaluationError, CostExceeded):
        return False


def pending(spec: JsonObject, asked: Mapping[str, Any]) -> list[JsonObject]:
    """The requests that are asked for by size and are not expanded yet."""
    return [
        request
        for request in _requests(spec)
        if request.get("name") in asked and not request.get("firstAvailable")
    ]


def expressions(request: JsonObject, market: PublishedPartitions) -> list[str]:
    """Every selector that decides which partitions a request may have."""
    exactly = request.get("exactly") or {}
    class_name = market.partition_class(exactly.get("deviceClassName", ""))
    return [*market.selectors(class_name), *_expressions(exactly)]


def _expand_request(
    request: JsonObject, wanted: Any, market: PublishedPartitions, path: Path
) -> tuple[JsonObject, str]:
    path = path.child(FIELD)
    exactly = request.get("exactly")
    if not exactly:
        raise PartitionRequestError(
            fields.forbidden(path, "needs a request with a deviceClassName of its own")
        )
    count, sizes = _read(wanted, path)
    _check_exactly(exactly, path)
    class_name = market.partition_class(exactly.get("deviceClassName", ""))
    found = market.profiles(class_name, _expressions(exactly))
    if not found:
        raise PartitionRequestError(
            fields.invalid(path, wanted, f'no partition of class "{class_name}" is published')
        )
    enough = [profile for profile in found if profile.has(sizes)][:MAX_ALTERNATIVES]
    if not enough:
        raise PartitionRequestError(
            fields.invalid(path.child("resources"), wanted["resources"], _largest(found))
        )
    alternatives = [_alternative(profile, exactly, class_name, count) for profile in enough]
    shown = ", else ".join(profile.describe(sizes) for profile in enough)
    remark = f'request "{request["name"]}" asks for {shown} of class {class_name}'
    return {"name": request["name"], "firstAvailable": _named_apart(alternatives)}, remark


def _expressions(exactly: JsonObject) -> list[str]:
    selectors = exactly.get("selectors") or ()
    return [selector["cel"]["expression"] for selector in selectors if selector.get("cel")]


def _read(wanted: Any, path: Path) -> tuple[int, dict[str, Quantity]]:
    if not isinstance(wanted, dict):
        raise PartitionRequestError(
            fields.invalid(path, wanted, "must be an object with count and resources")
        )
    unknown = sorted(set(wanted) - {"count", "resources"})
    if unknown:
        raise PartitionRequestError(fields.not_supported(path, unknown[0], ("count", "resources")))
    count = wanted.get("count", 1)
    if type(count) is not int or count < 1:
        raise PartitionRequestError(
            fields.invalid(path.child("count"), count, "must be greater than zero")
        )
    resources = wanted.get("resources")
    if not isinstance(resources, dict) or not resources:
        raise PartitionRequestError(
            fields.required(path.child("resources"), "say how much memory or compute it must have")
        )
    return count, dict(_sizes(resources, path.child("resources")))


def _sizes(resources: JsonObject, path: Path) -> Iterator[tuple[str, Quantity]]:
    for name, value in resources.items():
        where = path.key(name)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise PartitionRequestError(fields.invalid(where, value, "must be a quantity"))
        try:
            amount = quantity.parse(str(value))
        except quantity.QuantityError as error:
            raise PartitionRequestError(fields.invalid(where, value, str(error))) from None
        if amount.sign() <= 0:
            raise PartitionRequestError(fields.invalid(where, value, "must be greater than zero"))
        yield name, amount


def _check_exactly(exactly: JsonObject, path: Path) -> None:
    """What a whole request may say and a partition request cannot mean."""
    if exactly.get("allocationMode", "ExactCount") != "ExactCount":
        raise PartitionRequestError(
            fields.forbidden(path, "cannot be combined with allocationMode: All")
        )
    if exactly.get("count", 1) > 1:
        raise PartitionRequestError(
            fields.forbidden(path, "cannot be combined with count: say partitionRequest.count")
        )
    if exactly.get("adminAccess"):
        raise PartitionRequestError(fields.forbidden(path, "cannot be combined with adminAccess"))


def _largest(found: Sequence[Profile]) -> str:
    largest = found[-1]
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
    """Names of alternatives differ; where two would not, they get their numbers."""
    names = [each["name"] for each in alternatives]
    for index, alternative in enumerate(alternatives):
        if names.count(alternative["name"]) > 1:
            alternative["name"] = f"{names[index]}-{index}"
    return alternatives

"""LimitRanges: defaults for the resources of new pods, and bounds of pods and storage claims.

As plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import msgspec

from dray.api.admission.refusals import Refused
from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.semantics import pod_resources
from dray.api.types.core import LimitRange, LimitRangeItem, PersistentVolumeClaim
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod

ANNOTATION: Final = "kubernetes.io/limit-ranger"
_CONTAINER, _POD, _STORAGE = "Container", "Pod", "PersistentVolumeClaim"
Amounts = Mapping[str, Quantity]


def check_pod(pod: Pod, ranges: Iterable[LimitRange]) -> None:
    """Raise Refused for a pod outside of the bounds."""
    _check(_of_pod(pod, ranges))


def check_storage(claim: PersistentVolumeClaim, ranges: Iterable[LimitRange]) -> None:
    """Raise Refused for a claim of storage outside of the bounds."""
    _check(_of_storage(claim, ranges))


def _of_pod(pod: Pod, ranges: Iterable[LimitRange]) -> Iterator[str]:
    of_containers = [
        (
            pod_resources.parse_amounts(container.resources.requests),
            pod_resources.parse_amounts(container.resources.limits),
        )
        for container in (*pod.spec.containers, *pod.spec.init_containers)
    ]
    for item in _items(ranges):
        if item.type == _CONTAINER:
            for requests, limits in of_containers:
                yield from _broken(item, requests, limits)
        elif item.type == _POD:
            bare = _without_overhead(pod)
            requests = pod_resources.pod_requests(bare)
            yield from _broken(item, requests, pod_resources.pod_limits(bare))


def _of_storage(claim: PersistentVolumeClaim, ranges: Iterable[LimitRange]) -> Iterator[str]:
    requests = pod_resources.parse_amounts(claim.spec.resources.requests)
    for item in _items(ranges):
        if item.type == _STORAGE:
            yield from _problems(item.min, partial(_too_little, item.type, requests, {}))
            yield from _problems(item.max, partial(_too_large, item.type, requests))


def _items(ranges: Iterable[LimitRange]) -> Iterator[LimitRangeItem]:
    for limit_range in ranges:
        yield from limit_range.spec.limits


def _check(problems: Iterator[str]) -> None:
    """Raise Refused with the problems as Go prints them: each once, several in brackets."""
    found = list(dict.fromkeys(problems))
    if found:
        raise Refused(f"[{', '.join(found)}]" if len(found) > 1 else found[0])


def _without_overhead(pod: Pod) -> Pod:
    spec = msgspec.structs.replace(pod.spec, overhead={})
    return msgspec.structs.replace(pod, spec=spec)


def fill(pod: JsonObject, limit_range: LimitRange) -> None:
    """Give every container what it does not ask for, and say so in an annotation."""
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    for item in limit_range.spec.limits:
        if item.type == _CONTAINER:
            limits.update(item.default)
            requests.update(item.default_request)
    notes: list[str] = []
    spec = pod.get("spec") or {}
    for field, word in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(field) or ():
            for kind, what, amounts in (
                ("requests", "request", requests),
                ("limits", "limit", limits),
            ):
                resources = container.setdefault("resources", {})
                added = sorted({*amounts} - {*(resources.get(kind) or ())})
                if added:
                    more = {name: amounts[name] for name in added}
                    resources[kind] = {**(resources.get(kind) or {}), **more}
                    notes.append(f"{', '.join(added)} {what} for {word} {container['name']}")
    if notes:
        metadata = pod["metadata"]
        text = f"LimitRanger plugin set: {'; '.join(notes)}"
        metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: text}


def _broken(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for bounds, check in (
        (item.min, _too_little),
        (item.max, _too_much),
        (item.max_limit_request_ratio, _ratio),
    ):
        yield from _problems(bounds, partial(check, item.type, requests, limits))


def _problems(bounds: Mapping[str, str], check: Callable[[str, Quantity], str]) -> Iterator[str]:
    for name, text in bounds.items():
        if problem := check(name, quantity.parse(text)):
            yield problem


def _too_little(type_: str, requests: Amounts, limits: Amounts, name: str, bound: Quantity) -> str:
    text = f"minimum {name} usage per {type_} is {bound}"
    request, limit = requests.get(name), limits.get(name)
    if request is None:
        return f"{text}.  No request is specified"
    if request < bound:
        return f"{text}, but request is {request}"
    return f"{text}, but limit is {limit}" if limit is not None and limit < bound else ""


def _too_much(type_: str, requests: Amounts, limits: Amounts, name: str, bound: Quantity) -> str:
    text = f"maximum {name} usage per {type_} is {bound}"
    request, limit = requests.get(name), limits.get(name)
    if limit is None:
        return f"{text}.  No limit is specified"
    if limit > bound:
        return f"{text}, but limit is {limit}"
    return f"{text}, but request is {request}" if request is not None and request > bound else ""


def _too_large(type_: str, requests: Amounts, name: str, bound: Quantity) -> str:
    text = f"maximum {name} usage per {type_} is {bound}"
    request = requests.get(name)
    if request is None:
        return f"{text}.  No request is specified"
    return f"{text}, but request is {request}" if request > bound else ""


def _ratio(type_: str, requests: Amounts, limits: Amounts, name: str, bound: Quantity) -> str:
    text = f"{name} max limit to request ratio per {type_} is {bound}"
    request, limit = requests.get(name), limits.get(name)
    if request is None or not request.sign():
        return f"{text}, but no request is specified or request is 0"
    if limit is None or not limit.sign():
        return f"{text}, but no limit is specified or limit is 0"
    found = limit.as_float() / request.as_float()
    return f"{text}, but provided ratio is {found:f}" if found > bound.as_float() else ""

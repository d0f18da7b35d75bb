"""The objects of a scenario, as JSON objects with what families vary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Object = dict[str, Any]

RACK = "topology.example.com/rack"
"""The label by which slices select nodes."""


def node(name: str, rack: str, declared_features: Sequence[str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, RACK: rack}},
        "spec": {},
        "status": {"declaredFeatures": list(declared_features)},
    }


def pool(
    driver: str, name: str, *contents: Object, generation: int = 1, expected: int = 0, **reach: Any
) -> list[Object]:
    """Return a pool's slices, one for each of `contents`; `reach` says for which nodes they are.

    `expected` is the number of slices that the pool claims to have, if it is another one.
    """
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-{driver}-{generation}-{number}"},
            "spec": {
                "driver": driver,
                "pool": {
                    "name": name,
                    "generation": generation,
                    "resourceSliceCount": expected or len(contents),
                },
                **reach,
                **content,
            },
        }
        for number, content in enumerate(contents)
    ]


def device(name: str, attributes: Object, **more: Any) -> Object:
    return {"name": name, "attributes": attributes, **more}


def attribute(value: Any) -> Object:
    """Return a published attribute: a version is a tuple of numbers, a list is a list."""
    match value:
        case tuple():
            return {"version": ".".join(map(str, value))}
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case list():
            return {"strings" if isinstance(value[0], str) else "ints": value}
        case _:
            return {"string": value}


def attributes(**values: Any) -> Object:
    return {name: attribute(value) for name, value in values.items()}


def device_class(name: str, *expressions: str, config: Sequence[Object] = ()) -> Object:
    spec: Object = {"selectors": _selectors(expressions)}
    if config:
        spec["config"] = list(config)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def asked(device_class: str, *expressions: str, count: int = 1, **more: Any) -> Object:
    """Return what a request or subrequest asks for; a count of 0 stands for all devices."""
    wanted: Object = {"deviceClassName": device_class, **more}
    wanted |= {"allocationMode": "ExactCount", "count": count} if count else ALL
    if expressions:
        wanted["selectors"] = _selectors(expressions)
    return wanted


ALL = {"allocationMode": "All"}


def request(name: str, wanted: Object) -> Object:
    return {"name": name, "exactly": wanted}


def first_available(name: str, alternatives: Iterable[Object]) -> Object:
    subrequests = [
        {"name": f"sub-{number}", **wanted} for number, wanted in enumerate(alternatives)
    ]
    return {"name": name, "firstAvailable": subrequests}


def claim_spec(*requests: Object, **more: Sequence[Object]) -> Object:
    return {"requests": list(requests), **{name: list(found) for name, found in more.items()}}


def claim(number: int, devices: Object, allocation: Object | None = None) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": f"claim-{number:05d}",
            "namespace": "default",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
        },
        "spec": {"devices": devices},
        "status": {"allocation": allocation} if allocation else {},
    }


def allocation(name: str, chosen: Iterable[tuple[str, str, str]]) -> Object:
    """Return an allocation of devices, each as driver, pool and device, to the request `name`."""
    results = [
        {"request": name, "driver": driver, "pool": pool_name, "device": found}
        for driver, pool_name, found in chosen
    ]
    return {"devices": {"results": results}}


def opaque(driver: str, **parameters: Any) -> Object:
    return {"opaque": {"driver": driver, "parameters": parameters}}


def _selectors(expressions: Iterable[str]) -> list[Object]:
    return [{"cel": {"expression": expression}} for expression in expressions]

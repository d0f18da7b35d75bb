"""Users and devices of claims, templates, classes and slices, below the fields of kubectl.

Tabs separate columns; `describe` aligns them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dray.api import features
from dray.api.conversion import versions
from dray.api.ids import PoolId
from dray.api.semantics import pools
from dray.api.types import dra
from dray.cel import device as cel
from dray.cel.runtime import values
from dray.cli.inputs import cluster_objects
from dray.cli.verbs.descriptions import pods
from dray.explain.selectors import expressions

Object = Mapping[str, Any]


def of_claim(claim: Object) -> Iterator[str]:
    """Yield the devices of a claim, and the pods that may use it."""
    yield from pods.devices([claim])
    users = (claim.get("status") or {}).get("reservedFor") or ()
    if users:
        named = [f"{user['resource'].removesuffix('s')}/{user['name']}" for user in users]
        yield from pods.multiline("Used By", named)


def of_template(template: Object, running: Sequence[Object]) -> Iterator[str]:
    """Yield the pods that name a template."""
    name = template["metadata"]["name"]
    users = [
        f"pod/{pod['metadata']['name']}"
        for pod in running
        for source in (pod.get("spec") or {}).get("resourceClaims") or ()
        if source.get("resourceClaimTemplateName") == name
    ]
    yield from pods.multiline("Used By", list(dict.fromkeys(users)))


def of_class(device_class: Object, slices: Sequence[Object]) -> Iterator[str]:
    """Yield how many devices a class has, on each node."""
    found = cluster_objects.decode(dict(device_class), "")
    assert isinstance(found, dra.DeviceClass)
    selectors = [
        expressions.compiled(selector.cel.expression, features.DEFAULT)
        for selector in found.spec.selectors
        if selector.cel is not None
    ]
    read = [cluster_objects.decode(versions.to_storage(dict(item)), "") for item in slices]
    counts: Counter[tuple[str, str]] = Counter()
    total = 0
    for resource_slice in pools.current_slices_of_pools(
        [item for item in read if isinstance(item, dra.ResourceSlice)]
    ):
        pool = resource_slice.pool_id
        total += len(resource_slice.spec.devices)
        where = resource_slice.spec.node_name or "<any>"
        matching = sum(_matches(selectors, pool, device) for device in resource_slice.spec.devices)
        counts[where, pool.driver] += matching
    yield f"Devices:\t{sum(counts.values())} of {total} that are published"
    for (node, driver), number in sorted(counts.items()):
        if number:
            yield f"  {node}\t{driver}\t{number} {'device' if number == 1 else 'devices'}"


def _matches(selectors: Sequence[cel.Selector], pool: PoolId, device: dra.Device) -> bool:
    view = cel.view(pool.driver, device)
    try:
        return all(item.error is None and item.matches(view) for item in selectors)
    except (values.EvaluationError, values.CostExceeded):
        return False


def of_slice(resource_slice: Object, claims: Sequence[Object]) -> Iterator[str]:
    """Yield the claims that hold devices of a slice."""
    spec = resource_slice["spec"]
    names = {device["name"] for device in spec.get("devices") or ()}
    held = [
        f"  {result['device']}\t{claim['metadata']['namespace']}/{claim['metadata']['name']}"
        for claim in claims
        for result in pods.results(claim)
        if (result["driver"], result["pool"]) == (spec["driver"], spec["pool"]["name"])
        and result["device"] in names
    ]
    yield "Held By:" if held else f"Held By:\t{pods.NONE}"
    yield from sorted(held)

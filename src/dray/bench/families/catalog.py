"""Every family by name, and the scenarios that they make."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dray.api import well_known
from dray.bench.families import alternatives, attributes, conditions, objects, reach, shares
from dray.bench.families.draw import Draw, Family, Parts
from dray.bench.families.objects import Object

BY_NAME: Mapping[str, Family] = {
    "prioritized-list": alternatives.prioritized_list,
    "consumable-capacity": shares.consumable_capacity,
    "partitionable-devices": shares.partitionable_devices,
    "shared-partitions": shares.shared_partitions,
    "taints": conditions.taints,
    "match-attribute": attributes.match_attribute,
    "distinct-attribute": attributes.distinct_attribute,
    "existing-allocations": reach.existing_allocations,
    "multiple-requests": alternatives.multiple_requests,
    "all-devices": alternatives.all_devices,
    "node-selectors": reach.node_selectors,
    "binding-conditions": conditions.binding_conditions,
    "many-attributes": attributes.many_attributes,
    "many-classes": alternatives.many_classes,
    "unique-values": attributes.unique_values,
}
"""The families that need no gate beyond the defaults of Kubernetes."""

ALPHA: Mapping[str, Family] = {
    "list-attributes": attributes.list_attributes,
    "derived-attributes": attributes.derived_attributes,
    "compatibility-groups": shares.compatibility_groups,
    "node-operations": conditions.node_operations,
}
"""The families whose features are off by default."""

MIXED = {"mixed": BY_NAME, "mixed-alpha": {**BY_NAME, **ALPHA}}
"""The families that are made of others, on the same nodes."""

NAMES = (*BY_NAME, *ALPHA, *MIXED)


class UnknownFamily(ValueError):
    """There is no family of this name."""

    def __init__(self, name: str) -> None:
        near = difflib.get_close_matches(name, NAMES, 1, 0.4)
        meant = f"; did you mean {near[0]}?" if near else f": write one of {', '.join(NAMES)}"
        super().__init__(f"there is no family {name}{meant}")


class Scale(NamedTuple):
    """The size of a scenario; 0 stands for a number that the seed draws."""

    nodes: int = 0
    claims: int = 0


DRAWN = Scale()


def make(name: str, seed: int, scale: Scale = DRAWN) -> Object:
    """Return the scenario of a family and a seed, as its file holds it; equal for equal arguments.

    Raises UnknownFamily.
    """
    if name not in NAMES:
        raise UnknownFamily(name)
    size = Draw(f"{name} {seed} size", name, (), 1)
    nodes = [_node(number, size) for number in range(scale.nodes or size.randint(80, 320))]
    # From a fleet that is nearly empty at the end to one where many claims fit nowhere.
    claims = scale.claims or size.choice((1, 2, 4, 8)) * len(nodes)
    parts = _parts(name, seed, nodes, claims)
    specs: list[tuple[Object, Object | None]] = [*parts.held]
    specs += [(spec, None) for spec in parts.wanted]
    return {
        "name": f"{name}-{seed}",
        "featureSet": "default" if name in BY_NAME or name == "mixed" else "all",
        "nodes": nodes,
        "slices": parts.slices,
        "classes": parts.classes,
        "claims": [
            objects.claim(number, spec, allocation)
            for number, (spec, allocation) in enumerate(specs)
        ],
    }


def _node(number: int, draw: Draw) -> Object:
    declared = (well_known.OPTIONAL_NODE_OPERATIONS,) if draw.chance(0.7) else ()
    return objects.node(f"node-{number:05d}", draw.choice(reach.RACKS), declared)


def _parts(name: str, seed: int, nodes: Sequence[Object], claims: int) -> Parts:
    if name not in MIXED:
        return {**BY_NAME, **ALPHA}[name](Draw(f"{name} {seed}", name, nodes, claims))
    draw = Draw(f"{name} {seed}", name, nodes, claims)
    chosen = draw.sample(sorted(MIXED[name]), draw.randint(3, 6))
    parts = [
        MIXED[name][family](Draw(f"{name} {seed} {family}", family, nodes, claims))
        for family in chosen
    ]
    return Parts(
        [resource_slice for part in parts for resource_slice in part.slices],
        [device_class for part in parts for device_class in part.classes],
        _mixed(draw, [part.wanted for part in parts])[:claims],
        [held for part in parts for held in part.held],
    )


def _mixed(draw: Draw, wanted: Sequence[Sequence[Object]]) -> list[Object]:
    """Return claims of all families in random order, some for devices of two of them at once."""
    claims = []
    for one, other in zip(*[_shuffled(draw, wanted) for _ in range(2)], strict=True):
        is_one_family = set(_names(one)) & set(_names(other))
        claims.append(one if is_one_family or draw.chance(0.75) else _together(one, other))
    return claims


def _shuffled(draw: Draw, wanted: Sequence[Sequence[Object]]) -> list[Object]:
    return [draw.choice(of_family) for of_family in draw.choices(wanted, k=len(wanted[0]))]


def _together(one: Object, other: Object) -> Object:
    """Return a claim for what two claims ask for; constraints name the requests they are about."""
    return {
        key: [*one.get(key, ()), *other.get(key, ())]
        for key in ("requests", "constraints", "config")
        if key in one or key in other
    }


def _names(claim: Object) -> list[str]:
    return [request["name"] for request in claim["requests"]]

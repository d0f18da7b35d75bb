"""Families about devices that not every claim may have: taints, binding conditions, operations."""

from __future__ import annotations

from typing import Any

from dray.bench.families import objects
from dray.bench.families.alternatives import MODELS
from dray.bench.families.draw import Draw, Parts
from dray.bench.families.objects import Object

_KEYS = ("unhealthy", "maintenance", "reserved", "hot", "old")
_VALUES = ("", "yes", "team-a", "team-b")
_EFFECTS = ("NoSchedule", "NoSchedule", "NoExecute", "None")


def taints(draw: Draw) -> Parts:
    """Devices with up to three taints of all effects; claims with up to four tolerations."""
    share = draw.choice((0.15, 0.4, 0.9))

    def contents() -> list[Object]:
        devices = [
            objects.device(
                f"device-{number}",
                objects.attributes(model=draw.choice(MODELS[:3]), index=number),
                taints=_taints(draw) if number == 1 or draw.chance(share) else [],
            )
            for number in range(draw.randint(2, 10))
        ]
        return [{"devices": devices}]

    def wanted() -> Object:
        tolerations = [_toleration(draw) for _ in range(draw.choice((0, 1, 1, 2, 4)))]
        return objects.claim_spec(_one_or_two(draw, draw.family, tolerations=tolerations))

    return draw.with_one_class(draw.pools(contents), wanted)


def _taints(draw: Draw) -> list[Object]:
    return [
        {
            "key": f"{draw.driver}/{key}",
            "value": draw.choice(_VALUES),
            "effect": draw.choice(_EFFECTS),
            "timeAdded": "2026-01-01T00:00:00Z",
        }
        for key in draw.some(_KEYS, 1, 3)
    ]


def _toleration(draw: Draw) -> Object:
    effect = draw.choice(({}, {}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}))
    if draw.chance(0.1):
        return {"operator": "Exists", **effect}
    key = f"{draw.driver}/{draw.choice(_KEYS)}"
    if draw.chance(0.5):
        return {"key": key, "operator": "Exists", **effect}
    return {"key": key, "operator": "Equal", "value": draw.choice(_VALUES), **effect}


def binding_conditions(draw: Draw) -> Parts:
    """Devices of the node, and those that have to be attached first: their pools come last."""

    def attached() -> list[Object]:
        conditions = draw.some(("attached", "powered", "linked"), 1, 3)
        more = {
            "bindingConditions": [f"{draw.driver}/{name}" for name in conditions],
            "bindingFailureConditions": [f"{draw.driver}/failed"],
            "bindsToNode": True,
        }
        return [{"devices": [device | more for device in _devices(draw, 1)]}]

    slices = draw.pools(attached, suffix="-attached")
    slices += draw.pools(lambda: [{"devices": _devices(draw, 0)}])
    return draw.with_one_class(slices, lambda: objects.claim_spec(_one_or_two(draw, draw.family)))


def node_operations(draw: Draw) -> Parts:
    """Devices that need nothing done on the node, which not every node can leave out."""

    def remote() -> list[Object]:
        skipped = draw.choice(
            (["*"], ["NodeUnprepareResources"], ["NodePrepareResources", "NodeUnprepareResources"])
        )
        return [{"devices": _devices(draw, 1), "skipNodeOperations": skipped}]

    slices = draw.pools(remote, suffix="-remote")
    slices += draw.pools(lambda: [{"devices": _devices(draw, 0)}])
    return draw.with_one_class(slices, lambda: objects.claim_spec(_one_or_two(draw, draw.family)))


def _devices(draw: Draw, least: int) -> list[Object]:
    return [
        objects.device(
            f"device-{number}", objects.attributes(model=draw.choice(MODELS[:3]), index=number)
        )
        for number in range(draw.randint(least, 5))
    ]


def _one_or_two(draw: Draw, name: str, **more: Any) -> Object:
    selectors = [f'{draw.own("model")} == "{draw.choice(MODELS[:3])}"'] if draw.chance(0.4) else []
    count = draw.choice((1, 1, 2))
    return objects.request(name, objects.asked(draw.family, *selectors, count=count, **more))

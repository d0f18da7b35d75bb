"""Families about which devices a node has: node selectors, what is allocated, stale pools."""

from __future__ import annotations

from dray.bench.families import objects
from dray.bench.families.draw import Draw, Parts
from dray.bench.families.objects import Object

RACKS = ("r1", "r2", "r3", "r4", "r5", "r6")
_SPEEDS = (100, 200, 400)


def node_selectors(draw: Draw) -> Parts:
    """Network devices of a rack, of all nodes or of some, beside local ones."""
    racks = [
        resource_slice
        for rack in RACKS
        for resource_slice in objects.pool(
            draw.driver,
            f"rack-{rack}",
            {"devices": _ports(draw, draw.randint(20, 100))},
            nodeSelector=_in_rack(rack),
        )
    ]
    everywhere = objects.pool(
        draw.driver, "fabric", {"devices": _ports(draw, draw.randint(4, 60))}, allNodes=True
    )
    per_device = objects.pool(
        draw.driver, "attached", {"devices": _attached(draw)}, perDeviceNodeSelection=True
    )
    local = draw.pools(lambda: [{"devices": _ports(draw, draw.randint(1, 4), "local")}])

    def wanted() -> Object:
        place = draw.choice(("local", "local", "remote"))
        selectors = [
            f'{draw.own("place")} == "{place}"',
            f"{draw.own('speed')} >= {draw.choice(_SPEEDS)}",
        ]
        requests = [
            objects.request(
                f"{draw.family}-{number}", objects.asked(draw.family, *draw.some(selectors, 0, 2))
            )
            for number in range(draw.choice((1, 1, 2)))
        ]
        return objects.claim_spec(*requests)

    return draw.with_one_class([*racks, *everywhere, *per_device, *local], wanted)


def _ports(draw: Draw, count: int, place: str = "remote") -> list[Object]:
    return [
        objects.device(
            f"port-{number}", objects.attributes(speed=draw.choice(_SPEEDS), place=place)
        )
        for number in range(count)
    ]


def _attached(draw: Draw) -> list[Object]:
    found = _ports(draw, draw.randint(8, 48), "attached")
    for device in found:
        device |= draw.choice(
            (
                {"nodeName": draw.choice(draw.nodes)},
                {"nodeSelector": _in_rack(draw.choice(RACKS))},
                {"allNodes": True},
            )
        )
    return found


def _in_rack(rack: str) -> Object:
    requirement = {"key": objects.RACK, "operator": "In", "values": [rack]}
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}


def existing_allocations(draw: Draw) -> Parts:
    """Nodes that are largely in use, with stale and incomplete pools, and admin access."""
    slices: list[Object] = []
    held: list[tuple[Object, Object]] = []
    share = draw.choice((0.3, 0.6, 0.9))
    for name, devices in zip(draw.nodes, draw.per_node(lambda: _in_use(draw)), strict=True):
        slices += _generations(draw, name, devices)
        for device in devices:
            if draw.chance(share):
                spec = objects.claim_spec(objects.request("gpu", objects.asked(draw.family)))
                found = [(draw.driver, name, device["name"])]
                held.append((spec, objects.allocation("gpu", found)))

    def wanted() -> Object:
        selectors = [f"{draw.own('index')} < {draw.randint(1, 8)}"] if draw.chance(0.5) else []
        admin = {"adminAccess": True} if draw.chance(0.2) else {}
        count = draw.choice((1, 1, 2, 4)) if not admin or draw.chance(0.5) else 0
        asked = objects.asked(draw.family, *selectors, count=count, **admin)
        return objects.claim_spec(objects.request(draw.family, asked))

    parts = draw.with_one_class(slices, wanted)
    return parts._replace(held=held)


def _in_use(draw: Draw) -> list[Object]:
    return [
        objects.device(f"device-{number}", objects.attributes(index=number, fast=draw.chance(0.5)))
        for number in range(draw.randint(2, 12))
    ]


def _generations(draw: Draw, node: str, devices: list[Object]) -> list[Object]:
    """Return a pool, some of them with an older generation or with a slice missing."""
    half = len(devices) // 2
    current = [{"devices": devices[:half]}, {"devices": devices[half:]}]
    expected = 3 if draw.chance(0.1) else 0
    slices = objects.pool(
        draw.driver, node, *current, generation=2, expected=expected, nodeName=node
    )
    if draw.chance(0.3):
        old = {"devices": [*devices, objects.device("gone", {})]}
        slices += objects.pool(draw.driver, node, old, generation=1, nodeName=node)
    return slices

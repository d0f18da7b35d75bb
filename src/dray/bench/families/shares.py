"""Families about devices that several claims use: consumable capacity, partitions, groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.bench.families import objects
from dray.bench.families.draw import Draw, Parts
from dray.bench.families.objects import Object

_GROUPS = ("mig", "mps", "timeslicing", "exclusive")


def consumable_capacity(draw: Draw) -> Parts:
    """Shares of devices, with policies of every kind, of one to three capacities."""
    names = ("memory", "cores", "bandwidth")[: draw.randint(1, 3)]

    def contents() -> list[Object]:
        devices = [
            objects.device(
                f"device-{number}",
                objects.attributes(index=number, tier=draw.choice(("fast", "slow"))),
                allowMultipleAllocations=True,
                capacity={name: _capacity(draw) for name in names},
            )
            for number in range(draw.randint(2, 8))
        ]
        return [{"devices": devices}]

    def wanted() -> Object:
        asked = {name: str(draw.randint(1, 24)) for name in draw.some(names, 0, len(names))}
        selectors = [f'{draw.own("tier")} == "fast"'] if draw.chance(0.3) else []
        count = draw.choice((1, 1, 1, 1, 2))
        capacity = {"capacity": {"requests": asked}} if asked else {}
        return objects.claim_spec(
            objects.request(
                draw.family, objects.asked(draw.family, *selectors, count=count, **capacity)
            )
        )

    return draw.with_one_class(draw.pools(contents), wanted)


def _capacity(draw: Draw) -> Object:
    total = draw.choice((16, 32, 64, 80, 96))
    match draw.randint(0, 3):
        case 0:
            return {"value": str(total)}
        case 1:
            step = draw.choice(("1", "2", "4"))
            allowed = {"min": step, "max": str(total), "step": step}
            policy: Object = {"default": step, "validRange": allowed}
        case 2:
            policy = {"default": "2", "validRange": {"min": "1"}}
        case _:
            policy = {"default": "4", "validValues": ["1", "4", "8", str(total)]}
    return {"value": str(total), "requestPolicy": policy}


class _Profile(NamedTuple):
    """The part of a device with eight memory slices that a partition takes, and where from."""

    slices: int
    cores: int
    starts: Sequence[int]


_PROFILES = {
    "1g": _Profile(1, 1, range(7)),
    "2g": _Profile(2, 2, (0, 2, 4)),
    "3g": _Profile(4, 3, (0, 4)),
    "7g": _Profile(8, 7, (0,)),
}


def partitionable_devices(draw: Draw) -> Parts:
    """Partitions that draw from shared counters, for one or several per claim."""
    slices = draw.pools(lambda: _partitioned(draw))
    return draw.with_one_class(slices, lambda: _partitions(draw))


def compatibility_groups(draw: Draw) -> Parts:
    """Partitions that may lie beside others of a common group only."""
    groups = _GROUPS[: draw.randint(2, 4)]
    slices = draw.pools(lambda: _partitioned(draw, groups=groups))
    return draw.with_one_class(slices, lambda: _partitions(draw))


def shared_partitions(draw: Draw) -> Parts:
    """Partitions that several claims share: the first share takes the counters for all."""

    def wanted() -> Object:
        amounts = {"capacity": {"requests": {"memory": str(draw.randint(1, 6))}}}
        return _partitions(draw, **amounts)

    slices = draw.pools(lambda: _partitioned(draw, is_shared=True))
    return draw.with_one_class(slices, wanted)


def _partitioned(
    draw: Draw, *, groups: Sequence[str] = (), is_shared: bool = False
) -> list[Object]:
    """Return the contents of a pool's slices: the counters, then the partitions."""
    profiles = draw.some(tuple(_PROFILES), 2, 4)
    gpus = range(draw.randint(1, 4))
    total = draw.choice((7, 7, 8, 14))
    counters = [
        {
            "name": f"gpu-{gpu}",
            "counters": {
                "cores": {"value": str(total)},
                **{f"slice-{number}": {"value": "1"} for number in range(8)},
            },
        }
        for gpu in gpus
    ]
    devices = [
        _partition(draw, gpu, profile, start, groups, is_shared)
        for gpu in gpus
        for profile in profiles
        for start in _PROFILES[profile].starts
    ]
    per_slice = draw.choice((16, 64))
    split = [
        {"devices": devices[first : first + per_slice]}
        for first in range(0, len(devices), per_slice)
    ]
    return [{"sharedCounters": counters}, *split]


def _partition(
    draw: Draw, gpu: int, name: str, start: int, groups: Sequence[str], is_shared: bool
) -> Object:
    profile = _PROFILES[name]
    taken = {
        "cores": {"value": str(profile.cores)},
        **{f"slice-{start + number}": {"value": "1"} for number in range(profile.slices)},
    }
    consumption: Object = {"counterSet": f"gpu-{gpu}", "counters": taken}
    if groups and draw.chance(0.8):
        consumption["compatibilityGroups"] = draw.some(groups, 1, 2)
    more: Object = {"allowMultipleAllocations": True} if is_shared else {}
    return objects.device(
        f"gpu-{gpu}-{name}-{start}",
        objects.attributes(profile=name, parent=f"gpu-{gpu}", start=start),
        capacity={"memory": {"value": str(10 * profile.slices)}},
        consumesCounters=[consumption],
        **more,
    )


def _partitions(draw: Draw, **more: Object) -> Object:
    def request(name: str) -> Object:
        profile = draw.choice(("1g", "1g", "1g", "2g", "2g", "3g", "7g"))
        selector = f'{draw.own("profile")} == "{profile}"'
        count = draw.choice((1, 1, 1, 2))
        return objects.request(name, objects.asked(draw.family, selector, count=count, **more))

    if draw.chance(0.75):
        return objects.claim_spec(request(draw.family))
    names = [draw.family, f"{draw.family}-more"]
    same = {"requests": names, "matchAttribute": draw.qualified("parent")}
    constraints = [same] if draw.chance(0.5) else []
    return objects.claim_spec(*map(request, names), constraints=constraints)

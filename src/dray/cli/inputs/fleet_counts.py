"""Numbers of machines, devices and partitions of a simulated fleet."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from dray.drivers.simulated.fleet import Fleet


class FleetCounts(NamedTuple):
    """The numbers of a fleet, as `dray status` counts them once it runs."""

    machines: int
    devices: int
    partitions: int
    models: Counter[str]
    """Devices by driver and model, without partitions."""


def count(described: Fleet) -> FleetCounts:
    """Return what a fleet has with the number of machines that it was loaded with."""
    models = _models(described)
    devices = sum(models.values())
    published = sum(len(pool.devices) for pool in described.shared_pools())
    # Machines of one kind publish the same, and there may be thousands.
    of_kind: dict[int, int] = {}
    for machine in described.machines.values():
        kind = id(machine.group)
        if kind not in of_kind:
            of_kind[kind] = sum(len(pool.devices) for pool in machine.pools())
        published += of_kind[kind]
    return FleetCounts(len(described.machines), devices, published - devices, models)


def _models(described: Fleet) -> Counter[str]:
    models: Counter[str] = Counter()
    places = [machine.group.devices for machine in described.machines.values()]
    places += [pool.devices for pool in described.blueprint.pools]
    for by_driver in places:
        for driver, groups in by_driver.items():
            for group in groups:
                models[f"{driver} {group.model}"] += group.count
    return models

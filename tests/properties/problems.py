"""Random allocation problems that are small enough to try every combination."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import msgspec

from dray.api import features
from dray.api.features import Features
from dray.api.types.dra import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceDerivedAttribute,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from dray.api.types.meta import ObjectMeta

NODE = "node-1"
DRIVERS = ("a.test", "a.test", "b.test")
ATTRIBUTES = ("ring", "slot", "links")
CLASSES = {
    "any": "true",
    "a": 'device.driver == "a.test"',
    "big": (
        'device.driver == "a.test" && device.capacity["a.test"].mem.compareTo(quantity("4")) >= 0'
    ),
}
SELECTORS = (
    'device.attributes["a.test"].?slot.orValue(0) >= 1',
    'device.attributes["a.test"].?ring.orValue("") != "east"',
    'device.driver == "b.test"',
    'device.attributes["a.test"].ring == "east"',
    "device.allowMultipleAllocations",
)
FAILING = 3
"""The position of the selector that fails on devices without the attribute."""

DERIVED = (
    'device.attributes["a.test"].?ring.orValue("none")',
    'device.attributes["a.test"].ring',
)


class Problem(NamedTuple):
    slices: list[ResourceSlice]
    classes: dict[str, DeviceClass]
    claims: list[ResourceClaim]
    taken: list[tuple[str, str, str]]
    shared: list[tuple[str, str, str]]
    features: Features


def draw(dice: random.Random) -> Problem:
    gates = msgspec.structs.replace(
        features.DEFAULT,
        consumable_capacity=dice.random() < 0.7,
        device_compatibility_groups=dice.random() < 0.3,
        device_taints=dice.random() < 0.8,
        list_type_attributes=dice.random() < 0.3,
        derived_attributes=True,
    )
    slices = [
        resource_slice
        for _ in range(dice.choice((1, 2, 2)))
        for resource_slice in draw_pool(dice, gates)
    ]
    unique = {
        (
            resource_slice.spec.driver,
            resource_slice.spec.pool.name,
            resource_slice.metadata.name,
        ): resource_slice
        for resource_slice in slices
    }
    slices = list(unique.values())
    dice.shuffle(slices)
    ids = [
        (resource_slice.spec.driver, resource_slice.spec.pool.name, device.name)
        for resource_slice in slices
        for device in resource_slice.spec.devices
    ]
    taken = [id for id in ids if dice.random() < 0.1]
    shared = [id for id in ids if gates.consumable_capacity and dice.random() < 0.1]
    claims = [draw_claim(dice, number, gates) for number in range(dice.choice((1, 1, 2)))]
    return Problem(slices, _classes(), claims, taken, shared, gates)


def _classes() -> dict[str, DeviceClass]:
    return {
        name: DeviceClass(
            ObjectMeta(name=name),
            DeviceClassSpec((DeviceSelector(CELDeviceSelector(expression)),)),
        )
        for name, expression in CLASSES.items()
    }


def draw_pool(dice: random.Random, gates: Features) -> list[ResourceSlice]:
    driver = dice.choice(DRIVERS)
    name = dice.choice(("p1", "p2"))
    with_counters = dice.random() < 0.4
    slice_count = dice.choice((1, 1, 2))
    total = slice_count + with_counters
    if dice.random() < 0.04:
        total += 1
    pool = ResourcePool(name, 1, total)
    binds = dice.random() < 0.1
    slices = []
    for number in range(slice_count):
        devices = tuple(
            _device(dice, f"d{number}{index}", with_counters, binds, gates)
            for index in range(dice.choice((1, 2, 3, 4)))
        )
        if dice.random() < 0.03:
            devices = (*devices, devices[0])
        slices.append(_slice(driver, pool, f"s{number}", devices=devices))
    if with_counters:
        counters = {
            "cores": Counter(str(dice.choice((2, 4, 6)))),
            "memory": Counter(f"{dice.choice((2, 8))}Gi"),
        }
        shared = (CounterSet("set", counters),)
        slices.append(_slice(driver, pool, "counters", shared_counters=shared))
    return slices


def _slice(
    driver: str,
    pool: ResourcePool,
    name: str,
    *,
    devices: tuple[Device, ...] = (),
    shared_counters: tuple[CounterSet, ...] = (),
) -> ResourceSlice:
    return ResourceSlice(
        ObjectMeta(name=f"{driver}-{pool.name}-{name}"),
        ResourceSliceSpec(driver, pool, NODE, devices=devices, shared_counters=shared_counters),
    )


def _device(
    dice: random.Random, name: str, with_counters: bool, binds: bool, gates: Features
) -> Device:
    return Device(
        name,
        attributes=_attributes(dice, gates),
        capacity={"mem": _capacity(dice)} if dice.random() < 0.8 else {},
        consumes_counters=_consumption(dice, gates)
        if with_counters and dice.random() < 0.8
        else (),
        taints=(_taint(dice),) if dice.random() < 0.2 else (),
        binding_conditions=("ready",) if binds else (),
        allow_multiple_allocations=True if dice.random() < 0.35 else None,
    )


def _attributes(dice: random.Random, gates: Features) -> dict[str, DeviceAttribute]:
    found = {}
    if dice.random() < 0.95:
        found["ring"] = DeviceAttribute(string_value=dice.choice(("east", "east", "west")))
    if dice.random() < 0.8:
        found["slot"] = DeviceAttribute(int_value=dice.choice((0, 1, 2)))
    if dice.random() < 0.5:
        links = tuple(dice.sample(("x", "y", "z"), dice.choice((1, 2))))
        found["links"] = DeviceAttribute(string_values=links)
    return found


def _capacity(dice: random.Random) -> DeviceCapacity:
    policies = (
        None,
        None,
        CapacityRequestPolicy("1", valid_values=("1", "2", "4")),
        CapacityRequestPolicy("2", valid_range=CapacityRequestPolicyRange("1", "4", "1")),
        CapacityRequestPolicy("1", valid_range=CapacityRequestPolicyRange("2", None, "2")),
    )
    return DeviceCapacity(str(dice.choice((2, 4, 8))), dice.choice(policies))


def _consumption(dice: random.Random, gates: Features) -> tuple[DeviceCounterConsumption, ...]:
    counters = {"cores": Counter(str(dice.choice((1, 2))))}
    if dice.random() < 0.5:
        counters["memory"] = Counter(dice.choice(("1Gi", "2Gi")))
    groups: tuple[str, ...] = ()
    if gates.device_compatibility_groups and dice.random() < 0.6:
        groups = tuple(dice.sample(("mig", "mps"), dice.choice((1, 2))))
    return (DeviceCounterConsumption("set", counters, groups),)


def _taint(dice: random.Random) -> DeviceTaint:
    return DeviceTaint("worn", dice.choice(("", "x")), dice.choice(("NoSchedule", "None", "None")))


def draw_claim(dice: random.Random, number: int, gates: Features) -> ResourceClaim:
    names = [f"r{index}" for index in range(dice.choice((1, 1, 2, 2, 3)))]
    requests = tuple(_request(dice, name, gates) for name in names)
    constraints = tuple(_constraint(dice, requests) for _ in range(dice.choice((0, 0, 1, 1, 2))))
    return ResourceClaim(
        ObjectMeta(name=f"claim-{number}", namespace="shop"),
        ResourceClaimSpec(DeviceClaim(requests, constraints)),
    )


def _request(dice: random.Random, name: str, gates: Features) -> DeviceRequest:
    if dice.random() < 0.25:
        options = tuple(DeviceSubRequest(f"s{index}", **_asked(dice, gates)) for index in range(2))
        return DeviceRequest(name, first_available=options)
    admin = True if dice.random() < 0.1 else None
    return DeviceRequest(name, ExactDeviceRequest(**_asked(dice, gates), admin_access=admin))


def _asked(dice: random.Random, gates: Features) -> dict[str, Any]:
    wants_all = dice.random() < 0.08
    chosen = dice.sample(range(len(SELECTORS)), dice.choice((0, 0, 1)))
    if FAILING in chosen and dice.random() < 0.5:
        chosen.remove(FAILING)
    capacity = None
    if gates.consumable_capacity and dice.random() < 0.3:
        capacity = CapacityRequirements({"mem": str(dice.choice((1, 2, 3, 4)))})
    derived: tuple[DeviceDerivedAttribute, ...] = ()
    if dice.random() < 0.1:
        expression = dice.choice((*DERIVED, DERIVED[0]))
        derived = (DeviceDerivedAttribute("made.test/ring", expression),)
    return {
        "device_class_name": dice.choice(("any", "any", "any", "a", "big")),
        "selectors": tuple(DeviceSelector(CELDeviceSelector(SELECTORS[index])) for index in chosen),
        "allocation_mode": "All" if wants_all else "ExactCount",
        "count": 0 if wants_all else dice.choice((1, 1, 1, 2, 2, 3)),
        "tolerations": (DeviceToleration(operator="Exists"),) if dice.random() < 0.3 else (),
        "capacity": capacity,
        "derived_attributes": derived,
    }


def _constraint(dice: random.Random, requests: tuple[DeviceRequest, ...]) -> DeviceConstraint:
    names = [request.name for request in requests]
    names += [
        f"{request.name}/{sub.name}" for request in requests for sub in request.first_available
    ]
    meant = tuple(dice.sample(names, dice.randint(0, len(names))))
    attribute = dice.choice(
        (
            "a.test/ring",
            "a.test/ring",
            "a.test/ring",
            "a.test/slot",
            "a.test/links",
            "made.test/ring",
        )
    )
    if dice.random() < 0.6:
        return DeviceConstraint(meant, match_attribute=attribute)
    return DeviceConstraint(meant, distinct_attribute=attribute)

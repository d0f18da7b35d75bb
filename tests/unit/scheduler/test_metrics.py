"""The figures are right while pods and devices come and go."""

from __future__ import annotations

import re

from dray.api.types.meta import JsonObject
from tests.unit.scheduler.world import (
    World,
    claim,
    device_class,
    exactly,
    gpu,
    gpu_slice,
    in_world,
    node,
    pod,
    template,
)

TAINTS = [{"key": "example.com/broken", "effect": "NoSchedule"}]


def figures(world: World, name: str) -> dict[str, float]:
    """The values of a metric by its labels, without those that are zero."""
    found = re.findall(rf"^{name}{{(.*)}} (\S+)$", world.registry.render(), re.MULTILINE)
    return {labels: float(value) for labels, value in found if float(value)}


def devices(world: World, class_name: str = "gpu.example.com") -> dict[str, float]:
    """How many devices of a class are in which state."""
    pattern = re.compile(rf'state="([a-z ]+)",class="{re.escape(class_name)}"')
    matches = ((pattern.fullmatch(key), n) for key, n in figures(world, "dray_devices").items())
    return {match[1]: number for match, number in matches if match}


async def come_to(world: World, expected: dict[str, float]) -> None:
    async def are_there() -> bool:
        return devices(world) == expected

    await world.until(are_there, f"{expected}, not {devices(world)}")


@in_world()
async def test_devices_are_counted_by_class_and_state(world: World) -> None:
    large = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
    await world.create(device_class(), device_class("large", large), node("node-0"))
    listed = (gpu("a"), gpu("b", "10Gi"), gpu("c", taints=TAINTS))
    await world.create(gpu_slice("node-0", 0, *listed))
    await come_to(world, {"free": 3})
    assert devices(world, "large") == {"free": 2}
    assert figures(world, "dray_devices_tainted") == {
        'class="gpu.example.com"': 1,
        'class="large"': 1,
    }
    assert figures(world, "dray_devices_unhealthy") == {}
    await world.create(claim("x"), pod("p", "x"))
    await world.bound("p")
    await come_to(world, {"free": 2, "in use": 1})
    await world.delete("deviceclasses", "large")

    async def has_no_class() -> bool:
        return devices(world, "large") == {}

    await world.until(has_no_class)


@in_world()
async def test_devices_come_back_to_the_count_when_pods_and_slices_go(world: World) -> None:
    await world.create(device_class(), template("gpu", exactly(count=2)))
    for name in ("node-0", "node-1"):
        await world.create(node(name), gpu_slice(name, 4))
    names = [f"p{number}" for number in range(4)]
    for name in names:
        await world.create(pod(name, template_name="gpu"))
    for name in names:
        await world.bound(name)
    await come_to(world, {"in use": 8})
    for name in names:
        await world.remove_pod(name)
    await come_to(world, {"free": 8})
    await world.delete("resourceslices", "node-1-gpus")
    await come_to(world, {"free": 4})


@in_world()
async def test_a_rule_taints_what_it_selects(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", 4))
    rule: JsonObject = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {"deviceSelector": {"device": "gpu-1"}, "taint": TAINTS[0]},
    }
    await world.create(rule)
    tainted = {'class="gpu.example.com"': 1.0}
    await world.until(lambda: _are_tainted(world, tainted))
    await world.delete("devicetaintrules", "rule")
    await world.until(lambda: _are_tainted(world, {}))
    assert devices(world) == {"free": 4}


async def _are_tainted(world: World, expected: dict[str, float]) -> bool:
    return figures(world, "dray_devices_tainted") == expected


@in_world()
async def test_pending_claims_are_counted_once_and_by_what_their_pods_wait_for(
    world: World,
) -> None:
    await world.create(device_class(), node("node-0"))
    await world.create(claim("shared"), pod("a", "shared"), pod("b", "shared"))
    await world.create(pod("early", "missing"), pod("earlier", template_name="missing"))
    await world.create(claim("classless", exactly(deviceClassName="none")), pod("c", "classless"))
    await world.create(
        claim("gated"), pod("g", "gated", schedulingGates=[{"name": "example.com/wait"}])
    )
    expected = {
        'reason="devices"': 1,
        'reason="claim"': 2,
        'reason="class"': 1,
        'reason="gates"': 1,
    }

    async def are_there() -> bool:
        return figures(world, "dray_claims_pending") == expected

    await world.until(are_there, f"not {figures(world, 'dray_claims_pending')}")
    for name in ("early", "earlier", "c", "g"):
        await world.remove_pod(name)
    await world.create(gpu_slice("node-0", 1))
    await world.bound("a")
    await world.bound("b")

    async def nothing_waits() -> bool:
        return not figures(world, "dray_claims_pending")

    await world.until(nothing_waits)


@in_world()
async def test_latency_and_queue_lengths_follow_the_pods(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", 2), template("gpu"))
    for number in range(3):
        await world.create(pod(f"p{number}", template_name="gpu"))

    async def one_waits() -> bool:
        return figures(world, "dray_scheduler_queue_pods") == {'state="waiting"': 1}

    await world.until(one_waits)
    text = world.registry.render()
    assert "dray_pod_scheduling_seconds_count 2" in text
    assert 'dray_scheduling_decision_seconds_count{result="placed"} 2' in text

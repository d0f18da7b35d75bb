"""The figures are right while pods and devices come and go."""

from __future__ import annotations

import re

from tests.unit.scheduler.world import (
    World,
    device_class,
    gpu_slice,
    in_world,
    node,
    pod,
    template,
)


def figures(world: World, name: str) -> dict[str, float]:
    """The values of a metric by its labels, without those that are zero."""
    found = re.findall(rf"^{name}{{(.*)}} (\S+)$", world.registry.render(), re.MULTILINE)
    return {labels: float(value) for labels, value in found if float(value)}


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

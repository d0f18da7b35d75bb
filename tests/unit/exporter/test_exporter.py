"""The exporter on a cluster in memory, with the rights that it has there and no others."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import re
from collections.abc import AsyncIterator, Mapping

import pytest

from dray import telemetry
from dray.api import features
from dray.api.features import Features
from dray.api.http_messages import Request, Response, User
from dray.api.ids import ObjectKey
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.apiserver.access import bootstrap_policy
from dray.client.api_client import Client, InProcessTransport
from dray.exporter import claim_figures, metric_table
from dray.exporter.exporter import Exporter
from dray.scheduling.decision import Decider, Decision
from dray.scheduling.steps import Steps
from tests.unit.scheduler.test_podgroups import GROUPS, group, member
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

USER = User(bootstrap_policy.EXPORTER, frozenset({"system:authenticated"}))
TAINTS = [{"key": "gpu.example.com/unhealthy", "effect": "NoSchedule"}]


class Followed:
    """A world and the exporter that follows it."""

    def __init__(self, world: World, gates: Features) -> None:
        self.world = world
        self.requests: list[Request] = []
        self.registry = telemetry.Registry()
        client = Client(InProcessTransport(self._send, USER))
        self.exporter = Exporter(client, self.registry, features=gates, now=world.clock)

    async def _send(self, request: Request, user: User) -> Response:
        self.requests.append(request)
        return await self.world.handle(request, user)

    async def figures(self, metric: metric_table.Metric) -> dict[str, float]:
        """Return the values of a metric by its labels, without those that are zero."""
        text = await self.registry.collected()
        found = re.findall(rf"^{metric.name}({{.*}})? (\S+)$", text, re.MULTILINE)
        values = {re.sub(r'[{}"]', "", labels): float(value) for labels, value in found}
        return {labels: value for labels, value in values.items() if value}

    async def until(self, metric: metric_table.Metric, expected: dict[str, float]) -> None:
        async def is_so() -> bool:
            return await self.figures(metric) == expected

        found = await self.figures(metric)
        await self.world.until(is_so, f"{metric.name} is {expected}, not {found}")


@contextlib.asynccontextmanager
async def followed(world: World, gates: Features = features.DEFAULT) -> AsyncIterator[Followed]:
    found = Followed(world, gates)
    running = asyncio.create_task(found.exporter.run())
    try:
        yield found
    finally:
        running.cancel()


@in_world()
async def test_it_begins_with_the_first_reader_and_only_reads(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", 2))
    async with followed(world) as found:
        await world.settle()
        assert found.requests == []
        devices = {"node=node-0,device_class=gpu.example.com,state=free": 2.0}
        assert await found.figures(metric_table.DEVICES) == devices
        assert {request.method for request in found.requests} == {"GET"}
        assert not any("/secrets" in request.path for request in found.requests)


@in_world()
async def test_devices_follow_slices_claims_classes_and_rules(world: World) -> None:
    large = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
    await world.create(device_class(), device_class("large", large), node("node-0"))
    listed = (gpu("a"), gpu("b", "10Gi"), gpu("c", taints=TAINTS))
    await world.create(gpu_slice("node-0", 0, *listed))
    async with followed(world) as found:
        free = {
            "device_class=gpu.example.com,state=free": 3.0,
            "device_class=large,state=free": 2.0,
        }
        await found.until(metric_table.CLASS_DEVICES, free)
        assert await found.figures(metric_table.DEVICES_TAINTED) == {"node=node-0": 1.0}
        assert await found.figures(metric_table.DEVICES_UNHEALTHY) == {"node=node-0": 1.0}
        assert await found.figures(metric_table.CLASS_STRANDED) == {
            "device_class=gpu.example.com": 1.0,
            "device_class=large": 1.0,
        }
        await world.create(claim("x"), pod("p", "x"))
        await world.bound("p")
        await world.delete("deviceclasses", "large")
        used = {
            "device_class=gpu.example.com,state=free": 2.0,
            "device_class=gpu.example.com,state=in_use": 1.0,
        }
        await found.until(metric_table.CLASS_DEVICES, used)
        await found.until(metric_table.CLASS_FITS, {"device_class=gpu.example.com,devices=1": 1.0})
        await world.create(_rule("b"))
        await found.until(metric_table.DEVICES_TAINTED, {"node=node-0": 2.0})
        await world.delete("resourceslices", "node-0-gpus")
        missing = {"device_class=_none,state=missing": 1.0}
        await found.until(metric_table.CLASS_DEVICES, missing)
        await found.until(metric_table.POOLS_GONE, {"driver=gpu.example.com": 1.0})


def _rule(device: str) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {
            "deviceSelector": {"device": device},
            "taint": {"key": "example.com/broken", "effect": "NoSchedule"},
        },
    }


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
    await world.create(claim("unused"), claim("other"), pod("o", "other", schedulerName="other"))
    async with followed(world) as found:
        expected = {
            "cause=devices": 2.0,
            "cause=claim": 2.0,
            "cause=class": 1.0,
            "cause=gates": 1.0,
            "cause=no_pod": 1.0,
        }
        await found.until(metric_table.CLAIMS_PENDING, expected)
        world.clock.advance(60)
        oldest = await found.figures(metric_table.CLAIMS_PENDING_OLDEST)
        assert set(oldest) == set(expected)
        # The server has the real time in whole seconds, the exporter the clock of the world.
        assert all(30 < age < 90 for age in oldest.values()), oldest
        for name in ("early", "earlier", "c", "g"):
            await world.remove_pod(name)
        await world.create(gpu_slice("node-0", 2))
        await world.bound("a")
        # The devices suffice for the pod of another scheduler, which does not run.
        left = {"cause=no_pod": 3.0, "cause=scheduler": 1.0}
        await found.until(metric_table.CLAIMS_PENDING, left)
        assert await found.figures(metric_table.CLAIMS) == {
            "state=allocated": 1.0,
            "state=pending": 4.0,
        }


@in_world()
async def test_one_decision_is_made_for_all_pods_of_a_template(world: World) -> None:
    await world.create(device_class(), node("node-0"), template("gpu"))
    for number in range(20):
        await world.create(pod(f"p{number}", template_name="gpu"))
        await world.refused(f"p{number}", "cannot allocate")
    decided: list[str] = []

    class CountingDecider(Decider):
        def steps_for(
            self, pod: Pod, now: datetime.datetime
        ) -> Steps[Mapping[ObjectKey, Decision]]:
            decided.append(pod.metadata.name)
            return super().steps_for(pod, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claim_figures, "Decider", CountingDecider)
        async with followed(world) as found:
            await found.until(metric_table.CLAIMS_PENDING, {"cause=devices": 20.0})
    assert len(decided) == 1


@in_world(features=GROUPS)
async def test_a_group_that_does_not_fit_is_a_cause_of_its_own(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", 2))
    await world.create(group("pg", 3), template("gpu"))
    for name in "abc":
        await world.create(member(name, template_name="gpu"))
    async with followed(world, GROUPS) as found:
        await found.until(metric_table.CLAIMS_PENDING, {"cause=group": 3.0})
        free = {"device_class=gpu.example.com,state=free": 2.0}
        await found.until(metric_table.CLASS_DEVICES, free)


@in_world()
async def test_the_time_until_claims_have_devices_is_measured(world: World) -> None:
    await world.create(device_class(), node("node-0"), template("gpu"))
    async with followed(world) as found:
        await found.registry.collected()
        await world.create(pod("p", template_name="gpu"))
        await found.until(metric_table.CLAIMS_PENDING, {"cause=devices": 1.0})
        world.clock.advance(100)
        await world.create(gpu_slice("node-0", 1))
        await world.bound("p")
        await found.until(metric_table.CLAIMS, {"state=allocated": 1.0})
        text = await found.registry.collected()
    assert 'dray_claim_allocation_seconds_bucket{le="60"} 0' in text
    assert 'dray_claim_allocation_seconds_bucket{le="300"} 1' in text


@in_world()
async def test_what_is_common_is_asked_for(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", 8))
    await world.create(*(claim(f"c{number}", exactly(count=3)) for number in range(2)))
    async with followed(world) as found:
        expected = {
            "device_class=gpu.example.com,devices=1": 8.0,
            "device_class=gpu.example.com,devices=3": 2.0,
        }
        await found.until(metric_table.CLASS_FITS, expected)


@in_world()
async def test_a_node_without_room_strands_its_devices(world: World) -> None:
    await world.create(device_class(), node("node-0", cpu="1"), gpu_slice("node-0", 2))
    async with followed(world) as found:
        await found.until(metric_table.CLASS_STRANDED, {})
        await world.create(pod("p", requests={"cpu": "1"}))
        await world.bound("p")
        await found.until(metric_table.CLASS_STRANDED, {"device_class=gpu.example.com": 2.0})


@in_world()
async def test_the_exporter_says_what_it_knows_and_since_when(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", 2))
    async with followed(world) as found:
        objects = await found.figures(metric_table.OBJECTS)
        assert objects["resource=nodes"] == objects["resource=resourceslices"] == 1
        before = await found.figures(metric_table.LAST_CONTACT)
        assert set(before) >= {"resource=pods", "resource=resourceclaims"}
        world.clock.advance(100)
        await world.create(node("node-1"))
        # Its status is written after it.
        await found.until(metric_table.CHANGES, {"resource=nodes": 2.0})
        after = await found.figures(metric_table.LAST_CONTACT)
        assert after["resource=nodes"] - before["resource=nodes"] >= 100
        (updated,) = (await found.figures(metric_table.LAST_UPDATE)).values()
        assert updated == world.clock.time.timestamp()


@in_world()
async def test_every_metric_of_the_table_is_there_and_no_other(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", 2))
    async with followed(world) as found:
        text = await found.registry.collected()
    shown = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert shown == {metric.name: metric.type for metric in metric_table.METRICS}
    for metric in metric_table.METRICS:
        assert f"# HELP {metric.name} {metric.help}\n" in text

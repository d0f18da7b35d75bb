"""Pods of mixed priorities come and go, and schedulers with them: nobody is evicted in vain.

A judge follows all pods and claims and judges every event. It knows how many GPUs a pod asks for,
so it can tell when more pods were evicted for one than it needs. That is also what happens when
something that was freed gets lost to another pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from dray import telemetry
from dray.api import errors, kinds
from dray.api import features as gates
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan
from dray.drivers.simulated import fleet as fleets
from dray.scheduler import scheduler
from tests import rounds
from tests.cluster.test_chaos import BadLine
from tests.cluster.world import World, claim_spec, pod, request, sound, template, with_plan

PREEMPTING = gates.with_gates(gates.DEFAULT, {"DrayPreemption": True})
DEEDS = 120
NODES, GPUS = 3, 8
SIZES = {"one": 1, "two": 2, "four": 4}
PRIORITIES = {"low": 10, "middle": 50, "high": 100, "top": 1000}
LATER = 1 << 62
IN_VAIN = "dray_scheduler_preemption_in_vain_total "


def size_of(body: JsonObject) -> int:
    return SIZES[body["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]]


def is_leaving(body: JsonObject) -> bool:
    return "deletionTimestamp" in body["metadata"]


def priority_of(body: JsonObject) -> int:
    return int(body["spec"]["priority"])


def is_protected(body: JsonObject) -> bool:
    return bool(body["metadata"].get("labels", {}).get("app") == "kept")


def preemptor_of(body: JsonObject) -> str:
    """The name of the pod for which another one is evicted."""
    for condition in body["status"].get("conditions", ()):
        if condition["type"] == "DisruptionTarget":
            return str(condition["message"].rsplit("default/", 1)[1])
    return ""


class Judge:
    """Follows all pods by name, which are never used twice."""

    def __init__(self, *, sees_decisions: bool) -> None:
        self._sees_decisions = sees_decisions
        """Whether writes follow decisions at once: others may have been made in between."""
        self._order = itertools.count()
        self._added: dict[str, int] = {}
        self._bound: dict[str, int] = {}
        self.pods: dict[str, JsonObject] = {}
        self.victims: dict[str, str] = {}
        """For each pod that is evicted, for which other one."""
        self.sizes: dict[tuple[str, int], list[int]] = defaultdict(list)
        """The GPUs of the victims for each nomination of a pod."""
        self.nominations: Counter[str] = Counter()
        self.had_others: dict[str, bool] = {}
        """Whether pods without a budget sufficed for a pod when it was nominated."""
        self.removed: set[str] = set()
        """The pods that users delete."""
        self.violations: list[str] = []

    def hear(self, type_: str, body: JsonObject) -> None:
        name = body["metadata"]["name"]
        before = self.pods.get(name)
        if type_ == "DELETED":
            self.pods.pop(name, None)
            return
        self.pods[name] = body
        self._added.setdefault(name, next(self._order))
        if body["spec"].get("nodeName"):
            self._bound.setdefault(name, next(self._order))
        if _nominated(body) != _nominated(before):
            self.nominations[name] += 1
            self.had_others[name] = self._has_unprotected(body, size_of(body))
            self._displace(body, _nominated(body))
        if before is not None and body["spec"].get("nodeName") != before["spec"].get("nodeName"):
            self._displace(body, body["spec"]["nodeName"])
        for_whom = preemptor_of(body)
        # A scheduler may have ended between the mark and the deletion, which then was a user's.
        is_evicted = for_whom and is_leaving(body) and name not in self.removed
        if is_evicted and name not in self.victims:
            self.victims[name] = for_whom
            self._evicted(body, for_whom)

    def _displace(self, body: JsonObject, node: str) -> None:
        """Less important pods begin anew where a more important one takes what was kept."""
        for name, other in self.pods.items():
            if node and _nominated(other) == node and priority_of(other) < priority_of(body):
                self.nominations[name] += 1

    def _evicted(self, victim: JsonObject, for_whom: str) -> None:
        name, preemptor = victim["metadata"]["name"], self.pods.get(for_whom)
        if preemptor is None:
            # Its deletion may be on the way at the same time.
            return
        if priority_of(preemptor) <= priority_of(victim):
            self._add(f"{name} is not less important than {for_whom}")
        # Pods that go together with one on that node may be anywhere.
        is_single = "schedulingGroup" not in victim["spec"]
        if is_single and _nominated(preemptor) != victim["spec"].get("nodeName"):
            self._add(f"{for_whom} is not nominated for the node of {name}")
        needed = size_of(preemptor)
        sizes = self.sizes[for_whom, self.nominations[for_whom]]
        sizes.append(size_of(victim))
        if not self._sees_decisions:
            return
        if sum(sizes) - min(sizes) >= needed:
            self._add(f"{for_whom} needs {needed} GPUs, and victims have {sizes}")
        has_others = self.had_others[for_whom] and self._has_unprotected(preemptor, needed)
        if is_protected(victim) and has_others:
            self._add(f"{name} is protected, and there were other victims for {for_whom}")

    def _has_unprotected(self, preemptor: JsonObject, needed: int) -> bool:
        """Whether pods without a budget would have sufficed where nobody else is nominated.

        Pods that were bound later than the other one was added may not have been seen in time.
        """
        room: Counter[str] = Counter()
        name = preemptor["metadata"]["name"]
        for other, body in self.pods.items():
            is_candidate = priority_of(body) < priority_of(preemptor) and not is_protected(body)
            is_staying = not (is_leaving(body) or preemptor_of(body))
            if is_candidate and is_staying and self._bound.get(other, LATER) < self._added[name]:
                room[body["spec"]["nodeName"]] += size_of(body)
        taken = {_nominated(body) for other, body in self.pods.items() if other != name}
        return any(count >= needed for node, count in room.items() if node not in taken)

    def _add(self, text: str) -> None:
        self.violations.append(text)


def _nominated(body: JsonObject | None) -> str:
    return str(body["status"].get("nominatedNodeName", "")) if body else ""


async def _judged(world: World, judge: Judge, following: asyncio.Event) -> None:
    version = (await world.client.list(kinds.POD)).resource_version
    following.set()
    async for event in world.client.watch(kinds.POD, resource_version=version):
        if event.type != "BOOKMARK":
            judge.hear(event.type, msgspec.json.decode(event.object))


class Schedulers:
    """One scheduler at a time, that can be killed at any moment and may lose writes."""

    def __init__(self, world: World, group: asyncio.TaskGroup, dice: random.Random) -> None:
        self._group = group
        self.line = BadLine(world.cluster, dice)
        self._registries: list[telemetry.Registry] = []
        self._task = self._started()

    def _started(self) -> asyncio.Task[None]:
        client = self.line.client(assembly.SCHEDULER)
        registry = telemetry.Registry()
        self._registries.append(registry)
        return self._group.create_task(
            scheduler.run(client, features=PREEMPTING, registry=registry)
        )

    def restart(self) -> None:
        self._task.cancel()
        self._task = self._started()

    def stop(self) -> None:
        self._task.cancel()

    def in_vain(self) -> float:
        lines = [line for each in self._registries for line in each.render().splitlines()]
        return sum(float(line.removeprefix(IN_VAIN)) for line in lines if line.startswith(IN_VAIN))


class Churn:
    """Random deeds from a seed."""

    def __init__(
        self, world: World, judge: Judge, schedulers: Schedulers, dice: random.Random
    ) -> None:
        self._world, self._judge = world, judge
        self._schedulers, self._dice = schedulers, dice
        self._made = 0

    async def run(self, deeds: int) -> None:
        choices: list[tuple[int, Callable[[], Awaitable[object]]]] = [
            (12, self._add), (4, self._remove), (1, self._restart),
        ]  # fmt: skip
        weights = [weight for weight, _ in choices]
        for _ in range(deeds):
            _, deed = self._dice.choices(choices, weights)[0]
            with contextlib.suppress(errors.StatusError):
                await deed()
            await asyncio.sleep(self._dice.choice((0, 0, 0.01, 0.05)))

    async def _add(self) -> None:
        self._made += 1
        # First the less important ones fill the nodes.
        names = list(PRIORITIES)[: 1 + min(self._made // 12, 3)]
        body = pod(f"x{self._made}", template=self._dice.choice(list(SIZES)))
        body["spec"]["priorityClassName"] = self._dice.choice(names)
        if self._dice.random() < 0.3:
            body["metadata"]["labels"] = {"app": "kept"}
        await self._world.create(body)

    async def _remove(self) -> None:
        found = await self._world.all(kinds.POD)
        if found:
            name = self._dice.choice(found)["metadata"]["name"]
            self._judge.removed.add(name)
            grace = {"gracePeriodSeconds": self._dice.choice((0, 30))}
            await self._world.client.delete(kinds.POD, name, "default", grace)

    async def _restart(self) -> None:
        self._schedulers.restart()


async def _prepare(world: World) -> None:
    for name, count in SIZES.items():
        await world.create(template(name, claim_spec(request(count=count))))
    for name, value in PRIORITIES.items():
        metadata = {"name": name}
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        await world.create({**body, "metadata": metadata})
    await world.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "kept"},
            "spec": {"minAvailable": 1000, "selector": {"matchLabels": {"app": "kept"}}},
        }
    )


async def _is_at_rest(world: World) -> bool:
    """Whether nobody leaves, and nobody waits for what less important pods have."""
    pods = await world.all(kinds.POD)
    if any(map(is_leaving, pods)):
        return False
    waiting = [body for body in pods if not body["spec"].get("nodeName")]
    return not any(_could_run(body, pods) for body in waiting)


def _could_run(waiting: JsonObject, pods: list[JsonObject]) -> bool:
    taken: Counter[str] = Counter()
    for body in pods:
        if priority_of(body) >= priority_of(waiting):
            taken[body["spec"].get("nodeName", "")] += size_of(body)
    return any(taken[f"h100-{node}"] + size_of(waiting) <= GPUS for node in range(NODES))


async def _delete_all(world: World, kind: Kind) -> None:
    for found in await world.all(kind):
        options = {"gracePeriodSeconds": 0}
        with contextlib.suppress(errors.NotFound):
            await world.client.delete(kind, found["metadata"]["name"], "default", options)


@pytest.mark.slow
@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(5, long=200))
def test_nobody_is_evicted_in_vain(seed: int, tmp_path: Path) -> None:
    async def churn(world: World) -> None:
        loses_writes = seed % 2 == 1
        judge, following = Judge(sees_decisions=not loses_writes), asyncio.Event()
        await _prepare(world)
        async with asyncio.TaskGroup() as group:
            judging = group.create_task(_judged(world, judge, following))
            await following.wait()
            schedulers = Schedulers(world, group, random.Random(seed))
            schedulers.line.is_bad = loses_writes
            await Churn(world, judge, schedulers, random.Random(seed)).run(DEEDS)
            schedulers.line.is_bad = False
            await world.until(lambda: _is_at_rest(world), "everybody running who can")
            await sound(world, PREEMPTING)
            in_vain = schedulers.in_vain()
            schedulers.stop()
            judging.cancel()
        assert judge.victims
        assert judge.violations == []
        # A pod whose binding got lost may have to begin anew.
        assert in_vain == 0 or loses_writes
        await _delete_all(world, kinds.POD)

    plan = ClusterPlan(schedules=False, fleet=fleets.load("h100", nodes=NODES))
    with_plan(churn, tmp_path, plan)

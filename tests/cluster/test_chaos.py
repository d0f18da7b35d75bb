"""Everything comes and goes at once: no device is ever held twice, and nothing is left over.

A round is a cluster and a stream of random deeds from a seed: pods, claims, slices, taints and
nodes come and go, components are cancelled, others write to the same claims, clocks jump, writes
are refused or get no answer. A watch of claims from the first revision to the last is judged at
every event.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import random
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

import msgspec
import pytest

from dray.api import errors, kinds
from dray.api.conversion import canonical
from dray.api.formats import gotime
from dray.api.http_messages import Request, Response, User
from dray.api.ids import GroupResource
from dray.api.kinds import Kind
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import JsonObject
from dray.apiserver.app import status_response
from dray.client.api_client import Client, InProcessTransport
from dray.client.lease import Timing
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan, RunningCluster
from dray.controllers import manager
from dray.drivers.simulated import fleet as fleets
from dray.scheduler import scheduler
from tests import rounds
from tests.cluster.world import CLASS, World, claim, claim_spec, pod, request, template, with_plan

DEEDS = 70

ANYTHING = GroupResource("", "anything")
LEASES = ("kube-node-lease", "kube-system")
TIMING = Timing(duration_seconds=1.0, deadline_seconds=0.6, retry_seconds=0.1)
NODES = 3
SIZES = {"one": 1, "two": 2}
ROOM = 20
"""So many of 24 GPUs can be asked for without two being needed where one is left."""

Holder = dict[str, str]
"""By device, the claim that holds it."""


class Judge:
    """Follows the claims and remembers who holds which device."""

    def __init__(self) -> None:
        self.holders: Holder = {}
        self.violations: list[str] = []
        self.last = 0

    def hear(self, type_: str, found: ResourceClaim) -> None:
        revision = int(found.metadata.resource_version)
        if revision <= self.last:
            self.violations.append(f"revision {revision} after {self.last}")
        self.last = revision
        for device, holder in list(self.holders.items()):
            if holder == found.metadata.uid:
                del self.holders[device]
        allocation = found.status.allocation
        if type_ == "DELETED" or allocation is None:
            return
        for result in allocation.devices.results:
            device = f"{result.driver}/{result.pool}/{result.device}"
            if device in self.holders:
                self.violations.append(f"{device} is held twice at {revision}")
            self.holders[device] = found.metadata.uid


async def _judged(world: World, judge: Judge, following: asyncio.Event) -> None:
    version = (await world.client.list(kinds.RESOURCE_CLAIM)).resource_version
    following.set()
    async for event in world.client.watch(kinds.RESOURCE_CLAIM, resource_version=version):
        document = msgspec.json.decode(event.object)
        if event.type != "BOOKMARK":
            found = msgspec.convert(canonical.prune_nulls(document), ResourceClaim)
            judge.hear(event.type, found)


class Chaos:
    """Random deeds. What others have undone already is no failure."""

    def __init__(self, world: World, components: Components, dice: random.Random) -> None:
        self._world, self._components, self._dice = world, components, dice
        self._made = 0
        self._deeds: list[Callable[[], Awaitable[object]]] = [
            self._add_pod,
            self._add_pod,
            self._add_pod,
            self._add_shared,
            self._remove_pod,
            self._remove_pod,
            self._remove_claim,
            self._taint,
            self._untaint,
            self._remove_slice,
            self._break_device,
            self._cordon,
            self._conflict,
            self._restart,
            self._restart,
            self._remove_node,
            self._jump,
            self._forge_lease,
        ]

    async def run(self, deeds: int) -> None:
        for _ in range(deeds):
            with contextlib.suppress(errors.StatusError):
                await self._dice.choice(self._deeds)()
            await asyncio.sleep(self._dice.choice((0, 0, 0, 0.02)))

    async def calm(self) -> None:
        """Mend whatever keeps a pod from running."""
        self._components.line.is_bad = False
        for rule in await self._world.all(kinds.DEVICE_TAINT_RULE):
            await self._world.client.delete(kinds.DEVICE_TAINT_RULE, rule["metadata"]["name"])
        for node in await self._world.all(kinds.NODE):
            change = {
                "spec": {"unschedulable": None},
                "metadata": {"annotations": {"dray.dev/failed-devices": None}},
            }
            await self._world.client.patch(kinds.NODE, node["metadata"]["name"], change)

    def _name(self) -> str:
        self._made += 1
        return f"x{self._made}"

    async def _add_pod(self) -> None:
        await self._world.create(pod(self._name(), template=self._dice.choice(("one", "two"))))

    async def _add_shared(self) -> None:
        name = self._name()
        await self._world.create(claim(name, claim_spec(request())))
        for _ in range(2):
            await self._world.create(pod(self._name(), claim=name))

    async def _remove_pod(self) -> None:
        found = await self._any(kinds.POD)
        if found:
            grace = {"gracePeriodSeconds": self._dice.choice((0, 30))}
            await self._world.client.delete(kinds.POD, found, "default", grace)

    async def _remove_claim(self) -> None:
        found = await self._any(kinds.RESOURCE_CLAIM)
        if found:
            await self._world.client.delete(kinds.RESOURCE_CLAIM, found, "default")

    async def _taint(self) -> None:
        effect = self._dice.choice(("NoSchedule", "NoExecute"))
        selector = {"driver": CLASS, "pool": f"h100-{self._dice.randrange(NODES)}"}
        if self._dice.random() < 0.8:
            selector["device"] = f"gpu-{self._dice.randrange(8)}"
        await self._world.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceTaintRule",
                "metadata": {"name": self._name()},
                "spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": effect}},
            }
        )

    async def _untaint(self) -> None:
        found = await self._any(kinds.DEVICE_TAINT_RULE)
        if found:
            await self._world.client.delete(kinds.DEVICE_TAINT_RULE, found)

    async def _remove_slice(self) -> None:
        """Its driver publishes it anew."""
        found = await self._any(kinds.RESOURCE_SLICE)
        if found:
            await self._world.client.delete(kinds.RESOURCE_SLICE, found)

    async def _break_device(self) -> None:
        node = f"h100-{self._dice.randrange(NODES)}"
        broken = self._dice.choice((None, f"gpu-{self._dice.randrange(8)}"))
        change = {"metadata": {"annotations": {"dray.dev/failed-devices": broken}}}
        await self._world.client.patch(kinds.NODE, node, change)

    async def _cordon(self) -> None:
        node = f"h100-{self._dice.randrange(NODES)}"
        change = {"spec": {"unschedulable": self._dice.choice((None, True))}}
        await self._world.client.patch(kinds.NODE, node, change)

    async def _conflict(self) -> None:
        """Somebody else writes to a claim while the scheduler does."""
        found = await self._any(kinds.RESOURCE_CLAIM)
        if found:
            change = {"metadata": {"annotations": {"other": str(self._dice.random())}}}
            await self._world.client.patch(kinds.RESOURCE_CLAIM, found, change, "default")

    async def _remove_node(self) -> None:
        """A machine goes and comes back as another node of the same name."""
        node = await self._world.get(kinds.NODE, f"h100-{self._dice.randrange(NODES)}")
        await self._world.client.delete(kinds.NODE, node["metadata"]["name"])
        await asyncio.sleep(self._dice.choice((0, 0.05)))
        kept = ("name", "labels", "annotations")
        metadata = {key: node["metadata"][key] for key in kept if key in node["metadata"]}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        await self._world.create({**body, "status": node["status"]})

    async def _restart(self) -> None:
        self._components.restart(self._dice.choice(self._components.names))

    async def _jump(self) -> None:
        """The clock by which components write into leases goes wrong, by up to a day."""
        self._components.clock.ahead = self._dice.uniform(-86400, 86400)

    async def _forge_lease(self) -> None:
        """A lease says that it was renewed at some other time."""
        namespace = self._dice.choice(LEASES)
        found = await self._world.all(kinds.LEASE, namespace=namespace)
        if found:
            ahead = datetime.timedelta(seconds=self._dice.uniform(-86400, 86400))
            when = gotime.write(datetime.datetime.now(datetime.UTC) + ahead, gotime.MICROSECONDS)
            name = self._dice.choice(found)["metadata"]["name"]
            await self._world.client.patch(
                kinds.LEASE, name, {"spec": {"renewTime": when}}, namespace
            )

    async def _any(self, kind: Kind) -> str:
        found = await self._world.all(kind)
        return str(self._dice.choice(found)["metadata"]["name"]) if found else ""


class Clock:
    """A wall clock that jumps."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.ahead)


class BadLine:
    """The way from components to the API server: some writes are refused, some answers lost."""

    def __init__(self, running: RunningCluster, dice: random.Random) -> None:
        self._handle, self._dice = running.opened.app.handle, dice
        self.is_bad = True

    def client(self, user: User) -> Client:
        return Client(InProcessTransport(self._answer, user))

    async def _answer(self, request: Request, user: User) -> Response:
        fate = self._dice.random() if self.is_bad and request.method != "GET" else 1.0
        if fate < 0.03:
            return status_response(errors.conflict(ANYTHING, "it", "somebody else was faster"))
        if fate < 0.05:
            return status_response(errors.service_unavailable("lost on the way there"))
        response = await self._handle(request, user)
        return status_response(errors.timeout("lost on the way back")) if fate < 0.07 else response


class Components:
    """A scheduler and two sets of controllers, of which one leads; each can be killed any time."""

    def __init__(
        self, running: RunningCluster, group: asyncio.TaskGroup, dice: random.Random
    ) -> None:
        self._group = group
        self.clock, self.line = Clock(), BadLine(running, dice)
        self._runs: dict[str, Callable[[], Coroutine[None, None, None]]] = {
            "scheduler": lambda: scheduler.run(self.line.client(assembly.SCHEDULER)),
            "controllers-a": lambda: self._controllers("a"),
            "controllers-b": lambda: self._controllers("b"),
        }
        self._tasks = {name: group.create_task(run()) for name, run in self._runs.items()}

    @property
    def names(self) -> list[str]:
        return list(self._runs)

    async def _controllers(self, identity: str) -> None:
        client = self.line.client(assembly.CONTROLLERS)
        election = manager.candidate(client, identity, now=self.clock, timing=TIMING)
        await manager.run_elected(election, lambda: manager.run(client, now=self.clock))

    def restart(self, name: str) -> None:
        self._tasks[name].cancel()
        self._tasks[name] = self._group.create_task(self._runs[name]())

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()


@pytest.mark.slow
@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(20, long=300))
def test_no_device_is_held_twice_and_nothing_leaks(seed: int, tmp_path: Path) -> None:
    async def chaos(world: World) -> None:
        judge, following = Judge(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            judging = group.create_task(_judged(world, judge, following))
            await following.wait()
            dice = random.Random(seed)
            components = Components(world.cluster, group, random.Random(seed))
            await _live(world, Chaos(world, components, dice))

            async def nothing_is_held() -> bool:
                return not judge.holders

            # The judge follows a watch and may be a moment behind.
            await world.until(nothing_is_held, "every device being free again")
            components.stop()
            judging.cancel()
        assert judge.violations == []

    plan = ClusterPlan(schedules=False, controls=False, fleet=fleets.load("h100", nodes=NODES))
    with_plan(chaos, tmp_path, plan)


async def _live(world: World, chaos: Chaos) -> None:
    for name, count in SIZES.items():
        await world.create(template(name, claim_spec(request(count=count))))
    await chaos.run(DEEDS)
    await chaos.calm()
    await _make_room(world)
    await world.until(lambda: _all_run(world), "every pod running that can")
    for found in await world.all(kinds.POD):
        await _delete(world, kinds.POD, found)
    for found in await world.all(kinds.RESOURCE_CLAIM):
        await _delete(world, kinds.RESOURCE_CLAIM, found)
    await world.until(lambda: _is_empty(world), "everything going")


async def _make_room(world: World) -> None:
    """Take away what can never run, and so many others that all the rest fits."""
    asked = 0
    claims = {each["metadata"]["name"] for each in await world.all(kinds.RESOURCE_CLAIM)}
    for found in await world.all(kinds.POD):
        (source,) = found["spec"]["resourceClaims"]
        name = source.get("resourceClaimName")
        size = SIZES.get(source.get("resourceClaimTemplateName", ""), 1)
        if (name and name not in claims) or asked + size > ROOM:
            await _delete(world, kinds.POD, found)
        else:
            asked += size


async def _delete(world: World, kind: Kind, found: JsonObject) -> None:
    options = {"gracePeriodSeconds": 0} if kind is kinds.POD else None
    with contextlib.suppress(errors.NotFound):
        await world.client.delete(kind, found["metadata"]["name"], "default", options)


async def _all_run(world: World) -> bool:
    pods = await world.all(kinds.POD)
    claims = {each["metadata"]["name"]: each for each in await world.all(kinds.RESOURCE_CLAIM)}
    return all(
        each["status"].get("phase") == "Running" or _lost_its_claim(each, claims) for each in pods
    )


def _lost_its_claim(waiting: JsonObject, claims: dict[str, JsonObject]) -> bool:
    """Whether the user's own claim is gone or going, so that the pod has to wait."""
    (source,) = waiting["spec"]["resourceClaims"]
    if "resourceClaimName" not in source:
        return False
    found = claims.get(source["resourceClaimName"])
    return found is None or "deletionTimestamp" in found["metadata"]


async def _is_empty(world: World) -> bool:
    return not await world.all(kinds.POD) and not await world.all(kinds.RESOURCE_CLAIM)

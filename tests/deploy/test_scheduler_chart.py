"""The Helm chart of the scheduler: its arguments, and rights that are all used and all needed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dray.api import errors, features, kinds
from dray.api.http_messages import Request, Response
from dray.api.types.meta import JsonObject
from dray.apiserver.server import Settings
from dray.cli.components import foreground
from dray.cli.components import scheduler as command
from dray.client import events
from dray.client.api_client import Client, Transport
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan, RunningCluster
from dray.drivers.simulated import fleet as fleets
from dray.scheduler import explanations
from dray.scheduler import scheduler as scheduling
from dray.store import memory
from tests import audit
from tests.audit import Right
from tests.cluster.world import CLASS, World, claim, claim_spec, pod, request
from tests.deploy import helm, installing
from tests.deploy.helm import NAMESPACE, RELEASE
from tests.unit.scheduler.test_podgroups import group

CHART = "dray-scheduler"
CLUSTER_ROLE = kinds.served("rbac.authorization.k8s.io", "ClusterRole")
ACCOUNT = installing.account(CHART)
NAME, NODES = "dray", {"scheduler": "dray"}
GATES = {"DrayPreemption": True, "GenericWorkload": True}
INSIDE: set[Right] = {("patch", "resource.k8s.io", "resourceclaims/binding")}
"""What the server asks for inside of a request, so that the audit log does not have it."""
EVERYTHING_ASKED = 8


class Disturbed:
    """The transport of the scheduler; a deed of somebody else comes before a request of it."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.before: dict[tuple[str, str], Callable[[], Awaitable[object]]] = {}
        self.lost: set[tuple[str, str]] = set()
        """Requests whose answer does not arrive, once."""

    async def send(self, request: Request) -> Response:
        key = request.method, request.path
        if deed := self.before.pop(key, None):
            await deed()
        answer = await self._inner.send(request)
        if key in self.lost:
            self.lost.remove(key)
            raise errors.service_unavailable("the answer was lost")
        return answer


def of_ours(body: JsonObject, **spec: Any) -> JsonObject:
    body["spec"] |= {"schedulerName": NAME, **spec}
    return body


@contextlib.asynccontextmanager
async def cluster(folder: Path, values: JsonObject, **settings: Any) -> AsyncIterator[World]:
    """A cluster with two nodes of the chart's scheduler, which does not run yet."""
    plan = ClusterPlan(Settings(**settings), schedules=False, fleet=fleets.load("h100", nodes=2))
    async with memory.open() as store, assembly.running(store, folder, plan) as made:
        world = World(made, made.client())
        await world.until(lambda: world.all(kinds.RESOURCE_SLICE), "the devices being published")
        for node in await world.all(kinds.NODE):
            labels = {"metadata": {"labels": NODES}}
            await world.client.patch(kinds.NODE, node["metadata"]["name"], labels)
        await installing.make_namespace(world.client)
        await installing.install(world.client, helm.documents(CHART, values))
        yield world


@contextlib.asynccontextmanager
async def running(made: RunningCluster, gates: str) -> AsyncIterator[Disturbed]:
    """The scheduler as the command runs it, with the chart's account, name, nodes and Lease."""
    disturbed: list[Disturbed] = []

    def wrap(inner: Transport) -> Transport:
        disturbed.append(Disturbed(inner))
        return disturbed[-1]

    client: Client = made.client(ACCOUNT).managed_by(scheduling.FIELD_MANAGER).wrapped(wrap)
    election = scheduling.candidate(client, "me", f"{RELEASE}-{CHART}", NAMESPACE)
    started = asyncio.Event()
    schedule = functools.partial(
        scheduling.run,
        election.as_leader(client),
        name=NAME,
        features=await command.allowed_features(client, "scheduler=dray", gates),
        node_selector="scheduler=dray",
        explainer=explanations.sampled,
        started=started,
    )
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(election.run(schedule))
        await started.wait()
        try:
            yield disturbed[0]
        finally:
            task.cancel()


async def work_without_gates(world: World, disturbed: Disturbed) -> None:
    """Pods that fit, that wait, that somebody deletes, whose claim somebody changes."""
    await world.create(claim("one", claim_spec(request())))
    change = {"metadata": {"labels": {"changed": "yes"}}}
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/one/status"
    disturbed.before["PATCH", path] = lambda: world.client.patch(
        kinds.RESOURCE_CLAIM, "one", change, "default"
    )
    disturbed.lost.add(("POST", "/api/v1/namespaces/default/pods/first/binding"))
    await world.create(of_ours(pod("first", claim="one")))
    await world.bound("first")
    await world.create(of_ours(pod("no-template", template="nosuch")))
    await world.unschedulable("no-template")
    for name in ("extended", "deleted"):
        limits = {f"deviceclass.resource.kubernetes.io/{CLASS}": "1"}
        container = {"name": "c", "image": "x", "resources": {"limits": limits}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
        disturbed.before["POST", "/api/v1/namespaces/default/pods/deleted/binding"] = lambda: (
            world.client.delete(kinds.POD, "deleted", "default", {"gracePeriodSeconds": 0})
        )
        await world.create(of_ours({**body, "spec": {"containers": [container]}}))
    await world.bound("extended")
    await wait_for_another_reason(world)


async def wait_for_another_reason(world: World) -> None:
    await world.create(claim("many", claim_spec(request(count=30))))
    await world.create(of_ours(pod("waits", claim="many")))
    before = await world.unschedulable("waits")
    (node, *_) = await world.all(kinds.NODE)
    cordon = {"spec": {"unschedulable": True}}
    await world.client.patch(kinds.NODE, node["metadata"]["name"], cordon)

    async def is_another() -> bool:
        return await world.unschedulable("waits") != before

    await world.until(is_another, "another reason")


async def work_with_gates(world: World, _disturbed: Disturbed) -> None:
    """A gang, and a pod that is preempted."""
    await world.create(group("pg", 1))
    await world.create(claim("of-gang", claim_spec(request())))
    await world.create(
        of_ours(pod("gang", claim="of-gang"), schedulingGroup={"podGroupName": "pg"})
    )
    await world.bound("gang")
    for name, value in (("low", 10), ("high", 100)):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        await world.create({**body, "metadata": {"name": name}})
    for name in ("low", "high"):
        await world.create(claim(name, claim_spec(request(count=EVERYTHING_ASKED))))
        await world.create(of_ours(pod(name, claim=name), priorityClassName=name))
    await world.bound("high")


@pytest.mark.parametrize("gates", [{}, GATES], ids=["default", "gates"])
def test_a_working_day_uses_every_right_and_is_refused_nothing(
    tmp_path: Path, gates: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "FIRST_UPDATE_SECONDS", 0.0)
    values: JsonObject = {"scheduler": {"featureGates": gates}}
    text = ",".join(
        f"{name}={on}".lower().replace(name.lower(), name) for name, on in gates.items()
    )
    log = tmp_path / "audit"

    async def day() -> None:
        server = {"features": features.parse(text), "audit_log": log}
        async with (
            cluster(tmp_path, values, **server) as world,
            running(world.cluster, text) as disturbed,
        ):
            await work_without_gates(world, disturbed)
            if gates:
                await work_with_gates(world, disturbed)
            await everything_is_used(world, values, log)

    asyncio.run(day())
    assert unused(values, log) == set()
    assert audit.refused(mine(log)) == set()


def mine(log: Path) -> list[audit.Asked]:
    return [each for each in audit.read(log) if each.user == ACCOUNT.name]


def unused(values: JsonObject, log: Path) -> set[Right]:
    granted = installing.rights(helm.documents(CHART, values))
    return granted - {each.right for each in mine(log)} - INSIDE


async def everything_is_used(world: World, values: JsonObject, log: Path) -> None:
    """Wait for the last writes, and give up where a right stays unused."""

    async def look() -> bool:
        return not unused(values, log)

    with contextlib.suppress(AssertionError):
        await world.until(look, "every right being used")


def test_the_right_to_bind_is_needed(tmp_path: Path) -> None:
    """The one that no audit log shows: without it the server refuses what would allocate."""
    log = tmp_path / "audit"

    async def day() -> None:
        async with cluster(tmp_path, {}, audit_log=log) as world:
            role = await world.get(CLUSTER_ROLE, f"{RELEASE}-{CHART}")
            for rule in role["rules"]:
                rule["resources"] = [each for each in rule["resources"] if "binding" not in each]
            role["rules"] = [rule for rule in role["rules"] if rule["resources"]]
            await world.client.replace(CLUSTER_ROLE, role)
            async with running(world.cluster, ""):
                await world.create(claim("one", claim_spec(request())))
                await world.create(of_ours(pod("first", claim="one")))
                assert "resourceclaims/binding" in await world.unschedulable("first")

    asyncio.run(day())


@pytest.mark.parametrize(
    "values",
    [{}, {"scheduler": {"policy": "pack", "featureGates": {"DRAListTypeAttributes": True}}}],
)
def test_the_command_takes_the_arguments_of_the_container(
    values: JsonObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[dict[str, Any]] = []

    def run(work: Any) -> None:
        work.close()
        called.append({})

    monkeypatch.setattr(foreground, "run", run)
    arguments = helm.container(helm.documents(CHART, values))["args"]
    given = [each.replace("$(POD_IP)", "::1") for each in arguments]
    done = CliRunner().invoke(command.scheduler, given)
    assert (done.exit_code, len(called)) == (0, 1), done.output

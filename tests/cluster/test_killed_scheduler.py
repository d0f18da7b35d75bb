"""A large fleet under churn, whose scheduler is killed every minute: nobody is evicted in vain.

The scheduler is a process of its own, with the rights that the API server gives it. Everything else
runs here, and the judges of the other tests of churn hear every event.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.api import features as gates
from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.apiserver import standalone
from dray.apiserver.access.certificates import Authority
from dray.apiserver.server import Settings
from dray.client import kubeconfig
from dray.cluster.assembly import ClusterPlan
from dray.drivers.simulated import fleet as fleets
from tests import rounds, waiting
from tests.cluster import test_chaos
from tests.cluster.test_preemption_churn import (
    GPUS,
    IN_VAIN,
    PRIORITIES,
    SIZES,
    Judge,
    _delete_all,
    _judged,
    _prepare,
    is_leaving,
    priority_of,
    size_of,
)
from tests.cluster.world import World, pod, sound, with_plan
from tests.unit.scheduler.test_podgroups import group

GATES = "DrayPreemption=true,DrayGangSearch=true,GenericWorkload=true"
FEATURES = gates.with_gates(
    gates.DEFAULT, {"DrayPreemption": True, "DrayGangSearch": True, "GenericWorkload": True}
)
USER = "system:kube-scheduler"
NODES, MINUTES, LIVES_SECONDS = 200, 30.0, 60.0
GANG = 4
REST_SECONDS = 300.0
"""In which everybody runs who can after the last change, also on a busy machine."""
_LISTENING = re.compile(rb"http://127\.0\.0\.1:\d+")


class SchedulerProcess:
    """The scheduler as a process that is killed, and what its metrics said last."""

    def __init__(self, config: Path, log: Path) -> None:
        self._config, self._log = config, log
        self._process: subprocess.Popen[bytes] | None = None
        self.kills = 0
        self.in_vain = self.victims = 0.0

    def start(self) -> None:
        command = [sys.executable, "-m", "dray", "scheduler", "--kubeconfig", str(self._config)]
        options = ["--feature-gates", GATES, "--no-leader-elect", "--metrics-listen", "127.0.0.1:0"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *options], stdout=log, stderr=subprocess.STDOUT
            )

    async def is_up(self) -> bool:
        """Whether it serves its metrics."""
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        return len(_LISTENING.findall(self._log.read_bytes())) > self.kills

    def kill(self) -> None:
        """kill -9, after a last look at the metrics."""
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        self._look()
        self._process.kill()
        self._process.wait(30)
        self.kills += 1

    def _look(self) -> None:
        found = [*_LISTENING.finditer(self._log.read_bytes())][-1]
        assert found, self._log.read_text()
        with urllib.request.urlopen(f"{found[0].decode()}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        self.in_vain += _figure(lines, IN_VAIN)
        self.victims += _figure(lines, "scheduler_preemption_victims_sum ")


def _figure(lines: list[str], name: str) -> float:
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


class Load:
    """Pods and gangs come and go, more than fit."""

    def __init__(self, world: World, judge: Judge, dice: random.Random, nodes: int) -> None:
        self._world, self._judge, self._dice = world, judge, dice
        self._most = 2 * nodes * GPUS // 3
        self._made = 0

    async def run(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            if len(self._judge.pods) > self._most or self._dice.random() < 0.35:
                await self._remove()
            elif self._dice.random() < 0.04:
                await self._add_gang()
            else:
                await self._add(self._body())
            await asyncio.sleep(self._dice.choice((0, 0.05, 0.1)))

    def _body(self, priority: str = "") -> JsonObject:
        self._made += 1
        body = pod(f"x{self._made}", template=self._dice.choice(list(SIZES)))
        names, weights = list(PRIORITIES), (8, 4, 2, 1)
        [drawn] = self._dice.choices(names, weights)
        body["spec"]["priorityClassName"] = priority or drawn
        body["spec"]["terminationGracePeriodSeconds"] = self._dice.choice((0, 1, 3))
        if self._dice.random() < 0.3:
            body["metadata"]["labels"] = {"app": "kept"}
        return body

    async def _add(self, body: JsonObject) -> None:
        await self._world.create(body)

    async def _add_gang(self) -> None:
        priority = self._dice.choice(list(PRIORITIES))
        name = f"g{self._made}"
        mode: JsonObject = {"all": {}} if self._dice.random() < 0.5 else {"single": {}}
        await self._world.create(group(name, GANG, priorityClassName=priority, disruptionMode=mode))
        for _ in range(GANG):
            body = self._body(priority)
            body["spec"]["schedulingGroup"] = {"podGroupName": name}
            await self._add(body)

    async def _remove(self) -> None:
        names = list(self._judge.pods)
        if names:
            name = self._dice.choice(names)
            self._judge.removed.add(name)
            with contextlib.suppress(Exception):
                await self._world.client.delete(kinds.POD, name, "default")


@contextlib.asynccontextmanager
async def served(world: World, folder: Path) -> AsyncIterator[Path]:
    """Serve the API over HTTPS; yields the kubeconfig of the scheduler."""
    authority = Authority.load_or_create(folder)
    pair = authority.server_pair(("127.0.0.1",))
    server = world.cluster.opened.server
    async with server.listening("127.0.0.1", 0, pair, authority.certificate) as url:
        config = folder / "scheduler.kubeconfig"
        kubeconfig.write(config, standalone.connection(folder, url, USER))
        yield config


def churn(folder: Path, *, nodes: int, seconds: float, lives: float, seed: int) -> None:
    async def story(world: World) -> None:
        judge, claims = Judge(sees_decisions=False), test_chaos.Judge()
        following, heard = asyncio.Event(), asyncio.Event()
        await _prepare(world)
        async with served(world, folder) as config, asyncio.TaskGroup() as tasks:
            judging = [
                tasks.create_task(_judged(world, judge, following)),
                tasks.create_task(test_chaos._judged(world, claims, heard)),
            ]
            await following.wait()
            process = SchedulerProcess(config, folder / "scheduler.log")
            process.start()
            await world.until(process.is_up, "the scheduler starting")
            load = tasks.create_task(Load(world, judge, random.Random(seed), nodes).run(seconds))
            while not load.done():
                await asyncio.wait([load], timeout=lives)
                process.kill()
                process.start()
                await world.until(process.is_up, "the scheduler starting")
            await waiting.until_answered(
                lambda: _is_at_rest(world, nodes), "everybody running who can", seconds=REST_SECONDS
            )
            await sound(world, FEATURES)
            process.kill()
            for task in judging:
                task.cancel()
        print(f"{process.kills} kills, {process.victims:.0f} planned victims,", end=" ")
        print(f"{len(judge.victims)} evicted, {process.in_vain:.0f} in vain")
        assert judge.victims
        assert (judge.violations, claims.violations) == ([], [])
        assert process.in_vain == 0
        await _delete_all(world, kinds.POD)

    plan = ClusterPlan(
        schedules=False,
        fleet=fleets.load("h100", nodes=nodes),
        settings=Settings(features=FEATURES),
    )
    with_plan(story, folder, plan)


async def _is_at_rest(world: World, nodes: int) -> bool:
    """Whether nobody leaves, and nobody waits for what less important pods have."""
    pods = await world.all(kinds.POD)
    if any(map(is_leaving, pods)):
        return False
    waiting = [body for body in pods if not body["spec"].get("nodeName")]
    alone = [body for body in waiting if "schedulingGroup" not in body["spec"]]
    return not any(_could_run(body, pods, nodes) for body in alone)


def _could_run(waiting: JsonObject, pods: list[JsonObject], nodes: int) -> bool:
    taken: dict[str, int] = {}
    for body in pods:
        if priority_of(body) >= priority_of(waiting):
            node = body["spec"].get("nodeName", "")
            taken[node] = taken.get(node, 0) + size_of(body)
    names = (f"h100-{number}" for number in range(nodes))
    return any(taken.get(name, 0) + size_of(waiting) <= GPUS for name in names)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nobody_is_evicted_in_vain_while_schedulers_are_killed(tmp_path: Path) -> None:
    churn(tmp_path, nodes=NODES, seconds=60 * MINUTES, lives=LIVES_SECONDS, seed=rounds.seed_of(0))

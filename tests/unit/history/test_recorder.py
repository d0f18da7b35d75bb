"""The recorder on a real API server in virtual time: live, after a restart, and after a gap."""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dray.api import features
from dray.api.ids import DeviceId
from dray.api.types.meta import JsonObject
from dray.clock import utc_now
from dray.history.facts import Change, Progress
from dray.history.history_file import HistoryFile, HistoryUnusable
from dray.history.periods import HeldPeriod
from dray.history.recorder import OtherCluster, Recorder
from tests import rounds
from tests.unit.history.followed import Server, history_of, recorded, settle
from tests.unit.scheduler.world import (
    DRIVER,
    Clock,
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
    world,
)

HOUR = 3600.0


def gpu_of(name: str, node_name: str = "n1") -> DeviceId:
    return DeviceId(DRIVER, node_name, name)


async def begin(world: World, *devices: JsonObject) -> None:
    await world.create(device_class(), node("n1"), gpu_slice("n1", 4, *devices))


async def end_pod(world: World, name: str) -> None:
    await world.delete("pods", name)
    await world.remove_pod(name)


def held(world: World, path: Path, **which: Any) -> list[HeldPeriod]:
    with history_of(world, path) as history:
        return history.periods(**which)


def in_recorded_world(test: Any) -> Any:
    """Run an async test with a world and a path, in virtual time."""

    def run(tmp_path: Path) -> None:
        async def on(here: World) -> None:
            here.clock.time = here.clock.time.replace(microsecond=0)
            await test(here, tmp_path / "history.db")

        in_world(clock=None)(on)()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@in_recorded_world
async def test_it_records_who_holds_what_with_the_rights_that_it_has(
    world: World, path: Path
) -> None:
    await begin(world)
    await world.create(template("gpu"))
    server = Server(world)
    async with recorded(world, path, server):
        begun = world.clock.time
        made = pod("train", template_name="gpu")
        made["metadata"]["annotations"] = {"dray.dev/user": "ann"}
        await world.create(made)
        await world.bound("train")
        await settle(world, 60)
        await end_pod(world, "train")
        await settle(world, 60)
    assert server.methods == {"GET"}
    (period,) = held(world, path)
    assert period.device.pool == period.node == "n1"
    assert period.claim.startswith("default/train-gpu-")
    assert (period.pods, period.user) == (("default/train",), "ann")
    assert (period.since, period.until) == (begun, begun + datetime.timedelta(seconds=60))
    assert not period.until_is_about
    with history_of(world, path) as history:
        assert history.at(begun - datetime.timedelta(seconds=1)).holders == {}
        holders = history.at(begun + datetime.timedelta(seconds=30)).holders
        assert [(holder.claim, holder.pods) for holder in holders[period.device]] == [
            (period.claim, ("default/train",))
        ]
        assert history.span().gaps == ()


@in_recorded_world
async def test_shares_partitions_and_admin_access(world: World, path: Path) -> None:
    shared = gpu("shared", allowMultipleAllocations=True)
    await begin(world, shared, gpu("whole"))
    async with recorded(world, path):
        for name in ("a", "b"):
            await world.create(claim(name))
            results = [
                {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "shared"},
                {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "shared"},
            ]
            uids = [f"0000000{number}-0000-0000-0000-00000000000{name}" for number in range(2)]
            shares = [{**each, "shareID": uid} for each, uid in zip(results, uids, strict=True)]
            await world.set_status(
                "resourceclaims", name, {"allocation": {"devices": {"results": shares}}}
            )
        allowed = {"resource.kubernetes.io/admin-access": "true"}
        await world.patch("namespaces", "default", {"metadata": {"labels": allowed}})
        await world.create(claim("admin", exactly(adminAccess=True)))
        watched = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "whole"}
        allocation = {"devices": {"results": [{**watched, "adminAccess": True}]}}
        await world.set_status("resourceclaims", "admin", {"allocation": allocation})
        await settle(world, 10)
        now = world.clock.time
        await world.set_status("resourceclaims", "a", {"allocation": None})
        await settle(world, 10)
    with history_of(world, path) as history:
        before, after = (history.at(now + datetime.timedelta(seconds=sign)) for sign in (-5, 5))
        assert set(before.holders) == set(after.holders) == {gpu_of("shared")}
        names = [
            [each.claim for each in moment.holders[gpu_of("shared")]] for moment in (before, after)
        ]
        assert names == [["default/a", "default/b"], ["default/b"]]
        assert len(history.periods(device=gpu_of("shared"))) == 2


@in_recorded_world
async def test_taints_rules_and_a_device_that_goes(world: World, path: Path) -> None:
    key = f"{DRIVER}/unhealthy"
    await begin(world, gpu("a"), gpu("b"))
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {
            "deviceSelector": {"device": "b"},
            "taint": {"key": "example.com/hot", "effect": "NoSchedule"},
        },
    }
    async with recorded(world, path):
        start = world.clock.time
        devices = [gpu("a", taints=[{"key": key, "effect": "NoExecute"}]), gpu("b")]
        await world.patch("resourceslices", "n1-gpus", {"spec": {"devices": devices}})
        await world.create(rule)
        await settle(world, 60)
        devices = [gpu("a", taints=[{"key": key, "effect": "None"}]), gpu("b")]
        await world.patch("resourceslices", "n1-gpus", {"spec": {"devices": devices}})
        await settle(world, 60)
        await world.delete("resourceslices", "n1-gpus")
        await settle(world, 60)
        await world.create(gpu_slice("n1", 0, gpu("a")))
        await settle(world, 60)
    minute = datetime.timedelta(minutes=1)
    with history_of(world, path) as history:
        moments = [history.at(start + minute * number + minute / 2) for number in range(4)]
        a, b = gpu_of("a"), gpu_of("b")
        assert [each.tainted for each in moments] == [{a, b}, {b}, set(), set()]
        assert [each.unhealthy for each in moments] == [{a}, {a}, set(), set()]
        (mark,) = history.marks(b)
        assert (mark.key, mark.until) == ("example.com/hot", start + 2 * minute)


@in_recorded_world
async def test_pods_wait_until_they_are_bound_or_gone(world: World, path: Path) -> None:
    await begin(world, gpu("a"))
    await world.create(claim("x"), claim("y"), claim("z"))
    async with recorded(world, path):
        await world.create(pod("p", "x"))
        await world.bound("p")
        await world.create(pod("q", "y"), pod("r", "z"))
        await world.refused("q")
        await world.refused("r")
        await settle(world, 60)
        noticed = world.clock.time
        await world.delete("pods", "r")
        await world.remove_pod("r")
        await settle(world, 60)
        await end_pod(world, "p")
        await world.bound("q")
        await settle(world, 60)
    with history_of(world, path) as history:
        waits = {each.pod: each for each in history.waits()}
        assert set(waits) == {"default/q", "default/r"}
        assert waits["default/r"].until == noticed
        assert waits["default/q"].until == noticed + datetime.timedelta(seconds=60)
        assert "cannot allocate all claims" in waits["default/q"].reason
        (*_, last) = history.usage(noticed, noticed + datetime.timedelta(seconds=60), 1)
        assert (last.device_class, last.total, last.held, last.waiting) == (DRIVER, 1, 1, 1)


@in_recorded_world
async def test_a_claim_goes_from_pod_to_pod(world: World, path: Path) -> None:
    await begin(world, gpu("a"))
    await world.create(claim("x"))
    async with recorded(world, path):
        await world.create(pod("p", "x"), pod("q", "x"))
        await world.bound("p")
        await world.bound("q")
        await settle(world, 60)
        both = world.clock.time - datetime.timedelta(seconds=30)
        await end_pod(world, "p")
        await settle(world, 60)
        one = world.clock.time - datetime.timedelta(seconds=30)
    (period,) = held(world, path, claim="default/x")
    assert period.pods == ("default/p", "default/q")
    with history_of(world, path) as history:
        for time, pods in ((both, {"default/p", "default/q"}), (one, {"default/q"})):
            (holder,) = history.at(time).holders[gpu_of("a")]
            assert set(holder.pods) == pods


@in_recorded_world
async def test_what_happened_meanwhile_is_learned_from_revisions(world: World, path: Path) -> None:
    await begin(world, gpu("a"))
    await world.create(claim("x"), claim("y"), pod("p", "x"))
    await world.bound("p")
    async with recorded(world, path):
        await settle(world)
        stopped = world.clock.time
    await world.set_status("pods", "p", {"phase": "Succeeded"})
    await end_pod(world, "p")
    await world.create(pod("q", "y"))
    await world.bound("q")
    # The times of objects are of the machine's clock: this one is far ahead of it.
    world.clock.time = max(utc_now(), stopped) + datetime.timedelta(hours=1)
    async with recorded(world, path):
        pass
    first, second = held(world, path)
    assert (first.claim, second.claim) == ("default/x", "default/y")
    assert first.until is not None
    assert stopped <= first.until <= second.since <= stopped + datetime.timedelta(minutes=5)
    with history_of(world, path) as history:
        assert history.span().gaps == ()
        assert history.at(stopped + datetime.timedelta(minutes=30)).is_known


@in_recorded_world
async def test_an_hour_that_the_server_has_forgotten_is_a_gap(world: World, path: Path) -> None:
    await begin(world, gpu("a"), gpu("b"), gpu("c"))
    await world.create(claim("stays"), claim("goes"), claim("comes"))
    await world.create(pod("p", "stays"), pod("q", "goes"))
    await world.bound("p")
    await world.bound("q")
    async with recorded(world, path):
        stopped = world.clock.time
    await end_pod(world, "q")
    await world.create(pod("r", "comes"))
    await world.bound("r")
    world.clock.advance(HOUR)
    server = Server(world)
    server.forgets = True
    resumed = world.clock.time
    async with recorded(world, path, server):
        pass
    by_claim = {each.claim: each for each in held(world, path)}
    goes, stays = by_claim["default/goes"], by_claim["default/stays"]
    assert (goes.until, goes.until_is_about) == (stopped, True)
    assert stays.until is None
    # When it began is in the claim itself.
    assert stopped <= by_claim["default/comes"].since <= resumed
    with history_of(world, path) as history:
        ((since, until),) = history.span().gaps
        assert (since, until) == (stopped, resumed)
        moment = history.at(stopped + datetime.timedelta(minutes=30))
        assert not moment.is_known
        claims = {holder.claim for holders in moment.holders.values() for holder in holders}
        assert "default/stays" in claims
        assert "default/goes" not in claims


@in_recorded_world
async def test_a_watch_that_expires_is_a_gap_and_not_an_end(world: World, path: Path) -> None:
    await begin(world, gpu("a"))
    await world.create(claim("x"))
    server = Server(world)
    async with recorded(world, path, server):
        server.breaks = True
        await asyncio.sleep(60)
        await world.create(pod("p", "x"))
        await world.bound("p")
        server.forgets, server.breaks = True, False
        await settle(world)
        await settle(world)
        assert [each.claim for each in held(world, path)] == ["default/x"]


@in_recorded_world
async def test_another_cluster_is_refused_or_followed(world: World, path: Path) -> None:
    await begin(world, gpu("a"))
    await world.create(claim("x"), pod("p", "x"))
    await world.bound("p")
    async with recorded(world, path):
        pass
    async with another_world(world.clock) as other:
        with HistoryFile.open(path) as file:
            recorder = Recorder(
                Server(other).client, file, features=features.DEFAULT, now=other.clock
            )
            with pytest.raises(OtherCluster, match="history of another cluster"):
                await recorder.check()
            with pytest.raises(OtherCluster):
                await recorder.run()
        world.clock.advance(HOUR)
        async with recorded(other, path, follows_new_clusters=True):
            pass
        (period,) = held(world, path)
        assert period.until_is_about
        with history_of(world, path) as history:
            assert len(history.span().gaps) == 1


def another_world(clock: Clock) -> Any:
    return world(clock=clock)


@in_recorded_world
async def test_a_clock_that_is_set_back_loses_no_change(world: World, path: Path) -> None:
    await begin(world, gpu("a"))
    await world.create(claim("x"), claim("y"))
    async with recorded(world, path):
        await world.create(pod("p", "x"))
        await world.bound("p")
        await settle(world, -0.5)
        await end_pod(world, "p")
        await settle(world, -HOUR)
        await world.create(pod("q", "y"))
        await world.bound("q")
        await settle(world, 60)
    first, second = sorted(held(world, path), key=lambda each: each.claim)
    assert first.until is not None
    assert first.until >= first.since
    assert second.until is None
    assert second.since < first.since
    with history_of(world, path) as history:
        assert history.at(second.since + datetime.timedelta(seconds=30)).is_known


@in_recorded_world
async def test_a_disk_that_is_full_for_a_while(world: World, path: Path) -> None:
    await begin(world, gpu("a"))
    await world.create(claim("x"), claim("y"))
    with HistoryFile.open(path) as file:
        full = FullNowAndThen(file)
        recorder = Recorder(
            Server(world).client,
            full,  # type: ignore[arg-type]
            features=features.DEFAULT,
            now=world.clock,
        )
        running = asyncio.create_task(recorder.run())
        await recorder.is_recording.wait()
        await world.create(pod("p", "x"))
        await world.bound("p")
        await settle(world, 60)
        full.is_full = True
        await end_pod(world, "p")
        await settle(world, 60)
        assert not recorder.is_recording.is_set()
        with history_of(world, path) as history:
            assert [each.until for each in history.periods()] == [None]
        await world.create(pod("q", "y"))
        await world.bound("q")
        full.is_full = False
        await settle(world, 60)
        await settle(world)
        assert recorder.is_recording.is_set()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    first, second = held(world, path)
    assert first.until is not None
    assert second.until is None
    assert first.until <= second.since


class FullNowAndThen:
    """A file on a disk that may be full."""

    def __init__(self, file: HistoryFile) -> None:
        self._file = file
        self.is_full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def commit(self, *arguments: Any) -> None:
        if self.is_full:
            raise HistoryUnusable("database or disk is full")
        self._file.commit(*arguments)


class Counting:
    """A file that counts the changes that it is given."""

    def __init__(self, file: HistoryFile, written: list[int]) -> None:
        self._file, self._written = file, written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def commit(self, changes: Sequence[Change], progress: Progress) -> None:
        self._written.append(len(changes))
        self._file.commit(changes, progress)


@in_recorded_world
async def test_at_the_start_only_what_is_held_is_written(world: World, path: Path) -> None:
    many = [gpu(f"gpu-{number}") for number in range(100)]
    await world.create(device_class(), node("n1"), gpu_slice("n1", 0, *many))
    await world.create(claim("x"), pod("p", "x"))
    await world.bound("p")
    written: list[int] = []
    with HistoryFile.open(path) as file:
        counting = Counting(file, written)
        recorder = Recorder(
            Server(world).client,
            counting,  # type: ignore[arg-type]
            features=features.DEFAULT,
            now=world.clock,
        )
        running = asyncio.create_task(recorder.run())
        await recorder.is_recording.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    # Held, used, and the number of devices of the class.
    assert sum(written) == 3


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(3, long=60))
def test_200_past_moments_are_as_they_were(tmp_path: Path, seed: int) -> None:
    """Compare the record with the state that the API server had at each minute."""

    async def scenario(here: World) -> None:
        chance = random.Random(seed)
        path = tmp_path / "history.db"
        await here.create(device_class(), node("n1"), node("n2"))
        await here.create(gpu_slice("n1", 4), gpu_slice("n2", 3), template("gpu"))
        states: dict[datetime.datetime, dict[str, set[tuple[str, ...]]]] = {}
        number, alive = 0, list[str]()
        while len(states) < 200:
            async with recorded(here, path):
                for _ in range(chance.randrange(5, 60)):
                    for _ in range(chance.randrange(4)):
                        if alive and chance.random() < 0.45:
                            await end_pod(here, alive.pop(chance.randrange(len(alive))))
                        else:
                            number += 1
                            alive.append(f"pod-{number}")
                            await here.create(pod(alive[-1], template_name="gpu"))
                    await settle(here, 60)
                    states[here.clock.time - datetime.timedelta(seconds=30)] = await held_now(here)
        with history_of(here, path) as history:
            for time in chance.sample(sorted(states), 200):
                moment = history.at(time)
                found = {
                    str(device): {(holder.claim, *holder.pods) for holder in holders}
                    for device, holders in moment.holders.items()
                }
                assert moment.is_known
                assert found == states[time]

    in_world()(scenario)()


async def held_now(world: World) -> dict[str, set[tuple[str, ...]]]:
    found: dict[str, set[tuple[str, ...]]] = {}
    for each in await world.all("resourceclaims"):
        status = each.get("status", {})
        users = [f"default/{user['name']}" for user in status.get("reservedFor", ())]
        for result in (status.get("allocation") or {}).get("devices", {}).get("results", ()):
            device = f"{result['driver']}/{result['pool']}/{result['device']}"
            found.setdefault(device, set()).add((f"default/{each['metadata']['name']}", *users))
    return found

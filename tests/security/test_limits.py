"""Limits of containers, against the kernel: memory, CPU time, processes, and what is left behind.

They run wherever this process may make control groups, of version 1 or 2. A small launcher joins
the groups as the shim does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from dray.api.types.meta import JsonObject, ObjectMeta
from dray.api.types.pods import Pod, PodSpec
from dray.node.containers import oom_kills
from dray.node.limits import groups
from dray.node.limits.groups import ContainerLimits, LimitedContainer
from dray.node.runtimes.interface import ContainerConfigError, ResourceLimits
from tests import rounds
from tests.cluster.site import Site, container, needs_sandbox, with_node
from tests.cluster.site import pod as pod_of
from tests.waiting import block_until

MI: Final = 2**20
NO_LIMITS: Final = ResourceLimits()

LAUNCHER: Final = """
import json, os, resource, sys
cgroups, rlimits, uid = json.loads(sys.argv[1])
for folder in cgroups:
    with open(folder + "/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
if uid:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
for name, value in rlimits.items():
    resource.setrlimit(getattr(resource, name), (value, value))
script, sys.argv[:] = sys.argv[2], ["-c", *sys.argv[3:]]
exec(script, {})
"""
ALLOCATE: Final = """
import sys
held = []
for _ in range(int(sys.argv[1])):
    held.append(bytearray(b"x") * 2**20)
print(len(held))
"""
HOLD: Final = "import time; sys.stdout.flush(); time.sleep(1000)"
SPIN: Final = """
import sys, time
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    pass
print(time.process_time())
"""
FORK: Final = """
import os, sys, time
made = 0
for _ in range(int(sys.argv[1])):
    try:
        child = os.fork()
    except OSError:
        continue
    if not child:
        time.sleep(1000)
    made += 1
print(made, flush=True)
time.sleep(1000)
"""
BOMB: Final = """
import os
print("started", flush=True)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
"""


def pod(uid: str = "0b9d4a46-1", **spec: Any) -> Pod:
    body = {"containers": [{"name": "main"}], **spec}
    return Pod(metadata=ObjectMeta(name="p", uid=uid), spec=msgspec.convert(body, PodSpec))


def launch(limited: LimitedContainer, script: str, *arguments: object, uid: int = 0) -> Any:
    applied = json.dumps([limited.cgroups, limited.rlimits, uid])
    argv = [sys.executable, "-I", "-S", "-c", LAUNCHER, applied, script, *map(str, arguments)]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def ran(
    limited: LimitedContainer, script: str, *arguments: object, uid: int = 0
) -> tuple[int, str]:
    with launch(limited, script, *arguments, uid=uid) as process:
        printed, errors = process.communicate(timeout=120)
        return process.returncode, printed or errors


def members(limited: LimitedContainer) -> set[int]:
    found = set()
    for folder in limited.cgroups:
        with contextlib.suppress(OSError):
            found |= set(map(int, (Path(folder) / "cgroup.procs").read_text("ascii").split()))
    return found


def exist(limited: LimitedContainer) -> list[str]:
    return [folder for folder in limited.cgroups if Path(folder).exists()]


def remove_all(limits: ContainerLimits) -> None:
    async def remove() -> None:
        for uid in limits.pods():
            await limits.remove_pod(uid)

    asyncio.run(remove())


def _opened(folder: Path) -> ContainerLimits:
    """Return the limits of an agent; skips the test where it has no control groups."""
    opened = groups.open_limits(folder)
    if opened.hierarchy is None:
        pytest.skip(f"only root, or who has a group of their own, limits: {opened.reason}")
    return opened


@pytest.fixture
def limits(tmp_path: Path) -> Iterator[ContainerLimits]:
    """The limits of an agent whose directory is the test's."""
    opened = _opened(tmp_path)
    yield opened
    remove_all(opened)
    assert not opened.pods()


def test_memory_beyond_the_limit_is_the_end_and_counted(limits: ContainerLimits) -> None:
    hundred = ResourceLimits(memory_bytes=100 * MI)
    below = limits.prepare(pod(), "main", 0, hundred)
    assert ran(below, ALLOCATE, 60) == (0, "60\n")
    assert oom_kills.count(below.cgroups) == 0
    beyond = limits.prepare(pod(), "main", 1, hundred)
    code, printed = ran(beyond, ALLOCATE, 120)
    assert (code, printed) == (-signal.SIGKILL, "")
    # With cgroup v2 the kernel kills the whole group, and counts each process.
    assert oom_kills.count(beyond.cgroups) >= 1


def test_memory_of_a_pod_is_limited_as_a_whole(limits: ContainerLimits) -> None:
    whole = pod(resources={"limits": {"memory": "100Mi"}})
    held = limits.prepare(whole, "first", 0, NO_LIMITS)
    with launch(held, ALLOCATE + HOLD, 60) as first:
        assert first.stdout.readline() == "60\n"
        second = limits.prepare(whole, "second", 0, NO_LIMITS)
        ended, _ = ran(second, ALLOCATE, 80)
        first.kill()
    assert ended == -signal.SIGKILL or oom_kills.count(held.cgroups), "140 MiB fit into 100 MiB"
    assert oom_kills.count(held.cgroups) + oom_kills.count(second.cgroups) >= 1


def test_cpu_time_is_what_the_limit_says(limits: ContainerLimits) -> None:
    limited = limits.prepare(pod(), "main", 0, ResourceLimits(cpus=0.2))
    seconds = rounds.count(6, long=20)
    code, used = ran(limited, SPIN, seconds)
    assert code == 0
    assert float(used) == pytest.approx(0.2 * seconds, rel=0.15)


def test_ten_thousand_forks_stop_and_the_rest_goes_on(
    tmp_path: Path, limits: ContainerLimits
) -> None:
    few = ContainerLimits(limits.state, limits.hierarchy, pod_max_pids=200)
    attacked = few.prepare(pod("attacker"), "main", 0, NO_LIMITS)
    with launch(attacked, FORK, 10_000) as attacker:
        made = int(attacker.stdout.readline())
        assert 100 < made < 200
        other = few.prepare(pod("other"), "main", 0, NO_LIMITS)
        assert ran(other, FORK.replace("time.sleep(1000)", "os._exit(0)"), 50) == (0, "50\n")
        same = few.prepare(pod("attacker"), "second", 0, NO_LIMITS)
        assert ran(same, FORK.replace("time.sleep(1000)", "os._exit(0)"), 5) == (0, "0\n")
        asyncio.run(few.remove_pod("attacker"))
        assert attacker.wait(30) == -signal.SIGKILL
    assert not exist(attacked)


def test_removal_ends_a_fork_bomb(limits: ContainerLimits) -> None:
    few = ContainerLimits(limits.state, limits.hierarchy, pod_max_pids=100)
    limited = few.prepare(pod(), "main", 0, NO_LIMITS)
    with launch(limited, BOMB) as bomb:
        assert bomb.stdout.readline() == "started\n"
        block_until(lambda: len(members(limited)) > 90, "the bomb filling its group")
        asyncio.run(few.remove_container(pod().metadata.uid, "main", 0))
        bomb.wait(30)
    assert not exist(limited)


def test_the_next_agent_removes_what_is_left_and_no_other(
    tmp_path: Path, limits: ContainerLimits
) -> None:
    neighbour = groups.open_limits(tmp_path / "neighbour")
    kept = limits.prepare(pod("kept"), "main", 0, NO_LIMITS)
    lost = limits.prepare(pod("lost"), "main", 0, NO_LIMITS)
    foreign = neighbour.prepare(pod("lost"), "main", 0, NO_LIMITS)
    try:
        with launch(lost, "import time; print(1, flush=True); time.sleep(1000)") as process:
            process.stdout.readline()
            following = groups.open_limits(limits.state)
            assert following.pods() == {"kept", "lost"}
            asyncio.run(following.remove_pod("lost"))
            assert process.wait(30) == -signal.SIGKILL
        assert exist(kept)
        assert not exist(lost)
        assert exist(foreign)
    finally:
        remove_all(neighbour)


def test_a_group_shows_what_the_limits_ask(limits: ContainerLimits) -> None:
    asked = ResourceLimits(cpus=0.5, cpu_request=0.25, memory_bytes=64 * MI, pids=33)
    limited = limits.prepare(pod(), "main", 0, asked)
    written = {
        file.name: file.read_text("ascii").strip()
        for folder in limited.cgroups
        for file in Path(folder).iterdir()
        if file.name.startswith(("cpu.max", "cpu.cfs", "memory.max", "memory.limit", "pids.max"))
        and os.access(file, os.R_OK)
    }
    assert written["pids.max"] == "33"
    assert str(64 * MI) in (written.get("memory.max"), written.get("memory.limit_in_bytes"))
    assert "50000" in written.get("cpu.max", written.get("cpu.cfs_quota_us", "")).split()


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../../x", "/x", "a\n", "a\0b", "-a"])
def test_names_do_not_leave_the_group_of_the_agent(limits: ContainerLimits, name: str) -> None:
    with pytest.raises(ContainerConfigError, match="cannot name a control group"):
        limits.prepare(pod(name or " "), "main", 0, NO_LIMITS)
    with pytest.raises(ContainerConfigError, match="cannot name a control group"):
        limits.prepare(pod(), name or " ", 0, NO_LIMITS)


ORDINARY: Final = 64321
"""A user without processes of their own."""


def ordinary() -> int:
    """A user to whom rlimits apply: root is exempt from the one of processes."""
    return ORDINARY if os.getuid() == 0 else 0


def test_without_groups_rlimits_stop_forks(tmp_path: Path) -> None:
    fallback = ContainerLimits(tmp_path, None, "none for this test", pod_max_pids=100)
    limited = fallback.prepare(pod(), "main", 0, NO_LIMITS)
    assert limited.warning == ""
    with launch(limited, FORK, 10_000, uid=ordinary()) as attacker:
        made = int(attacker.stdout.readline())
        os.killpg(attacker.pid, signal.SIGKILL)
    assert made < 10_000
    assert made <= limited.rlimits["RLIMIT_NPROC"]


def test_without_groups_a_process_cannot_take_all_memory(tmp_path: Path) -> None:
    fallback = ContainerLimits(tmp_path, None, "none for this test")
    asked = ResourceLimits(cpus=1.0, memory_bytes=100 * MI)
    limited = fallback.prepare(pod(), "main", 0, asked)
    assert ran(limited, ALLOCATE, 60) == (0, "60\n")
    code, said = ran(limited, "bytearray(2000 * 2**20)")
    assert code == 1
    assert "MemoryError" in said
    for told in ("container main", "cpu is not limited", "memory", "none for this test", "as root"):
        assert told in limited.warning


def limited(script: str, name: str = "main", **limits: str) -> JsonObject:
    return container(script, name, resources={"limits": limits})


@needs_sandbox
def test_a_container_that_takes_too_much_memory_is_reported_as_killed() -> None:
    _opened(Path("/"))

    async def story(here: Site) -> None:
        # It waits for the end of a line that has none, and keeps all of it.
        taking = "exec tail /dev/zero"
        await here.world.create(pod_of("p", limited(taking, memory="100Mi"), restartPolicy="Never"))
        found = await here.world.pod_phase("p", "Failed")
        (status,) = found["status"]["containerStatuses"]
        terminated = status["state"]["terminated"]
        assert (terminated["reason"], terminated["exitCode"]) == ("OOMKilled", 137)

    with_node(story)


@needs_sandbox
def test_a_fork_bomb_stops_nothing_but_its_own_pod() -> None:
    async def story(here: Site) -> None:
        bomb = "b() { b | b & b; }; echo started; b; b; exec sleep 1000"
        await here.world.create(pod_of("other", container("exec sleep 1000")))
        await here.world.pod_phase("other", "Running")
        await here.world.create(pod_of("bomb", container(bomb)))
        await here.output("bomb", until="fork")
        outcome, printed, _ = await here.execute("other", "echo", "still here")
        assert (outcome.code, printed) == (0, b"still here\n")
        await here.delete("bomb")
        await here.gone("bomb")

    with_node(story, pod_max_pids=100)


@needs_sandbox
def test_limits_that_nothing_enforces_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_hierarchy", lambda: (None, "none for this test"))

    async def story(here: Site) -> None:
        await here.world.create(pod_of("p", limited("exec sleep 1000", cpu="100m", memory="1Gi")))
        await here.world.pod_phase("p", "Running")
        note = await here.event("cpu is not limited")
        assert "none for this test" in note
        assert "run the node as root" in note

    with_node(story)


@needs_sandbox
def test_programs_that_are_executed_in_a_container_count_as_its_own() -> None:
    _opened(Path("/"))

    async def story(here: Site) -> None:
        await here.world.create(pod_of("p", limited("exec sleep 1000", memory="100Mi")))
        await here.world.pod_phase("p", "Running")
        outcome, _, _ = await here.execute("p", "tail", "/dev/zero")
        assert outcome.code == 137

    with_node(story)


AS_ORDINARY: Final = """
import codecs, os, sys
from dray.node.limits import groups
codecs.lookup("ascii")  # Loaded now: the ordinary user may not see where Python is installed.
uid = int(sys.argv[1])
if uid:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
print(*groups._hierarchy())
"""


def test_an_ordinary_user_without_a_group_learns_why() -> None:
    if os.getuid() != 0 and groups._hierarchy()[0] is not None:
        pytest.skip("needs root, or a user without a group of their own")
    argv = [sys.executable, "-c", AS_ORDINARY, str(ordinary())]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.startswith("None cgroup v2: ")
    assert any(why in said for why in ("cannot be written to", "delegated", "is not mounted"))

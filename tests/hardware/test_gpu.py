"""A real GPU: claimed whole, cut on demand, seen by those who claimed it only, given back clean.

Run on a machine with a GPU that nobody uses, as root:

    python -m pytest tests/hardware -m hardware -s
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import msgspec
import pytest

from dray.api import kinds
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import JsonObject
from dray.driverkit.prepared_claims import PreparedClaims
from dray.drivers.nvidia import driver as drivers
from dray.drivers.nvidia import partitions
from dray.drivers.nvidia.config import Mps
from dray.drivers.nvidia.driver import NvidiaDriver, Options
from dray.drivers.nvidia.hardware import Gpu, InUse
from dray.drivers.nvidia.host import Host
from dray.drivers.nvidia.inventory import Settings
from dray.drivers.nvidia.nvml import Nvml
from dray.drivers.nvidia.partition_state import GpuState
from dray.drivers.nvidia.sharing import SharingRequest, SharingState
from dray.node.runtimes import sandbox
from tests.hardware import programs
from tests.nvidia import site
from tests.nvidia.site import GPU_CLASS, MIG_CLASS, NODE, Site, claim_template, pod, profile, shell

RUNS = 20
COLD_RUNS = 10
FORTY = f'device.capacity["{GPU_CLASS}"].memory.compareTo(quantity("40Gi")) >= 0'

needs_sandbox = pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")


def make_driver(folder: Path) -> NvidiaDriver:
    return drivers.find(folder, Options(Settings(NODE)))


def smallest(library: Nvml, gpu: Gpu) -> partitions.Cut:
    return partitions.in_order(library.profiles(gpu.uuid))[0]


def profile_names(library: Nvml, gpu: Gpu) -> dict[int, str]:
    """The plain profile of each number of compute slices."""
    plain = [each for each in library.profiles(gpu.uuid) if "+" not in each.name]
    by_memory = sorted(plain, key=lambda each: -each.memory_mebibytes)
    return {each.compute_slices: each.name for each in by_memory}


def test_what_there_is(library: Nvml, gpu: Gpu, report: list[str], tmp_path: Path) -> None:
    host = Host()
    made = make_driver(tmp_path)
    report += [
        f"{gpu}",
        f"{library.versions()}",
        f"MIG mode {library.is_partitioned(gpu.uuid)}, instances {library.instances(gpu.uuid)}",
        f"condition {library.condition(gpu.uuid)}, processes {library.processes(gpu.uuid)}",
        f"next fault {library.next_fault(0)}",
        f"nodes {host.common_nodes()}, {sorted(os.listdir('/dev'))}",
        f"libraries {[str(each) for each in host.libraries]}",
        f"programs {[str(program) for program in host.programs]}",
        f"devices {[device.name for device in made.devices()]}",
    ]
    assert gpu.uuid.startswith("GPU-")
    assert any(path.name == "libcuda.so.1" for path in host.libraries)
    assert host.program("nvidia-smi") is not None
    assert gpu.uuid in subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout


@needs_sandbox
def test_a_pod_computes_on_the_gpu_it_claimed_and_others_see_none(gpu: Gpu) -> None:
    async def story(here: Site) -> None:
        await here.world.create(claim_template("t", GPU_CLASS, FORTY))
        await here.world.create(shell("list", "nvidia-smi -L", "t"))
        listed = await here.finished("list")
        assert listed.splitlines() == [f"GPU 0: {gpu.name} (UUID: {gpu.uuid})"]
        await here.remove("list")
        script = f"{sys.executable} -c '{programs.COMPUTE}'; exec sleep 600"
        await here.world.create(shell("compute", script, "t", **programs.needs()))
        assert f"sum {programs.SUM} 1\n" in await here.written("compute", "memory")
        assert await here.told("compute") == gpu.uuid
        script = "ls /dev | grep -c nvidia; nvidia-smi -L; echo done"
        await here.world.create(shell("free", script))
        seen = await here.finished("free")
        assert seen.splitlines()[0] == "0"
        assert "UUID" not in seen

    site.with_site(story, make_driver)


@needs_sandbox
def test_three_partitions_at_once_and_a_whole_gpu_that_waits(library: Nvml, gpu: Gpu) -> None:
    async def story(here: Site) -> None:
        names = profile_names(library, gpu)
        wanted = {"one": names[1], "other": names[1], "three": names[3]}
        for name, wish in wanted.items():
            await here.world.create(claim_template(name, MIG_CLASS, profile(wish)))
            script = f"nvidia-smi -L; {sys.executable} -c '{programs.COMPUTE}'; exec sleep 600"
            await here.world.create(shell(name, script, name, **programs.needs()))
        uuids = {name: await here.told(name) for name in wanted}
        assert len(set(uuids.values())) == 3
        for name, uuid in uuids.items():
            log = await here.written(name, "memory")
            assert uuid in log
            assert log.count("UUID: MIG-") == 1
            assert f"sum {programs.SUM} 1\n" in log
        await at_their_places(here, library, gpu, wanted)
        await here.world.create(claim_template("whole"))
        await here.world.create(shell("whole", "nvidia-smi -L", "whole"))
        print("a whole GPU waits:", await here.world.unschedulable("whole"))
        await here.remove(*wanted)
        assert gpu.uuid in await here.finished("whole")
        await here.remove("whole")
        await clean(here, library, gpu)

    before = library.is_partitioned(gpu.uuid)
    site.with_site(story, make_driver)
    assert library.is_partitioned(gpu.uuid) == before


async def at_their_places(here: Site, library: Nvml, gpu: Gpu, pods: dict[str, str]) -> None:
    made = {
        compute.uuid: instance.placement.start
        for instance in library.instances(gpu.uuid)
        for compute in library.compute_instances(gpu.uuid, instance.id)
    }
    for name in pods:
        assert (await here.device_of(name)).endswith(f"-{made[await here.told(name)]}")


async def clean(here: Site, library: Nvml, gpu: Gpu) -> None:
    async def is_clean() -> bool:
        return not library.instances(gpu.uuid)

    await here.world.until(is_clean, "every partition being gone")


def test_a_killed_driver_leaves_nothing_behind(
    library: Nvml, gpu: Gpu, tmp_path: Path, report: list[str]
) -> None:
    before = library.is_partitioned(gpu.uuid), library.instances(gpu.uuid)
    ran = subprocess.run([sys.executable, "-m", "tests.hardware.dying", str(tmp_path)])
    assert ran.returncode == -signal.SIGKILL
    assert len(library.instances(gpu.uuid)) == len(before[1]) + 1
    started = time.perf_counter()
    GpuState(library, tmp_path).reconcile()
    report.append(f"after kill -9: clean in {(time.perf_counter() - started) * 1e3:.1f} ms")
    assert (library.is_partitioned(gpu.uuid), library.instances(gpu.uuid)) == before


def test_a_gpu_in_use_is_not_cut(library: Nvml, gpu: Gpu, tmp_path: Path) -> None:
    holding = f"{programs.FIRST_CALL}\ntime.sleep(600)"
    user = subprocess.Popen([sys.executable, "-c", holding], stdout=subprocess.PIPE)
    try:
        assert user.stdout is not None
        assert user.stdout.readline().startswith(b"first-call")
        state = GpuState(library, tmp_path)
        with pytest.raises(InUse, match=f"used by process {user.pid}") as refused:
            state.hold_partition("a", gpu.uuid, smallest(library, gpu))
        print("refused:", refused.value)
    finally:
        user.kill()
        user.wait()
        assert user.stdout is not None
        user.stdout.close()
    assert not library.is_partitioned(gpu.uuid)


def make_shared(folder: Path) -> NvidiaDriver:
    return drivers.find(folder, Options(Settings(NODE, shares_memory=True)))


def shared_template(name: str, memory: str, strategy: str, **more: object) -> JsonObject:
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "GpuConfig",
        "sharing": {"strategy": strategy, **more},
    }
    config = [{"opaque": {"driver": GPU_CLASS, "parameters": parameters}}]
    made = claim_template(name, config=config)
    (request,) = made["spec"]["spec"]["devices"]["requests"]
    request["exactly"]["capacity"] = {"requests": {"memory": memory}}
    return made


def test_a_service_limits_the_memory_of_programs(library: Nvml, gpu: Gpu, tmp_path: Path) -> None:
    state = SharingState(library, Host(), tmp_path)
    edits = state.arrange(SharingRequest("a", gpu.uuid, gpu.uuid, Mps(), 20 * 1024, is_shared=True))
    try:
        assert library.is_exclusive(gpu.uuid)
        env = {**os.environ, **edits.env, "CUDA_MPS_PIPE_DIRECTORY": edits.mounts[0].host_path}
        program = programs.python(programs.ALLOCATE)
        users = [
            subprocess.Popen(program, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)
        ]
        said = [user.communicate(timeout=30)[0] for user in users]
        print("programs of a service:", said)
        assert all("4 GiB 0" in each and "40 GiB 2" in each for each in said)
    finally:
        for path in sorted(tmp_path.glob("mps/*/log/*.log")):
            print(path.name, path.read_text("utf-8", "replace")[-2000:])
        state.release("a")
    assert not library.is_exclusive(gpu.uuid)


@needs_sandbox
def test_two_pods_share_a_gpu_through_a_service_that_limits_their_memory(
    library: Nvml, gpu: Gpu
) -> None:
    async def story(here: Site) -> None:
        await here.world.create(shared_template("t", "20Gi", "MPS"))
        program = programs.python(programs.ALLOCATE + "\ntime.sleep(60)")
        for name in ("a", "b"):
            await here.world.create(pod(name, program, "t", **programs.needs()))
        try:
            for name in ("a", "b"):
                await here.written(name, "40 GiB")
        finally:
            for path in sorted(here.folder.glob("plugins/*/mps/*/log/*.log")):
                print(path.name, path.read_text("utf-8", "replace")[-2000:])
        for name in ("a", "b"):
            said = await here.log(name)
            print(name, said)
            assert "4 GiB 0" in said
            assert "40 GiB 2" in said
        assert library.is_exclusive(gpu.uuid)
        await here.remove("a", "b")

        async def is_over() -> bool:
            return not library.is_exclusive(gpu.uuid)

        await here.world.until(is_over, "the service being ended")

    site.with_site(story, make_shared)


@needs_sandbox
def test_turns_are_set_and_taken_back(gpu: Gpu) -> None:
    async def story(here: Site) -> None:
        long = {"timeSlicingConfig": {"interval": "Long"}}
        await here.world.create(shared_template("t", "20Gi", "TimeSlicing", **long))
        await here.world.create(shell("p", "nvidia-smi -L; exec sleep 600", "t"))
        await here.written("p", gpu.uuid)
        print("turns:", turns())
        assert "Long" in turns()
        await here.remove("p")

        async def is_over() -> bool:
            return "Default" in turns()

        await here.world.until(is_over, "the turns being as before")

    site.with_site(story, make_shared)


def turns() -> str:
    asked = ["nvidia-smi", "compute-policy", "--list"]
    return subprocess.run(asked, capture_output=True, text=True).stdout


def claim(uid: str, device: str) -> ResourceClaim:
    result = {"request": "gpu", "driver": GPU_CLASS, "pool": NODE, "device": device}
    metadata = {"name": f"claim-{uid}", "namespace": "default", "uid": uid}
    status = {"allocation": {"devices": {"results": [result]}}}
    return msgspec.convert({"metadata": metadata, "status": status}, ResourceClaim)


@pytest.mark.parametrize("kind", ["gpu", "partition", "partition-beside-another"])
def test_how_long_preparing_takes(
    library: Nvml, gpu: Gpu, tmp_path: Path, report: list[str], kind: str
) -> None:
    timed_calls = TimedLibrary(library.library)
    driver = NvidiaDriver(
        Nvml(cast(ModuleType, timed_calls)), tmp_path / "driver", Options(Settings(NODE))
    )
    claims = PreparedClaims(driver, tmp_path / "driver", tmp_path / "cdi")
    cuts = [each.name for each in driver.devices() if each.name.startswith(f"gpu-{gpu.minor}-mig-")]
    device = f"gpu-{gpu.minor}" if kind == "gpu" else cuts[0]

    async def measure() -> tuple[list[float], list[float]]:
        prepared, unprepared = [], []
        if kind == "partition-beside-another":
            await claims.prepare(claim("other", cuts[1]))
        for number in range(RUNS):
            prepared.append(await timed(claims.prepare(claim(str(number), device))))
            unprepared.append(await timed(claims.unprepare(str(number))))
        await claims.unprepare("other")
        return prepared, unprepared

    timed_calls.seconds.clear()
    prepared, unprepared = asyncio.run(measure())
    report.append(f"prepare {kind} ({device}): {summary(prepared)}")
    report.append(f"unprepare {kind} ({device}): {summary(unprepared)}")
    report.extend(timed_calls.longest())


class TimedLibrary:
    """NVML, with how long each of its functions takes."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.seconds: dict[str, list[float]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._library, name)
        if not name.startswith("nvml") or not callable(found):
            return found

        def call(*given: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return found(*given, **named)
            finally:
                self.seconds.setdefault(name, []).append(time.perf_counter() - started)

        return call

    def longest(self) -> list[str]:
        ordered = sorted(self.seconds.items(), key=lambda each: -sum(each[1]))
        return [
            f"    {name}: {len(each)} calls, {sum(each) * 1e3:.1f} ms in all, p50 "
            f"{statistics.median(each) * 1e3:.2f} ms"
            for name, each in ordered[:8]
        ]


async def timed(work: Awaitable[object]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


def summary(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return (
        f"p50 {statistics.median(ordered) * 1e3:.1f} ms, least {ordered[0] * 1e3:.1f} ms, "
        f"most {ordered[-1] * 1e3:.1f} ms of {len(ordered)}"
    )


@needs_sandbox
@pytest.mark.parametrize("kind", ["gpu", "partition"])
def test_how_long_it_is_from_a_claim_to_the_first_cuda_call(
    library: Nvml, gpu: Gpu, report: list[str], kind: str
) -> None:
    called: list[float] = []
    allocated: list[float] = []
    selectors = [profile(profile_names(library, gpu)[1])] if kind == "partition" else []
    device_class = MIG_CLASS if kind == "partition" else GPU_CLASS

    async def story(here: Site) -> None:
        await here.world.create(claim_template("t", device_class, *selectors))
        for number in range(COLD_RUNS):
            name = f"p{number}"
            started = time.time()
            body = pod(name, programs.python(programs.FIRST_CALL), "t", **programs.needs())
            await here.world.create(body)
            _, first, memory, count = (await here.finished(name)).split()
            assert count == "1"
            called.append(float(first) - started)
            allocated.append(float(memory) - started)
            await here.remove(name)
            await no_claims(here)

    site.with_site(story, make_driver)
    report.append(f"{kind}: pod and claim created to cuInit done: {summary(called)}")
    report.append(f"{kind}: pod and claim created to memory allocated: {summary(allocated)}")


async def no_claims(here: Site) -> None:
    async def are_gone() -> bool:
        return not await here.world.all(kinds.RESOURCE_CLAIM)

    await here.world.until(are_gone, "the claims being gone")

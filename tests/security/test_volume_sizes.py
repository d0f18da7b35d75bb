"""Sizes of emptyDir volumes: on disk by eviction, in memory by the kernel."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import msgspec
import pytest

from dray.api.types.pods import Pod
from dray.api.types.volumes import EmptyDirVolumeSource
from dray.node.pods import volume_usage
from dray.node.runtimes.interface import ContainerConfigError
from dray.node.specs import memory_volumes
from tests import waiting
from tests.cluster.site import Site, container, needs_sandbox, pod, with_node

WRITE = "dd if=/dev/zero of=/v/file bs=1048576 count=3 2>&1; stat -f -c %T /v; exec sleep 1000"
MOUNT = [{"name": "v", "mountPath": "/v"}]
HIDDEN = "mkdir /v/a && dd if=/dev/zero of=/v/a/f bs=1048576 count=3 && chmod 0 /v/a; sleep 1000"
DEEP = (
    "cd /v; i=0; while [ $i -lt 3000 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done;"
    "dd if=/dev/zero of=f bs=1048576 count=3; ln -s / link; exec sleep 1000"
)


@needs_sandbox
@pytest.mark.parametrize("script", [WRITE, HIDDEN, DEEP], ids=["plain", "hidden", "deep"])
def test_a_pod_that_fills_a_volume_is_evicted(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(volume_usage, "PERIOD_SECONDS", 0.05)

    async def story(here: Site) -> None:
        small = [{"name": "v", "emptyDir": {"sizeLimit": "2Mi"}}]
        await here.world.create(pod("p", container(script, volumeMounts=MOUNT), volumes=small))
        found = await here.world.pod_phase("p", "Failed")
        assert found["status"]["reason"] == "Evicted"
        text = 'Usage of EmptyDir volume "v" exceeds the limit "2Mi".'
        assert found["status"]["message"].startswith(text)

    with_node(story)


@needs_sandbox
def test_a_pod_below_its_limit_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_usage, "PERIOD_SECONDS", 0.01)

    async def story(here: Site) -> None:
        large = [{"name": "v", "emptyDir": {"sizeLimit": "100Mi"}}]
        script = WRITE.replace("exec sleep 1000", "sleep 1; exit 0")
        created = pod("p", container(script, volumeMounts=MOUNT), volumes=large)
        await here.world.create({**created, "spec": {**created["spec"], "restartPolicy": "Never"}})
        await here.world.pod_phase("p", "Succeeded")

    with_node(story)


@needs_sandbox
@pytest.mark.skipif(os.getuid() != 0, reason="needs root: a file system in memory")
def test_a_volume_in_memory_has_the_size_of_its_limit() -> None:
    async def story(here: Site) -> None:
        memory = [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "2Mi"}}]
        await here.world.create(pod("p", container(WRITE, volumeMounts=MOUNT), volumes=memory))
        printed = await here.output("p", until="tmpfs\n")
        assert "No space left" in printed

    with_node(story)


def test_a_medium_that_cannot_be_had_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ContainerConfigError, match="HugePages is not supported"):
        memory_volumes.mount(tmp_path, EmptyDirVolumeSource(medium="HugePages"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ContainerConfigError, match="needs a node agent that runs as root"):
        memory_volumes.mount(tmp_path, EmptyDirVolumeSource(medium="Memory"))


def test_volumes_that_take_long_to_count_leave_threads_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, may_end = threading.Event(), threading.Event()

    def slow(_folder: Path) -> int:
        counting.set()
        may_end.wait()
        return 0

    monkeypatch.setattr(volume_usage, "PERIOD_SECONDS", 0.0)
    monkeypatch.setattr(volume_usage, "_size", slow)
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
    limited = msgspec.convert({"spec": {"volumes": volumes}}, Pod)

    async def run() -> None:
        pods = [
            asyncio.create_task(volume_usage.until_exceeded(limited, tmp_path)) for _ in range(64)
        ]
        await waiting.until(counting.is_set, "the first count")
        try:
            async with asyncio.timeout(waiting.DEADLINE_SECONDS):
                assert await asyncio.to_thread(lambda: True)
        finally:
            may_end.set()
            for task in pods:
                task.cancel()
            await asyncio.wait(pods)

    asyncio.run(run())

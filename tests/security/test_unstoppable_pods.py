"""Hooks and probes that no agent can run: the pod must end all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.node.containers.container_attempts import ContainerAttempt
from dray.node.pods.container_lifecycle import ContainerLifecycle
from tests.cluster.site import Site, container, needs_sandbox, pod, with_node

pytestmark = needs_sandbox

SECONDS = 20

BAD_ACTIONS: dict[str, dict[str, Any]] = {
    "a line end in a header": {
        "httpGet": {"port": 1, "httpHeaders": [{"name": "A", "value": "b\nc"}]}
    },
    "a host that is no name": {"tcpSocket": {"port": 1, "host": "a..b"}},
    "a NUL in an argument": {"exec": {"command": ["/bin/true", "a\0b"]}},
}


@pytest.mark.parametrize("action", BAD_ACTIONS.values(), ids=BAD_ACTIONS)
def test_a_hook_that_cannot_be_run_does_not_keep_a_container_alive(action: dict[str, Any]) -> None:
    async def story(here: Site) -> None:
        bad = container("exec sleep 1000", lifecycle={"preStop": action})
        await here.world.create(pod("p", bad))
        found = await here.world.pod_phase("p", "Running")
        attempt = ContainerAttempt(here.container_folder(found) / "0")
        await here.delete("p", grace_seconds=0)
        async with asyncio.timeout(SECONDS):
            await attempt.wait()

    with_node(story)


def test_a_fault_of_the_agent_in_a_hook_does_not_keep_a_container_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def failing(*_: object) -> None:
        raise AssertionError("nobody expected this")

    async def story(here: Site) -> None:
        await here.world.create(pod("p", container("exec sleep 1000")))
        found = await here.world.pod_phase("p", "Running")
        attempt = ContainerAttempt(here.container_folder(found) / "0")
        monkeypatch.setattr(ContainerLifecycle, "pre_stop", failing)
        await here.delete("p", grace_seconds=0)
        async with asyncio.timeout(SECONDS):
            await attempt.wait()

    with_node(story)

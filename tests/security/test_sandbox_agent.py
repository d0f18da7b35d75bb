"""The node agent against its pods: probes, faults and sandboxes that are left behind."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from dray.node.pods import container_specs
from tests.cluster.site import Site, container, needs_sandbox, pod, with_node

pytestmark = needs_sandbox

SERVE = (
    "exec python3 -c \"import http.server as h; h.HTTPServer(('127.0.0.1', 8080), "
    'h.SimpleHTTPRequestHandler).serve_forever()"'
)


def test_a_fault_in_one_pod_ends_neither_the_agent_nor_other_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = container_specs.build

    async def failing(node: Any, state: Any, asked: Any) -> Any:
        if state.pod.metadata.name == "bad":
            raise AssertionError("nobody expected this")
        return await build(node, state, asked)

    monkeypatch.setattr(container_specs, "build", failing)

    async def story(here: Site) -> None:
        await here.world.create(pod("before", container("exec sleep 100")))
        await here.world.pod_phase("before", "Running")
        await here.world.create(pod("bad", container("exec sleep 100")))
        assert "nobody expected this" in await here.event("the node agent failed")
        await here.world.create(pod("after", container("exec sleep 100")))
        await here.world.pod_phase("after", "Running")
        await here.world.pod_phase("before", "Running")
        monkeypatch.setattr(container_specs, "build", build)
        await here.world.pod_phase("bad", "Running")

    with_node(story)


@pytest.mark.parametrize("action", ["httpGet", "tcpSocket"])
def test_probes_reach_the_pod_and_not_the_node(action: str) -> None:
    async def story(here: Site) -> None:
        with socket.create_server(("127.0.0.1", 0)) as service:
            port = service.getsockname()[1]
            listening = {"periodSeconds": 1, action: {"port": 8080}}
            await here.world.create(pod("p", container(SERVE, readinessProbe=listening)))
            where = {"port": port, "host": "127.0.0.1"}
            spying = {"periodSeconds": 1, "failureThreshold": 1, action: where}
            await here.world.create(pod("spy", container(SERVE, livenessProbe=spying)))
            await here.event("Liveness probe failed")

            async def is_ready() -> bool:
                found = await here.world.pod_phase("p", "Running")
                return bool(found["status"]["containerStatuses"][0]["ready"])

            await here.world.until(is_ready, "a ready pod")
            service.setblocking(False)
            with pytest.raises(BlockingIOError):
                service.accept()

    with_node(story)

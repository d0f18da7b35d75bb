"""What commands load and how often they connect, which decides how fast they start."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from dray.client.rest import RestTransport
from tests.unit.cli.conftest import Cluster

PROGRAM = """
import sys
from dray.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""
SLOW = {"aiohttp", "cryptography", "grpc", "google", "rich", "uvloop", "attr", "aetcd"}
"""Packages that take longer to import than a request to a cluster."""
ENGINE = {"dray.allocator", "dray.cel", "dray.explain", "dray.validation"}
PARTS = {"dray.apiserver", "dray.cluster", "dray.driverkit", "dray.drivers", "dray.node"}


def loaded(*arguments: str) -> set[str]:
    """Return every module and package that a command imports."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    modules = done.stderr.splitlines()[-1].split()
    assert "dray.cli.main" in modules, done.stderr
    return {".".join(name.split(".")[: end + 1]) for name in modules for end in range(3)}


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (("get", "pods"), SLOW | ENGINE | PARTS),
        (("get", "resourceclaims", "-o", "yaml"), SLOW | ENGINE | PARTS),
        (("get", "devices"), SLOW | PARTS | {"dray.explain.claim_explanation"}),
        (("explain", "pod/nosuch"), SLOW | PARTS),
    ],
)
def test_a_command_loads_only_what_it_needs(
    cluster: Cluster, arguments: tuple[str, ...], unneeded: set[str]
) -> None:
    modules = loaded(*arguments, "--kubeconfig", str(cluster.kubeconfig))
    assert "dray.client.http_pool" in modules
    assert not unneeded & modules


class Counted:
    """Counts the connections and the requests of commands in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.connections = 0
        self.requests: list[str] = []
        connect, send = asyncio.open_connection, RestTransport.send

        async def counted_connect(*arguments: Any, **options: Any) -> Any:
            self.connections += 1
            return await connect(*arguments, **options)

        async def counted_send(transport: RestTransport, request: Any) -> Any:
            self.requests.append(request.path)
            return await send(transport, request)

        monkeypatch.setattr(asyncio, "open_connection", counted_connect)
        monkeypatch.setattr(RestTransport, "send", counted_send)


def test_pods_take_one_request(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    assert cluster.dray("get", "pods").exit_code == 0
    assert counted.requests == ["/api/v1/namespaces/default/pods"]
    assert counted.connections == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("get", "resourceclaims,pods,deviceclasses"),
        ("get", "all", "-A", "-o", "json"),
        ("describe", "namespace/default"),
        ("api-resources",),
    ],
)
def test_a_command_opens_one_connection(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    counted = Counted(monkeypatch)
    assert cluster.dray(*arguments).exit_code == 0
    assert len(counted.requests) > 1
    assert counted.connections == 1

"""A driver process killed while a node waits for its answer, and two of them at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples.drivers.hello import Hello

from dray.api import errors, kinds
from dray.apiserver import standalone
from dray.client import kubeconfig
from dray.client.api_client import Client
from dray.client.rest import RestTransport
from dray.driverkit import cdi
from dray.driverkit.plugin import Directories, Plugin
from dray.node.devices.drivers import ClaimReference, DriverDevice, DriverError, Drivers
from dray.testing import Cluster
from tests.waiting import until, until_answered

ROOT = Path(__file__).parents[2]
NAME = "slow.example.com"
DEADLINE_SECONDS = 60.0
OBJECTS = f"""
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: slow}}
spec: {{selectors: [{{cel: {{expression: 'device.driver == "{NAME}"'}}}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: one}}
spec: {{devices: {{requests: [{{name: any, exactly: {{deviceClassName: slow}}}}]}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: user}}
spec:
  containers: [{{name: main, image: busybox, resources: {{claims: [{{name: one}}]}}}}]
  resourceClaims: [{{name: one, resourceClaimName: one}}]
"""


class Node:
    """The side of the node: what it has registered, and its calls."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.places = Directories.under(cluster.directory)
        cluster.apply(OBJECTS)

    @contextlib.contextmanager
    def driver(self, instance: str) -> Iterator[subprocess.Popen[bytes]]:
        folder = self.cluster.directory
        options = {
            "--kubeconfig": str(self.cluster.kubeconfig),
            "--node": "gpu-0",
            "--folder": str(folder),
            "--instance": instance,
        }
        arguments = [word for option in options.items() for word in option]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.robustness.slow_driver", *arguments],
            cwd=ROOT,
            env={**os.environ, "SLOW_DRIVER_FOLDER": str(folder)},
        )
        try:
            self.until(lambda: self._socket(instance).exists(), "its socket")
            yield process
        finally:
            process.terminate()
            process.wait(DEADLINE_SECONDS)

    def call(self, method: str) -> Any:
        """One call of whatever is registered now."""
        uid = self.cluster.get("resourceclaim", "one")["metadata"]["uid"]

        async def work() -> Any:
            drivers = Drivers(self.places.registry)
            task = asyncio.get_running_loop().create_task(drivers.run())
            try:
                found = await until(lambda: drivers.find(NAME), seconds=DEADLINE_SECONDS)
                return await getattr(found, method)(ClaimReference("default", "one", uid))
            finally:
                task.cancel()
                await asyncio.wait({task})

        return asyncio.run(work())

    def env(self, devices: tuple[DriverDevice, ...]) -> dict[str, str]:
        ids = [name for device in devices for name in device.cdi_ids]
        return dict(cdi.resolve(ids, [self.places.cdi]).env)

    def files(self) -> list[str]:
        return sorted(each.name for each in self.places.cdi.iterdir())

    def until(self, condition: Callable[[], Any], what: str) -> None:
        self.cluster.wait_for(condition, what, DEADLINE_SECONDS)

    def _socket(self, instance: str) -> Path:
        return self.places.registry / f"{NAME}-{instance}-reg.sock"

    def killed_during(self, stage: str) -> None:
        """A driver that hangs in the middle of its work is killed; the caller is told."""
        marker = self.cluster.directory / stage
        marker.touch()
        with self.driver(f"killed-{stage}") as process:
            caller = Caller(self, stage)
            self.until(marker.with_name(f"in-{stage}").exists, f"{stage} having begun")
            process.kill()
            caller.failed()
        marker.unlink()
        self._socket(f"killed-{stage}").unlink()


class Caller:
    """A call in a thread of its own, which has to fail."""

    def __init__(self, node: Node, method: str) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._future = self._pool.submit(node.call, method)

    def failed(self) -> None:
        with pytest.raises(DriverError):
            self._future.result(DEADLINE_SECONDS)
        self._pool.shutdown()


@pytest.mark.slow
def test_a_driver_killed_in_the_middle_of_a_call_goes_on_after_its_restart() -> None:
    with Cluster() as cluster:
        node = Node(cluster)
        with node.driver("first"):
            cluster.wait_for_pod("user")
        node.killed_during("prepare")
        with node.driver("second"):
            assert node.env(node.call("prepare")) == {"SLOW": "slow-0"}
        node.killed_during("unprepare")
        with node.driver("third"):
            node.call("unprepare")
            assert node.files() == []
            assert node.env(node.call("prepare")) == {"SLOW": "slow-0"}
            node.call("unprepare")
            assert node.files() == []


@pytest.mark.slow
def test_during_an_upgrade_either_process_can_finish_what_the_other_began() -> None:
    with Cluster() as cluster:
        node = Node(cluster)
        with node.driver("old"):
            cluster.wait_for_pod("user")
            first = node.call("prepare")
            with node.driver("new") as new:
                assert node.call("prepare") == first
                node.call("unprepare")
                assert node.files() == []
                node.call("prepare")
                new.terminate()
                assert new.wait(DEADLINE_SECONDS) == 0
            node.call("unprepare")
        assert node.files() == []


def test_a_driver_finds_its_api_server_again() -> None:
    async def published(client: Client) -> bool:
        with contextlib.suppress(errors.ServiceUnavailable):
            return bool((await client.list(kinds.RESOURCE_SLICE)).items)
        return False

    async def test(folder: Path) -> None:
        async with contextlib.AsyncExitStack() as first:
            url = await first.enter_async_context(standalone.listening(folder))
            connection = kubeconfig.load(folder / "kubeconfig")
            async with RestTransport(connection) as transport, asyncio.TaskGroup() as group:
                client = Client(transport)
                body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
                await client.create(kinds.NODE, body)
                places = Directories.under(folder)
                plugin = Plugin(Hello(), client, "n1", directories=places)
                task = group.create_task(plugin.run())
                await until_answered(lambda: published(client), seconds=DEADLINE_SECONDS)
                await first.aclose()
                async with standalone.listening(folder, int(url.rpartition(":")[2])):
                    for raw in (await client.list(kinds.RESOURCE_SLICE)).items:
                        await client.delete(
                            kinds.RESOURCE_SLICE, msgspec.json.decode(raw)["metadata"]["name"]
                        )
                    await until_answered(lambda: published(client), seconds=DEADLINE_SECONDS)
                    task.cancel()

    with tempfile.TemporaryDirectory(prefix="dray-") as folder:
        asyncio.run(test(Path(folder)))

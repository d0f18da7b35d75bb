"""Registers Node objects, and renews the one lease that all nodes of a process share.

Each Node names the lease in an annotation, which dray's node controller reads. So a process with
thousands of nodes renews one lease, not thousands. Nodes that were marked as lost while the process
was down are reported ready again.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.semantics.conditions import is_condition_true
from dray.api.types.meta import JsonObject, ObjectMeta, Wire
from dray.api.types.nodes import Node
from dray.api.well_known import LEASE_ANNOTATION, NODE_LEASE_NAMESPACE
from dray.client.api_client import EVERYTHING, Client, ObjectSelection
from dray.client.cache import Cache, ObjectChange
from dray.client.controller import Controller
from dray.client.object_writes import merge_status

log = logging.getLogger(__name__)


FIELD_MANAGER = "dray-node"
"""The field manager of node agents, also when they register."""
LEASE_SECONDS, RENEW_SECONDS = 40, 10.0
WORKERS = 32
"""Each waits for the server; one process may register thousands of nodes."""
KUBELET_VERSION = "v1.37.0"
_UNPRESSED = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "node has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "node has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "node has sufficient PID available"),
}


class _Condition(Wire, frozen=True):
    type: str = ""
    status: str = ""


class _Info(Wire, frozen=True):
    container_runtime_version: str = ""


class _Status(Wire, frozen=True):
    conditions: tuple[_Condition, ...] = ()
    node_info: _Info = _Info()


class _Registered(Wire, frozen=True):
    """The cached part of a Node; small, because there may be thousands."""

    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()

    @property
    def is_ready(self) -> bool:
        return is_condition_true(self.status.conditions, "Ready")


class Registration:
    """Keeps nodes registered and ready, and renews their lease. `selection` must match them."""

    def __init__(
        self,
        client: Client,
        nodes: Iterable[Node],
        *,
        lease: str,
        runtime: str,
        now: Callable[[], datetime.datetime],
        selection: ObjectSelection = EVERYTHING,
        renew_seconds: float = RENEW_SECONDS,
    ) -> None:
        self._client = client
        self._unregistered = {node.metadata.name: node for node in nodes}
        self.addresses = {
            name: host_address(number) for number, name in enumerate(self._unregistered)
        }
        """The address of each node."""
        self._lease, self._runtime = lease, runtime
        self._now = now
        self._renew_seconds = renew_seconds
        self._nodes: Cache[_Registered] = Cache(client, kinds.NODE, _Registered, selection)
        self._controller: Controller[str] = Controller(
            "registration", self._reconcile, workers=WORKERS
        )

    @property
    def is_complete(self) -> bool:
        """Whether every node has been registered."""
        return not self._unregistered

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_lease(), name="node-lease")
            group.create_task(self._nodes.run(), name="registration-nodes")
            await self._nodes.synced.wait()
            self._nodes.subscribe(self._node_changed)
            for name in self._unregistered:
                self._controller.queue.add(name)
            await self._controller.run()

    def _node_changed(self, change: ObjectChange[_Registered]) -> None:
        if change.new is not None and not change.new.is_ready:
            self._controller.queue.add(change.key.name)

    async def _reconcile(self, name: str) -> None:
        found = self._nodes.get(name)
        new = self._unregistered.get(name)
        if new is not None and found is None:
            with contextlib.suppress(errors.AlreadyExists):
                await self._client.create(kinds.NODE, self._body(new))
        elif name in self.addresses and found is not None:
            await self._renew(found)
        self._unregistered.pop(name, None)

    async def _renew(self, found: _Registered) -> None:
        """Point an existing Node to our lease, and report it ready."""
        name = found.metadata.name
        if found.metadata.annotations.get(LEASE_ANNOTATION) != self._lease:
            annotations = {LEASE_ANNOTATION: self._lease}
            await self._client.patch(kinds.NODE, name, {"metadata": {"annotations": annotations}})
        version = _runtime_version(self._runtime)
        if not found.is_ready or found.status.node_info.container_runtime_version != version:
            news = {
                "conditions": list(self._conditions()),
                "nodeInfo": {"containerRuntimeVersion": version},
            }
            await merge_status(self._client, kinds.NODE, name, {"status": news})

    def _body(self, node: Node) -> JsonObject:
        body: JsonObject = msgspec.to_builtins(node)
        name = node.metadata.name
        body["metadata"].setdefault("annotations", {})[LEASE_ANNOTATION] = self._lease
        status = body.setdefault("status", {})
        status["conditions"] = list(self._conditions())
        status["addresses"] = [
            {"type": "InternalIP", "address": self.addresses[name]},
            {"type": "Hostname", "address": name},
        ]
        status["nodeInfo"] = {**_node_info(self._runtime), **status.get("nodeInfo", {})}
        return {"apiVersion": "v1", "kind": "Node", **body}

    def _conditions(self) -> Iterable[JsonObject]:
        time = gotime.write(self._now())
        times = {"lastHeartbeatTime": time, "lastTransitionTime": time}
        for type_, (reason, message) in _UNPRESSED.items():
            yield {"type": type_, "status": "False", "reason": reason, "message": message, **times}
        ready = {"reason": "KubeletReady", "message": "the node agent is posting ready status"}
        yield {"type": "Ready", "status": "True", **ready, **times}

    async def _keep_lease(self) -> None:
        while True:
            try:
                await self._renew_lease()
            except errors.StatusError as error:
                log.warning("lease %s: %s", self._lease, error)
            await asyncio.sleep(self._renew_seconds)

    async def _renew_lease(self) -> None:
        spec: dict[str, Any] = {
            "holderIdentity": self._lease,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": gotime.write(self._now(), gotime.MICROSECONDS),
        }
        try:
            await self._client.patch(kinds.LEASE, self._lease, {"spec": spec}, NODE_LEASE_NAMESPACE)
        except errors.NotFound:
            metadata = {"name": self._lease, "namespace": NODE_LEASE_NAMESPACE}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            await self._client.create(kinds.LEASE, {**body, "spec": spec}, NODE_LEASE_NAMESPACE)


def host_address(number: int) -> str:
    """Return the address of a simulated node: they count up through 10.0.0.0/10."""
    number += 1
    return f"10.{number >> 16 & 0x3F}.{number >> 8 & 0xFF}.{number & 0xFF}"


def _runtime_version(runtime: str) -> str:
    return f"{runtime}://1"


def _node_info(runtime: str) -> dict[str, str]:
    required = ("machineID", "systemUUID", "bootID", "kernelVersion", "kubeProxyVersion")
    return dict.fromkeys(required, "") | {
        "osImage": "dray",
        "containerRuntimeVersion": _runtime_version(runtime),
        "kubeletVersion": KUBELET_VERSION,
        "operatingSystem": "linux",
        "architecture": "amd64",
    }

"""Reports the agent's address, runtime and features in its Node."""

from __future__ import annotations

import asyncio
import contextlib
import platform
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from dray.api import errors, kinds, well_known
from dray.api.features import Features
from dray.api.remote_command import CERTIFICATE_ANNOTATION
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import Cache, ObjectChange
from dray.client.controller import Controller
from dray.client.object_writes import merge_status

Report = Callable[[], Awaitable[None]]


@dataclass
class AgentAddress:
    """The address and certificate by which the API server reaches an agent.

    `certificate` may be two in PEM, of which the agent serves one.
    """

    address: str
    port: int
    certificate: bytes
    reports: list[Report] = field(default_factory=list)
    """Write the certificate into the Nodes of this address."""

    async def publish(self, certificate: bytes) -> None:
        """Write a new certificate into all Nodes, before the agent serves it."""
        self.certificate = certificate
        for report in self.reports:
            await report()


class NodeStatusUpdater:
    """Keeps one Node in sync with its agent. Run it until cancelled."""

    def __init__(
        self,
        client: Client,
        node: str,
        runtime: str,
        agent_address: AgentAddress,
        features: Features,
    ) -> None:
        self._client = client
        self._name = node
        self._agent_address = agent_address
        self._runtime_version = f"{runtime}://1"
        self._declared = list(declared_features(features))
        only = ObjectSelection(field_selector=f"metadata.name={node}")
        self._nodes: Cache[Node] = Cache(client, kinds.NODE, Node, only)
        self._controller: Controller[str] = Controller("presence", self._reconcile, workers=1)
        self._nodes.subscribe(self._node_changed)
        agent_address.reports.append(self._report_certificate)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run(), name="presence-node")
            await self._controller.run()

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        if change.new is not None and not self._is_reported(change.new):
            self._controller.queue.add(self._name)

    def _is_reported(self, node: Node) -> bool:
        status = node.status
        return (
            node.metadata.annotations.get(CERTIFICATE_ANNOTATION) == self._certificate
            and status.daemon_endpoints.kubelet_endpoint.port == self._agent_address.port
            and any(address.address == self._agent_address.address for address in status.addresses)
            and status.node_info.container_runtime_version == self._runtime_version
            and list(status.declared_features) == self._declared
        )

    async def _reconcile(self, _name: str) -> None:
        node = self._nodes.get(self._name)
        if node is None or self._is_reported(node):
            return
        await self._report_certificate()
        await merge_status(self._client, kinds.NODE, self._name, {"status": self._status()})

    async def _report_certificate(self) -> None:
        annotations = {CERTIFICATE_ANNOTATION: self._certificate}
        # A Node that is gone gets it when it is registered again.
        with contextlib.suppress(errors.NotFound):
            change = {"metadata": {"annotations": annotations}}
            await self._client.patch(kinds.NODE, self._name, change)

    @property
    def _certificate(self) -> str:
        return self._agent_address.certificate.decode()

    def _status(self) -> JsonObject:
        return {
            "addresses": [{"type": "InternalIP", "address": self._agent_address.address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._agent_address.port}},
            "nodeInfo": {
                "containerRuntimeVersion": self._runtime_version,
                "kernelVersion": platform.release(),
            },
            "declaredFeatures": self._declared,
        }


def declared_features(features: Features) -> Iterable[str]:
    """Yield the features that this agent has and other nodes may lack, in alphabetical order.

    As component-helpers/nodedeclaredfeatures: those of its features whose gate is on.
    """
    if not features.node_declared_features:
        return
    if features.optional_node_operations:
        yield well_known.OPTIONAL_NODE_OPERATIONS
    yield "ExtendWebSocketsToKubelet"

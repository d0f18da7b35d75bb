"""Serves the devices of this node's pods on the kubelet's PodResources socket, for exporters."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from dray.api.types.pods import Pod
from dray.node.devices.drivers import DriverDevice
from dray.node.devices.preparation import ClaimRecord, ClaimsOfPod
from dray.protocol import services

Holder = tuple[Pod, ClaimsOfPod]
_messages = services.POD_RESOURCES.messages


@contextlib.asynccontextmanager
async def serving(path: Path, holders: Callable[[], Iterable[Holder]]) -> AsyncIterator[None]:
    """Serve on the socket while the block runs."""
    server = grpc.aio.server()
    services.serve(server, services.POD_RESOURCES, _answers(holders))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    server.add_insecure_port(services.address(path))
    await server.start()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        await server.stop(0)


def _answers(holders: Callable[[], Iterable[Holder]]) -> services.Answers:
    async def list_pods(_request: Any, _context: Any) -> Any:
        pods = [pod_resources(*holder) for holder in holders()]
        return _messages.ListPodResourcesResponse(pod_resources=pods)

    async def get_pod(request: Any, context: Any) -> Any:
        key = (request.pod_namespace, request.pod_name)
        for pod, claims in holders():
            if (pod.metadata.namespace, pod.metadata.name) == key:
                return _messages.GetPodResourcesResponse(pod_resources=pod_resources(pod, claims))
        message = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        await context.abort(grpc.StatusCode.NOT_FOUND, message)

    async def allocatable(_request: Any, _context: Any) -> Any:
        return _messages.AllocatableResourcesResponse()

    return {"List": list_pods, "Get": get_pod, "GetAllocatableResources": allocatable}


def pod_resources(pod: Pod, prepared: ClaimsOfPod) -> Any:
    containers = []
    for container in pod.spec.containers:
        claims = [used for used in container.resources.claims if used.name in prepared]
        dynamic = [_dynamic(prepared[used.name], used.request) for used in claims]
        containers.append(
            _messages.ContainerResources(name=container.name, dynamic_resources=dynamic)
        )
    metadata = pod.metadata
    return _messages.PodResources(
        name=metadata.name, namespace=metadata.namespace, containers=containers
    )


def _dynamic(claim: ClaimRecord, request: str) -> Any:
    return _messages.DynamicResource(
        claim_name=claim.name,
        claim_namespace=claim.namespace,
        claim_resources=[
            _claim_resource(device) for device in claim.devices if device.is_for(request)
        ],
    )


def _claim_resource(device: DriverDevice) -> Any:
    message = _messages.ClaimResource(
        driver_name=device.driver,
        pool_name=device.pool,
        device_name=device.device,
        cdi_devices=[_messages.CDIDevice(name=name) for name in device.cdi_ids],
    )
    if device.share_id is not None:
        message.share_id = device.share_id
    return message

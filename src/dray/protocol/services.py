"""The services of the plugin API: how each is called on the wire, served and called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio

from dray.protocol import (
    dra_v1_pb2,
    dra_v1beta1_pb2,
    health_v1_pb2,
    health_v1alpha1_pb2,
    podresources_v1_pb2,
    registration_pb2,
)


class Method(NamedTuple):
    request: Any
    response: Any
    streams: bool = False


class Service(NamedTuple):
    """`name` is what travels on the wire, `version` what a driver lists when it registers."""

    name: str
    version: str
    messages: Any
    methods: Mapping[str, Method]


PLUGIN_TYPE: Final = "DRAPlugin"
DEFAULT_TIMEOUT_SECONDS: Final = 45.0


def _dra(version: str, messages: Any) -> Service:
    methods = {
        name: Method(getattr(messages, f"{name}Request"), getattr(messages, f"{name}Response"))
        for name in ("NodePrepareResources", "NodeUnprepareResources")
    }
    name = f"k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin"
    return Service(name, f"{version}.DRAPlugin", messages, methods)


def _health(version: str, messages: Any) -> Service:
    watch = Method(messages.NodeWatchResourcesRequest, messages.NodeWatchResourcesResponse, True)
    name = f"{version}.DRAResourceHealth"
    return Service(name, name, messages, {"NodeWatchResources": watch})


DRA_V1: Final = _dra("v1", dra_v1_pb2)
DRA_V1BETA1: Final = _dra("v1beta1", dra_v1beta1_pb2)
HEALTH_V1: Final = _health("v1", health_v1_pb2)
HEALTH_V1ALPHA1: Final = _health("v1alpha1", health_v1alpha1_pb2)
REGISTRATION: Final = Service(
    "pluginregistration.Registration",
    "v1",
    registration_pb2,
    {
        "GetInfo": Method(registration_pb2.InfoRequest, registration_pb2.PluginInfo),
        "NotifyRegistrationStatus": Method(
            registration_pb2.RegistrationStatus, registration_pb2.RegistrationStatusResponse
        ),
    },
)
POD_RESOURCES: Final = Service(
    "v1.PodResourcesLister",
    "v1",
    podresources_v1_pb2,
    {
        "List": Method(
            podresources_v1_pb2.ListPodResourcesRequest,
            podresources_v1_pb2.ListPodResourcesResponse,
        ),
        "GetAllocatableResources": Method(
            podresources_v1_pb2.AllocatableResourcesRequest,
            podresources_v1_pb2.AllocatableResourcesResponse,
        ),
        "Get": Method(
            podresources_v1_pb2.GetPodResourcesRequest, podresources_v1_pb2.GetPodResourcesResponse
        ),
    },
)

Answers = Mapping[str, Callable[[Any, Any], Any]]
"""By method: a coroutine function of (request, context), or a generator for a stream."""


def serve(server: grpc.aio.Server, service: Service, answers: Answers) -> None:
    """Let a server answer the methods of a service."""
    handlers = {}
    for name, method in service.methods.items():
        make = (
            grpc.unary_stream_rpc_method_handler
            if method.streams
            else grpc.unary_unary_rpc_method_handler
        )
        handlers[name] = make(
            answers[name],
            request_deserializer=method.request.FromString,
            response_serializer=method.response.SerializeToString,
        )
    generic = grpc.method_handlers_generic_handler(service.name, handlers)
    server.add_generic_rpc_handlers((generic,))


class Caller:
    """Calls the methods of one service on one channel."""

    def __init__(self, channel: grpc.aio.Channel, service: Service) -> None:
        self.messages = service.messages
        self._calls = {
            name: (channel.unary_stream if method.streams else channel.unary_unary)(
                f"/{service.name}/{name}",
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            for name, method in service.methods.items()
        }

    async def call(
        self, method: str, request: Any, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    ) -> Any:
        return await self._calls[method](request, timeout=timeout_seconds)

    def stream(self, method: str, request: Any) -> Any:
        """An iterator of responses, until it is cancelled or the other side ends."""
        return self._calls[method](request)


def address(path: object) -> str:
    """The address of a unix socket."""
    return f"unix:{path}"

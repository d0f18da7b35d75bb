"""The environment variables by which containers know Services.

As pkg/kubelet/envvars: of the API server always, of the other Services of the pod's namespace
unless `enableServiceLinks` is false.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

import msgspec

from dray.api import kinds
from dray.api.ids import ObjectKey
from dray.api.types.meta import ObjectMeta, Wire
from dray.api.types.pods import Pod
from dray.client.api_client import Client, ObjectSelection

_API_SERVER: Final = ObjectKey("default", "kubernetes")
"""Its address is not where containers reach it."""


class _Port(Wire, frozen=True):
    name: str = ""
    protocol: str = "TCP"
    port: int = 0


class _Spec(Wire, frozen=True):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: tuple[_Port, ...] = ()


class _Service(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


async def build(client: Client, pod: Pod, api_server: tuple[str, int] | None) -> dict[str, str]:
    """Return the variables of a pod's containers; `api_server` is the address as they reach it."""
    services: dict[str, _Service] = {}
    if pod.spec.enable_service_links is not False:
        selection = ObjectSelection(pod.metadata.namespace)
        for item in (await client.list(kinds.SERVICE, selection)).items:
            service = msgspec.json.decode(item, type=_Service)
            if service.metadata.key != _API_SERVER:
                services[service.metadata.name] = service
    if api_server is not None:
        host, port = api_server
        name = _API_SERVER.name
        spec = _Spec(host, (_Port("https", "TCP", port),))
        services.setdefault(name, _Service(ObjectMeta(name=name), spec))
    return {name: value for service in services.values() for name, value in _variables(service)}


def _variables(service: _Service) -> Iterator[tuple[str, str]]:
    address, ports = service.spec.cluster_ip, service.spec.ports
    if address in ("", "None") or not ports:
        return
    prefix = _variable_name(service.metadata.name)
    yield f"{prefix}_SERVICE_HOST", address
    yield f"{prefix}_SERVICE_PORT", str(ports[0].port)
    for port in ports:
        if port.name:
            yield f"{prefix}_SERVICE_PORT_{_variable_name(port.name)}", str(port.port)
    for number, port in enumerate(ports):
        url = f"{port.protocol.lower()}://{_in_url(address)}:{port.port}"
        if number == 0:
            yield f"{prefix}_PORT", url
        of_port = f"{prefix}_PORT_{port.port}_{port.protocol.upper()}"
        yield of_port, url
        yield f"{of_port}_PROTO", port.protocol.lower()
        yield f"{of_port}_PORT", str(port.port)
        yield f"{of_port}_ADDR", address


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()


def _in_url(address: str) -> str:
    try:
        is_v6 = ipaddress.ip_address(address).version == 6
    except ValueError:
        return address
    return f"[{address}]" if is_v6 else address

"""The variables by which containers know Services."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.client.api_client import ListPage, ObjectSelection
from dray.node.specs import service_variables


class FakeClient:
    def __init__(self, *services: JsonObject) -> None:
        self._services = services
        self.asked = 0

    async def list(self, _kind: object, selection: ObjectSelection) -> ListPage:
        self.asked += 1
        encoded = (
            msgspec.json.encode(each)
            for each in self._services
            if each["metadata"]["namespace"] == selection.namespace
        )
        return ListPage(items=[msgspec.Raw(each) for each in encoded])


def service(name: str, address: str, *ports: JsonObject, namespace: str = "a") -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": address, "ports": list(ports)},
    }


def built(*services: JsonObject, namespace: str = "a", **spec: Any) -> dict[str, str]:
    client: Any = FakeClient(*services)
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": namespace}, "spec": spec}, Pod)
    return asyncio.run(service_variables.build(client, pod, ("127.0.0.1", 6443)))


API_SERVER = {
    "KUBERNETES_SERVICE_HOST": "127.0.0.1",
    "KUBERNETES_SERVICE_PORT": "6443",
    "KUBERNETES_SERVICE_PORT_HTTPS": "6443",
    "KUBERNETES_PORT": "tcp://127.0.0.1:6443",
    "KUBERNETES_PORT_6443_TCP": "tcp://127.0.0.1:6443",
    "KUBERNETES_PORT_6443_TCP_PROTO": "tcp",
    "KUBERNETES_PORT_6443_TCP_PORT": "6443",
    "KUBERNETES_PORT_6443_TCP_ADDR": "127.0.0.1",
}
WEB = service("web-front", "10.0.0.1", {"name": "http", "port": 80, "protocol": "TCP"})


def test_the_api_server_is_known_where_containers_reach_it() -> None:
    own = service("kubernetes", "10.96.0.1", {"name": "https", "port": 443}, namespace="default")
    assert built(own, namespace="default") == built(own) == API_SERVER


def test_services_of_the_namespace_are_known_by_their_first_and_their_named_ports() -> None:
    other = service("other", "10.0.0.2", {"port": 1}, namespace="b")
    ports = ({"port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"})
    made = built(service("web-front", "fd00::1", *ports), other)
    assert {name: value for name, value in made.items() if name not in API_SERVER} == {
        "WEB_FRONT_SERVICE_HOST": "fd00::1",
        "WEB_FRONT_SERVICE_PORT": "80",
        "WEB_FRONT_SERVICE_PORT_DNS": "53",
        "WEB_FRONT_PORT": "tcp://[fd00::1]:80",
        "WEB_FRONT_PORT_80_TCP": "tcp://[fd00::1]:80",
        "WEB_FRONT_PORT_80_TCP_PROTO": "tcp",
        "WEB_FRONT_PORT_80_TCP_PORT": "80",
        "WEB_FRONT_PORT_80_TCP_ADDR": "fd00::1",
        "WEB_FRONT_PORT_53_UDP": "udp://[fd00::1]:53",
        "WEB_FRONT_PORT_53_UDP_PROTO": "udp",
        "WEB_FRONT_PORT_53_UDP_PORT": "53",
        "WEB_FRONT_PORT_53_UDP_ADDR": "fd00::1",
    }


def test_a_service_without_an_address_is_not_known() -> None:
    assert built(service("headless", "None", {"port": 1}), service("new", "", {"port": 1})) == (
        API_SERVER
    )


def test_a_pod_without_service_links_knows_the_api_server_alone() -> None:
    assert built(WEB, enableServiceLinks=False) == API_SERVER
    assert built(WEB, enableServiceLinks=True).keys() > API_SERVER.keys()


def test_a_service_of_the_namespace_wins_over_the_api_server() -> None:
    made = built(service("kubernetes", "10.0.0.9", {"port": 1}))
    assert made["KUBERNETES_SERVICE_HOST"] == "10.0.0.9"

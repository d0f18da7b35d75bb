"""Rights are found by reading one object of each kind, with GET requests only."""

from __future__ import annotations

import asyncio
import json

import pytest

from dray.api import errors, kinds
from dray.api.http_messages import Request, Response
from dray.client.api_client import Client
from dray.ui.model import rights
from dray.ui.model.rights import Rights

NAMES = [f"ns-{number:03}" for number in range(300)]


class Server:
    """Answers lists, by rule."""

    def __init__(self, *allowed: str, status: int = 403) -> None:
        self.allowed, self.status = set(allowed), status
        self.asked: list[str] = []

    async def send(self, request: Request) -> Response:
        assert request.method == "GET"
        self.asked.append(request.path)
        if request.path not in self.allowed:
            status = {"kind": "Status", "code": self.status, "reason": "Forbidden", "message": "no"}
            if self.status != 403:
                status["reason"] = "InternalError"
            return Response(self.status, {}, json.dumps(status).encode())
        items = [{"metadata": {"name": name}} for name in NAMES]
        return Response(200, {}, json.dumps({"metadata": {}, "items": items}).encode())


def found(server: Server, *candidates: str) -> Rights:
    followed = (kinds.NAMESPACE, kinds.POD, kinds.NODE)
    return asyncio.run(rights.rights_of(Client(server), followed, candidates))


def test_what_may_be_read_everywhere() -> None:
    own = found(Server("/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces"))
    assert (own.of(kinds.POD), own.of(kinds.NODE)) == (("",), ("",))
    assert (own.unread, own.partly_read) == ({}, {})


def test_namespaces_are_those_that_exist_and_those_of_the_person() -> None:
    readable = "/api/v1/namespaces/ns-007/pods"
    own = found(Server("/api/v1/namespaces", readable))
    assert own.of(kinds.POD) == ("ns-007",)
    assert own.partly_read == {"Pod": "you may read pods of namespace ns-007 only"}
    assert own.unread == {"Node": "you may not read nodes"}
    server = Server("/api/v1/namespaces/mine/pods")
    assert found(server, "mine", "", "other").of(kinds.POD) == ("mine",)
    assert found(server).of(kinds.POD) == ()


def test_not_all_of_many_namespaces_are_tried() -> None:
    server = Server("/api/v1/namespaces")
    found(server)
    assert len(server.asked) <= 3 + 1 + rights.NAMESPACES_TRIED


def test_equal_rights_are_equal() -> None:
    assert found(Server("/api/v1/pods")) == found(Server("/api/v1/pods"))
    assert hash(found(Server("/api/v1/pods"))) == hash(found(Server("/api/v1/pods")))
    assert found(Server("/api/v1/pods")) != found(Server("/api/v1/nodes"))


def test_other_errors_are_not_about_rights() -> None:
    with pytest.raises(errors.StatusError):
        found(Server(status=500))

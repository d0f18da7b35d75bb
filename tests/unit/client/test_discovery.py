"""Kinds in the versions that a server has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from dray.api import kinds
from dray.api.http_messages import Request, Response, User
from dray.client import discovery
from dray.client.api_client import Client, InProcessTransport
from tests import virtualtime

USER = User("someone", frozenset())


def client_of(served: Mapping[str, Sequence[str]], failures: int = 0) -> Client:
    """Return the client of a server with some plurals by version, after some failures."""
    left = [failures]

    async def answer(request: Request, user: User) -> Response:
        if left[0]:
            left[0] -= 1
            return Response(503, {}, b'{"kind":"Status","code":503,"message":"starting"}')
        version = request.path.rpartition("/")[2]
        if version not in served:
            return Response(404, {}, b'{"kind":"Status","code":404}')
        resources = [{"name": plural} for plural in served[version]]
        return Response(200, {}, msgspec.json.encode({"resources": resources}))

    return Client(InProcessTransport(answer, USER))


@pytest.mark.parametrize(
    ("served", "version"),
    [
        ({"v1": ["devicetaintrules"], "v1beta2": ["devicetaintrules"]}, "v1"),
        ({"v1": ["resourceslices"], "v1beta2": ["devicetaintrules"]}, "v1beta2"),
        ({"v1": ["resourceslices"], "v1alpha3": ["devicetaintrules"]}, None),
        ({}, None),
    ],
)
def test_the_newest_version_of_a_kind(served: Mapping[str, Sequence[str]], version: str) -> None:
    kind = virtualtime.run(discovery.as_served(client_of(served), kinds.DEVICE_TAINT_RULE))
    assert (None if kind is None else kind.versions[0]) == version


def test_a_server_that_is_not_ready_is_asked_again() -> None:
    client = client_of({"v1": ["devicetaintrules"]}, failures=3)
    kind = virtualtime.run(discovery.as_served(client, kinds.DEVICE_TAINT_RULE))
    assert kind is not None

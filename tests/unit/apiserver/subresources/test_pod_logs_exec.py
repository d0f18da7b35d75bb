"""Logs and shells of pods that no node runs, and of containers that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wire.serving import Answer, Api, with_api

POD = "/api/v1/namespaces/default/pods"


def container(name: str) -> dict[str, str]:
    return {"name": name, "image": "example.com/x"}


async def create(api: Api, name: str, *containers: str, node: str = "") -> None:
    spec = {"containers": list(map(container, containers)), "nodeName": node}
    created = await api("POST", POD, {"metadata": {"name": name}, "spec": spec})
    assert created.status == 201, created.body


def answers(tmp_path: Path, *urls: str) -> list[Answer]:
    async def ask(api: Api) -> list[Answer]:
        await create(api, "one", "main")
        await create(api, "two", "left", "right")
        await create(api, "placed", "main", node="node-1")
        return [await api("GET", f"{POD}/{url}") for url in urls]

    return with_api(ask, tmp_path)


def test_a_pod_without_a_node_has_an_empty_log(tmp_path: Path) -> None:
    (answer,) = answers(tmp_path, "one/log")
    assert (answer.status, answer.body) == (204, b"")


@pytest.mark.parametrize("way", ["exec?command=ls", "attach"])
def test_a_pod_without_a_node_has_nothing_to_connect_to(tmp_path: Path, way: str) -> None:
    (answer,) = answers(tmp_path, f"one/{way}")
    assert answer.status == 400
    assert answer.json["message"] == "pod one does not have a host assigned"


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("missing/log", 404, 'pods "missing" not found'),
        ("one/log?container=no", 400, "container no is not valid for pod one"),
        (
            "two/log",
            400,
            "a container name must be specified for pod two, choose one of: [left right]",
        ),
        (
            "one/log?tailLines=-1",
            422,
            'PodLogOptions "one" is invalid: tailLines: Invalid value: -1: '
            "must be greater than or equal to 0",
        ),
        ("one/log?limitBytes=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax (limitBytes)'),
    ],
)
def test_refusals(tmp_path: Path, url: str, code: int, message: str) -> None:
    (answer,) = answers(tmp_path, url)
    assert (answer.status, answer.json["message"]) == (code, message)


def test_a_node_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    for answer in answers(tmp_path, "placed/log", "placed/exec?command=ls"):
        assert answer.status == 503
        assert "node-1" in answer.json["message"]

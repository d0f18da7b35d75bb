"""Versions that are switched off are as if they had never been there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dray.apiserver.server import Settings
from tests.wire.serving import Api, with_api

GROUP = "resource.k8s.io"
OFF = f"{GROUP}/v1beta1"
SETTINGS = Settings(disabled=(OFF,))


@pytest.mark.parametrize(
    "path",
    [
        f"/apis/{OFF}",
        f"/apis/{OFF}/resourceclaims",
        f"/apis/{OFF}/namespaces/default/resourceclaims/x",
        f"/openapi/v3/apis/{OFF}",
    ],
)
def test_their_paths_are_not_found(path: str, tmp_path: Path) -> None:
    async def converse(api: Api) -> None:
        answer = await api("GET", path)
        assert (answer.status, answer.json["reason"]) == (404, "NotFound")
        assert answer.json["message"] == "the server could not find the requested resource"

    with_api(converse, tmp_path, SETTINGS)


def in_list(document: Any) -> list[str]:
    (group,) = [each for each in document["groups"] if each["name"] == GROUP]
    return in_group(group)


def in_group(document: Any) -> list[str]:
    return [version["version"] for version in document["versions"]]


def in_discovery(document: Any) -> list[str]:
    (group,) = [each for each in document["items"] if each["metadata"]["name"] == GROUP]
    return in_group(group)


def in_openapi(document: Any) -> list[str]:
    return [path.rpartition("/")[2] for path in document["paths"] if GROUP in path]


@pytest.mark.parametrize(
    ("path", "accept", "versions"),
    [
        ("/apis", "application/json", in_list),
        (f"/apis/{GROUP}", "application/json", in_group),
        (
            "/apis",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            in_discovery,
        ),
        ("/openapi/v3", "application/json", in_openapi),
    ],
)
def test_nothing_tells_of_them(
    path: str, accept: str, versions: Callable[[Any], list[str]], tmp_path: Path
) -> None:
    async def converse(api: Api) -> None:
        answer = await api("GET", path, accept=accept)
        assert versions(answer.json) == ["v1", "v1beta2", "v1alpha3"]

    with_api(converse, tmp_path, SETTINGS)


def test_objects_written_before_are_read_in_other_versions(tmp_path: Path) -> None:
    async def converse(api: Api) -> None:
        claim = {"metadata": {"name": "c"}, "spec": {"devices": {}}}
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
        assert (await api("POST", path, claim)).status == 201
        assert (await api("GET", path.replace("v1/", "v1beta2/") + "/c")).status == 200

    with_api(converse, tmp_path, SETTINGS)

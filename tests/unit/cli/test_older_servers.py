"""The tools against a server that emulates an older version of Kubernetes.

The server is dray's own; what commands get of it is reduced to what that version has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from dray.api.http_messages import Request, Response
from dray.cli.inputs.cluster_objects import VERSION_ANNOTATION
from dray.client.discovery import ServerVersion
from dray.client.rest import RestTransport
from tests.unit.cli.conftest import Cluster, as_list, fleet_documents

MISSING: Final = {
    "1.34": {"devicetaintrules", "resourcepoolstatusrequests", "podgroups"},
    "1.35": {"devicetaintrules", "resourcepoolstatusrequests", "podgroups"},
    "1.36": {"resourcepoolstatusrequests", "podgroups"},
}
NEWEST_RULES: Final = {"1.36": "v1beta2"}
"""The newest version of DeviceTaintRule, where it is not v1."""
FORBIDDEN_WORDS = ("DeviceTaintRule", "ResourcePoolStatusRequest", "PodGroup", "404", "not found")
NOT_FOUND = Response(404, {"content-type": "application/json"}, b'{"kind":"Status","code":404}')

send = RestTransport.send


class OlderServer:
    """Takes away from responses what a version does not have, and records what was missing."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.asked_for_missing: list[str] = []

    async def send(self, transport: RestTransport, request: Request) -> Response:
        parts = request.path.strip("/").split("/")
        if len(parts) > 3 and not self._has(parts[3], parts[2]):
            self.asked_for_missing.append(request.path)
            return NOT_FOUND
        response = await send(transport, request)
        if request.path in ("/api", "/apis", "/version"):
            document = msgspec.json.decode(response.body)
            self._reduce(document)
            body = msgspec.json.encode(document)
            return msgspec.structs.replace(response, body=body)
        return response

    def _has(self, plural: str, version: str) -> bool:
        if plural in MISSING[self.version]:
            return False
        return plural != "devicetaintrules" or version == NEWEST_RULES[self.version]

    def _reduce(self, document: dict[str, Any]) -> None:
        if "gitVersion" in document:
            document |= {"emulationMajor": "1", "emulationMinor": self.version.split(".")[1]}
            document["gitCommit"] = ""
        for group in document.get("items") or ():
            for version in group["versions"]:
                version["resources"] = [
                    resource
                    for resource in version["resources"]
                    if self._has(resource["resource"], version["version"])
                ]


@pytest.fixture(params=sorted(MISSING))
def older(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[OlderServer]:
    server = OlderServer(request.param)

    async def reduced(transport: RestTransport, sent: Request) -> Response:
        return await server.send(transport, sent)

    monkeypatch.setattr(RestTransport, "send", reduced)
    yield server
    assert server.asked_for_missing == []


CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "older", "namespace": "default"},
    "spec": {
        "devices": {
            "requests": [
                {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 99}}
            ]
        }
    },
}


@pytest.fixture(scope="module")
def stocked(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a fleet and a claim that does not fit."""
    documents = [*fleet_documents("h100"), CLAIM]
    created = cluster.dray("create", "-f", "-", input=as_list(documents))
    assert created.exit_code == 0, created.output
    yield cluster
    deleted = cluster.dray("delete", "-f", "-", input=as_list(documents))
    assert deleted.exit_code == 0, deleted.output


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (("explain", "claim/older"), 1),
        (("get", "devices"), 0),
        (("doctor",), None),
        (("snapshot",), 0),
        (("top", "--once"), 0),
        (("cel", "true", "--cluster"), 0),
        (("lint", "-", "--against", "dray"), 0),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_tool_neither_needs_nor_names_what_is_missing(
    stocked: Cluster, older: OlderServer, arguments: tuple[str, ...], exit_code: int | None
) -> None:
    result = stocked.dray(*arguments, input=as_list([CLAIM]) if "-" in arguments else None)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    if exit_code is not None:
        assert result.exit_code == exit_code, result.output
    if arguments[0] != "snapshot":
        # As words: the address of the server has a random port.
        said = [word for word in FORBIDDEN_WORDS if re.search(rf"\b{word}s?\b", result.output)]
        assert said == []


def _linted(cluster: Cluster, *documents: dict[str, Any]) -> list[dict[str, Any]]:
    arguments = ("lint", "-", "--against", "dray", "-o", "json")
    result = cluster.dray(*arguments, input=as_list(list(documents)))
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_lint_says_that_a_kind_is_not_served(stocked: Cluster, older: OlderServer) -> None:
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {"deviceSelector": {"driver": "gpu.nvidia.com"}, "taint": taint},
    }
    (found,) = _linted(stocked, rule)
    assert found["rule"] == "unserved-kind"
    assert f"(Kubernetes {older.version}) does not serve DeviceTaintRule" in found["message"]
    if older.version in NEWEST_RULES:
        assert found["advice"] == "Write apiVersion: resource.k8s.io/v1beta2"
        assert _linted(stocked, {**rule, "apiVersion": "resource.k8s.io/v1beta2"}) == []
    else:
        assert "DRADeviceTaintRules, which is on by default since 1.37" in found["advice"]


def test_lint_says_which_fields_are_dropped(stocked: Cluster, older: OlderServer) -> None:
    exactly = {
        "deviceClassName": "gpu.nvidia.com",
        "tolerations": [{"key": "example.com/broken", "operator": "Exists"}],
        "capacity": {"requests": {"memory": "1Gi"}},
    }
    claim = {**CLAIM, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    dropped = [item for item in _linted(stocked, claim) if item["rule"] == "dropped-field"]
    expected = {
        "spec.devices.requests[0].exactly.tolerations": "DRADeviceTaints",
        "spec.devices.requests[0].exactly.capacity": "DRAConsumableCapacity",
    }
    if older.version == "1.36":
        expected = {}
    assert len(dropped) == len(expected)
    for item, (path, gate) in zip(dropped, expected.items(), strict=True):
        drops = f"{path}: Kubernetes {older.version} drops this field without an error"
        assert item["message"] == drops
        assert f"feature gate is {gate}, which is on by default since 1.36" in item["advice"]


def test_a_snapshot_has_the_emulated_version(stocked: Cluster, older: OlderServer) -> None:
    document = json.loads(stocked.dray("snapshot").stdout)
    assert document["metadata"]["annotations"] == {VERSION_ANNOTATION: older.version}
    assert {item["kind"] for item in document["items"]} >= {"Node", "ResourceSlice", "DeviceClass"}


@pytest.mark.parametrize(
    ("document", "minor"),
    [
        ({"major": "1", "minor": "37"}, "1.37"),
        ({"major": "1", "minor": "35+"}, "1.35"),
        ({"major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "34"}, "1.34"),
    ],
)
def test_the_emulated_version_counts(document: dict[str, str], minor: str) -> None:
    version = ServerVersion(document)
    assert version.minor == minor
    assert version.features.version == minor

"""Admission policies over the API: in force soon after their binding, and seen in the audit log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from dray.api.http_messages import JSON, Request, User
from dray.apiserver.server import Settings
from dray.client import kubeconfig
from dray.client.kubeconfig import ClusterConnection
from dray.client.rest import RestTransport
from tests import kube_apiserver, recorded, waiting
from tests.unit.apiserver.admission.policies.objects import (
    BINDINGS,
    CONFIG_MAPS,
    POLICIES,
    binding,
    config_map,
    policy,
)
from tests.wire import policy_cases
from tests.wire.serving import Api, with_api

GROUP = "admissionregistration.k8s.io"
RECORDED = recorded.CASES.lines("admission_policies.jsonl")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return dray's answers to all recorded cases, by their names."""

    async def play(api: Api) -> list[Any]:
        async def send(
            method: str, path: str, body: Any, user: str, content_type: str
        ) -> tuple[int, str, Any]:
            sender = User(user, frozenset({"system:authenticated"})) if user else None
            answer = await api(method, path, body, user=sender, content_type=content_type)
            return answer.status, answer.headers.get("warning", ""), answer.json

        return await policy_cases.play(send, RECORDED)

    answers = with_api(play, tmp_path_factory.mktemp("policies"))
    return {case["name"]: given for case, given in zip(RECORDED, answers, strict=True)}


@pytest.mark.parametrize("case", RECORDED, ids=[case["name"] for case in RECORDED])
def test_the_answers_are_those_of_kubernetes(case: Any, played: dict[str, Any]) -> None:
    assert played[case["name"]] == case["answers"]


@pytest.mark.slow
def test_a_real_api_server_still_gives_these_answers(tmp_path: Path) -> None:
    options = ("--runtime-config=api/all=true",)  # some cases are about older versions of kinds
    with kube_apiserver.running(tmp_path, options=options) as server:
        config = kubeconfig.load(server.kubeconfig(kube_apiserver.ADMIN))
        answers = asyncio.run(_play_over_the_network(config))
    assert len(answers) == len(RECORDED)
    for case, given in zip(RECORDED, answers, strict=True):
        assert given == case["answers"], case["name"]


async def _play_over_the_network(config: ClusterConnection) -> list[list[Any]]:
    warnings: list[str] = []
    async with RestTransport(config, on_warning=warnings.append) as transport:

        async def send(
            method: str, path: str, body: Any, user: str, content_type: str
        ) -> tuple[int, str, Any]:
            headers = {"content-type": content_type, "accept": JSON}
            if user:
                headers["impersonate-user"] = user
            address, _, query = path.partition("?")
            content = b"" if body is None else msgspec.json.encode(body)
            request = Request(method, address, tuple(parse_qsl(query)), headers, content)
            warnings.clear()
            response = await transport.send(request)
            header = ", ".join(f"299 - {_quoted(text)}" for text in warnings)
            return response.status, header, msgspec.json.decode(response.body)

        return await policy_cases.play(send, RECORDED)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


async def enforce(api: Api, made: dict[str, Any], *actions: str) -> None:
    name = made["metadata"]["name"]
    for path, body in ((POLICIES, made), (BINDINGS, binding(name, *actions))):
        answer = await api("POST", path, body)
        assert answer.status == 201, answer.body


async def until_denied(api: Api) -> Any:
    async def refusal() -> Any:
        answer = await api("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("probe"))
        return answer.json if answer.status == 422 else None

    return await waiting.until_answered(refusal, "a denied request")


def test_a_policy_is_in_force_without_a_restart(tmp_path: Path) -> None:
    async def converse(api: Api) -> None:
        await enforce(api, policy("p", "false"))
        assert "denied request" in (await until_denied(api))["message"]

    with_api(converse, tmp_path)


def test_a_revision_on_a_new_object_is_refused_after_admission(tmp_path: Path) -> None:
    async def converse(api: Api) -> None:
        with_revision = config_map()
        with_revision["metadata"]["resourceVersion"] = "1"
        answer = await api("POST", CONFIG_MAPS, with_revision)
        assert answer.status == 500
        said = "resourceVersion should not be set on objects to be created"
        assert answer.json["message"] == said
        await enforce(api, policy("p", "false"))
        await until_denied(api)
        answer = await api("POST", CONFIG_MAPS, with_revision)
        assert answer.status == 422
        assert "denied request" in answer.json["message"]

    with_api(converse, tmp_path)


def test_the_audit_log_has_annotations_and_failures(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"

    async def converse(api: Api) -> None:
        annotations = [{"key": "name", "valueExpression": "'about ' + object.metadata.name"}]
        made = policy("p", "object.metadata.name != 'c'", auditAnnotations=annotations)
        await enforce(api, made, "Audit", "Warn")
        await enforce(api, policy("z", "object.metadata.name == 'c'"))
        await until_denied(api)
        answer = await api("POST", CONFIG_MAPS, config_map())
        assert answer.status == 201
        assert "object.metadata.name != 'c'" in answer.headers["warning"]

    with_api(converse, tmp_path, Settings(audit_log=path))
    events = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    (created,) = [
        event
        for event in events
        if event["requestURI"] == CONFIG_MAPS and event["responseStatus"]["code"] == 201
    ]
    annotations = created["annotations"]
    assert annotations["p/name"] == "about c"
    key = "validation.policy.admission.k8s.io/validation_failure"
    assert msgspec.json.decode(annotations[key]) == [
        {
            "message": "failed expression: object.metadata.name != 'c'",
            "policy": "p",
            "binding": "p",
            "expressionIndex": 0,
            "validationActions": ["Audit", "Warn"],
        }
    ]
    refused = [event for event in events if event["responseStatus"]["code"] == 422]
    assert refused[0]["annotations"]["p/name"] == "about probe"


@pytest.mark.parametrize(
    ("resource", "why"),
    [
        ("validatingwebhookconfigurations", "dray calls no admission webhooks"),
        ("mutatingwebhookconfigurations", "dray calls no admission webhooks"),
        ("mutatingadmissionpolicies", "policies of dray do not change objects"),
        ("mutatingadmissionpolicybindings", "policies of dray do not change objects"),
    ],
)
def test_what_would_not_be_obeyed_is_not_stored(resource: str, why: str, tmp_path: Path) -> None:
    async def converse(api: Api) -> None:
        answer = await api("POST", f"/apis/{GROUP}/v1/{resource}", {"metadata": {"name": "x"}})
        assert (answer.status, answer.json["reason"]) == (404, "NotFound")
        assert answer.json["message"] == (
            f"the server could not find the requested resource: {resource}.{GROUP} is not served, "
            f"because {why}; write a ValidatingAdmissionPolicy instead"
        )
        listed = (await api("GET", f"/apis/{GROUP}/v1")).json["resources"]
        assert [row["name"] for row in listed] == [
            "validatingadmissionpolicies",
            "validatingadmissionpolicies/status",
            "validatingadmissionpolicybindings",
        ]

    with_api(converse, tmp_path)


def test_kubectl_sees_the_columns_of_kubernetes(tmp_path: Path) -> None:
    async def converse(api: Api) -> None:
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        await api("POST", POLICIES, policy("p", "true", "true", paramKind=kind))
        await api("POST", POLICIES, policy("q", "true"))
        references: dict[str, Any] = {
            "a": {"name": "x", "namespace": "team"},
            "b": {"name": "x"},
            "c": {
                "selector": {
                    "matchLabels": {"a": "b"},
                    "matchExpressions": [{"key": "k", "operator": "In", "values": ["1", "2"]}],
                }
            },
        }
        for name, reference in references.items():
            made = binding(name, paramRef={**reference, "parameterNotFoundAction": "Deny"})
            await api("POST", BINDINGS, made)
        await api("POST", BINDINGS, binding("d"))
        assert await cells(api, POLICIES) == [["p", 2, "v1/ConfigMap"], ["q", 1, "<unset>"]]
        assert await cells(api, BINDINGS) == [
            ["a", "a", "team/x"],
            ["b", "b", "*/x"],
            [
                "c",
                "c",
                "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:"
                "[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,"
                "Values:[1 2],},},}",
            ],
            ["d", "d", "<unset>"],
        ]

    with_api(converse, tmp_path)


async def cells(api: Api, path: str) -> list[list[Any]]:
    """Return the rows of a table without the age."""
    table = await api("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    return [row["cells"][:-1] for row in table.json["rows"]]

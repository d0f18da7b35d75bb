"""Plays recorded cases of admission policies on an API server: on dray here, on others to record.

Each case has a namespace of its own, where alone its policy is in force.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests import waiting

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = (
    f"{GROUP}/validatingadmissionpolicies",
    f"{GROUP}/validatingadmissionpolicybindings",
)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
USER = "alice"
"""May create config maps and policies, and get pods."""
GENERATED = re.compile(r'"a-[a-z0-9]{5}"')
WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')

Json = dict[str, Any]
Send = Callable[[str, str, Any, str, str], Awaitable[tuple[int, str, Any]]]
"""Takes method, path, body, user (empty: an administrator) and content type.

Returns the status, the header `warning` and the body.
"""


def namespace_of(case: Json) -> str:
    return f"ns-{case['name']}"


def objects(cases: list[Json]) -> Iterator[tuple[str, Json]]:
    """Yield everything that is there before the requests, each with its path."""
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["create"]},
    ]
    yield f"{RBAC}/clusterroles", {"metadata": {"name": USER}, "rules": rules}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}
    bound = {"metadata": {"name": USER}, "roleRef": reference, "subjects": [subject]}
    yield f"{RBAC}/clusterrolebindings", bound
    for case in cases:
        metadata = {"name": namespace_of(case), "labels": {"team": "a"}}
        yield "/api/v1/namespaces", {"metadata": metadata}
        account = {"metadata": {"name": "default"}}
        yield f"/api/v1/namespaces/{namespace_of(case)}/serviceaccounts", account
        for thing in case.get("objects", ()):
            yield _placed(case, thing["path"]), thing["body"]
    for case in cases:
        if "policy" in case:
            yield POLICIES, {"metadata": {"name": case["name"]}, "spec": case["policy"]}
            yield BINDINGS, {"metadata": {"name": case["name"]}, "spec": _binding(case)}


def _binding(case: Json) -> Json:
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace_of(case)}}
    match = {**case["binding"].get("matchResources", {}), "namespaceSelector": here}
    return {**case["binding"], "policyName": case["name"], "matchResources": match}


def _placed(case: Json, value: Any) -> Any:
    """Return a path or a body with the namespace of the case."""
    text = json.dumps(value).replace("{ns}", namespace_of(case))
    return json.loads(text)


async def play(send: Send, cases: list[Json]) -> list[list[Json]]:
    """Return the answers to the requests of each case, as the corpus has them."""
    for path, body in objects([*cases, _LAST]):
        status, _, answer = await send("POST", path, body, "", "application/json")
        # A controller may have been faster with a service account.
        assert status in (201, 409), (path, body, answer)
    await waiting.until_answered(lambda: _is_in_force(send), "the last policy")
    return [[await _answer(send, case, request) for request in case["requests"]] for case in cases]


_LAST: Json = {
    "name": "zz-last",
    "policy": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }
            ]
        },
        "validations": [{"expression": "false"}],
    },
    "binding": {"validationActions": ["Deny"]},
}


async def _is_in_force(send: Send) -> bool:
    path = f"/api/v1/namespaces/{namespace_of(_LAST)}/configmaps?dryRun=All"
    status, _, _ = await send("POST", path, {"metadata": {"name": "a"}}, "", "application/json")
    return status == 422


async def _answer(send: Send, case: Json, request: Json) -> Json:
    status, warning, body = await send(
        request["method"],
        _placed(case, request["path"]),
        _placed(case, request.get("body")),
        request.get("user", ""),
        request.get("type", "application/json"),
    )
    answer: Json = {"status": status}
    if warning:
        answer["warnings"] = WARNING.findall(warning)
    if status >= 400:
        answer |= {key: _steady(body[key]) for key in ("message", "reason") if key in body}
        causes = (body.get("details") or {}).get("causes")
        if causes:
            answer["causes"] = _steady(causes)
    return answer


def _steady(value: Any) -> Any:
    """Return a value without generated names."""
    if isinstance(value, str):
        return GENERATED.sub('"a-?????"', value)
    return [{key: _steady(text) for key, text in cause.items()} for cause in value]

"""Installs the objects of a chart in a cluster of dray, and reads what they allow."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import msgspec
from lightkube.models import networking_v1

from dray.api import http_messages, kinds
from dray.api.http_messages import Request, User
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client, collection_path
from tests import waiting
from tests.audit import Right
from tests.cluster.test_least_rights import granted
from tests.deploy.helm import NAMESPACE, RELEASE

JSON = {"content-type": http_messages.JSON, "accept": http_messages.JSON}
UNSERVED = {"NetworkPolicy", "PrometheusRule", "ServiceMonitor"}
"""Kinds that dray's API server does not serve; `_check_unserved` looks at them instead."""


async def make_namespace(client: Client) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await client.create(kinds.NAMESPACE, body)


async def install(client: Client, objects: Sequence[JsonObject]) -> None:
    """Create objects, and wait until the server has noticed their roles."""
    await send(client, objects)
    for role in (each for each in objects if each["kind"] in ("ClusterRole", "Role")):
        rule = role["rules"][0]
        asked = {
            "verb": rule["verbs"][0],
            "group": rule["apiGroups"][0],
            "resource": rule["resources"][0],
            "namespace": role["metadata"].get("namespace", ""),
        }
        user = f"system:serviceaccount:{NAMESPACE}:{role['metadata']['name']}"
        is_allowed = functools.partial(_is_allowed, client, user, asked)
        await waiting.until_answered(is_allowed, f"{user} being allowed {asked}")


async def _is_allowed(client: Client, user: str, asked: JsonObject) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": asked},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = await client.raw(Request("POST", path, (), JSON, msgspec.json.encode(body)))
    return bool(msgspec.json.decode(answer.body)["status"]["allowed"])


async def send(client: Client, objects: Iterable[JsonObject], *further: tuple[str, str]) -> None:
    """As `helm install` does: no field may be unknown to the server, and it warns of nothing."""
    query = (("fieldValidation", "Strict"), *further)
    for body in objects:
        if body["kind"] in UNSERVED:
            _check_unserved(body)
            continue
        group, _ = kinds.parse_api_version(body["apiVersion"])
        path = collection_path(
            kinds.served(group, body["kind"]), body["metadata"].get("namespace", "")
        )
        content = msgspec.json.encode(body)
        answer = await client.raw(Request("POST", path, query, JSON, content))
        assert answer.status == 201, (body, answer.body)
        assert "warning" not in answer.headers, answer.headers


def _check_unserved(body: JsonObject) -> None:
    """Policies have no field that is unknown to Kubernetes; the others are of the operator."""
    if body["kind"] == "NetworkPolicy":
        assert body["apiVersion"] == "networking.k8s.io/v1"
        assert networking_v1.NetworkPolicy.from_dict(body).to_dict() == body
    else:
        assert body["apiVersion"] == "monitoring.coreos.com/v1"


def account(chart: str, node: str = "") -> User:
    """The service account of a chart, in a pod on a node."""
    extra = (("authentication.kubernetes.io/node-name", (node,)),) if node else ()
    name = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-{chart}"
    return User(name, frozenset({"system:serviceaccounts", "system:authenticated"}), extra=extra)


def rights(objects: Iterable[JsonObject]) -> set[Right]:
    """What the roles of a chart allow."""
    return {right for body in objects for right in granted(tuple(body.get("rules", ())))}

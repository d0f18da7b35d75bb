"""Paths become requests about objects."""

from __future__ import annotations

import pytest

from dray.api.http_messages import Request
from dray.apiserver.request import request_info
from dray.apiserver.request.request_info import RequestInfo

DRA = "/apis/resource.k8s.io/v1"


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", (), RequestInfo("list", "", "", "v1", "", "pods")),
        (
            "GET",
            "/api/v1/pods",
            (("watch", "1"),),
            RequestInfo("watch", "", "", "v1", "", "pods"),
        ),
        (
            "POST",
            "/api/v1/namespaces/ns/pods/p/binding",
            (),
            RequestInfo("create", "", "", "v1", "ns", "pods", "p", "binding"),
        ),
        ("GET", "/api/v1/namespaces", (), RequestInfo("list", "", "", "v1", "", "namespaces")),
        (
            "DELETE",
            "/api/v1/namespaces/ns",
            (),
            RequestInfo("delete", "", "", "v1", "ns", "namespaces", "ns"),
        ),
        (
            "PUT",
            "/api/v1/namespaces/ns/finalize",
            (),
            RequestInfo("update", "", "", "v1", "ns", "namespaces", "ns", "finalize"),
        ),
        (
            "PATCH",
            f"{DRA}/namespaces/ns/resourceclaims/c/status",
            (),
            RequestInfo(
                "patch", "", "resource.k8s.io", "v1", "ns", "resourceclaims", "c", "status"
            ),
        ),
        (
            "DELETE",
            f"{DRA}/namespaces/ns/resourceclaims",
            (),
            RequestInfo("deletecollection", "", "resource.k8s.io", "v1", "ns", "resourceclaims"),
        ),
        ("GET", "/apis/resource.k8s.io/v1", (), RequestInfo("get", "")),
        ("GET", "/healthz", (), RequestInfo("get", "")),
        (
            "GET",
            "/api/v1/nodes/a%2Fb",
            (),
            RequestInfo("get", "", "", "v1", "", "nodes", "a/b"),
        ),
    ],
)
def test_parse(
    method: str, path: str, query: tuple[tuple[str, str], ...], expected: RequestInfo
) -> None:
    found = request_info.parse(Request(method, path, query))
    assert found == RequestInfo(
        expected.verb,
        path,
        expected.group,
        expected.version,
        expected.namespace,
        expected.resource,
        expected.name,
        expected.subresource,
    )

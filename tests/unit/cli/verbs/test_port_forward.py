"""`dray port-forward`: what is refused before anything is forwarded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli.conftest import Cluster, run

PORTS = [
    {"name": "http", "containerPort": 8080},
    {"name": "dns", "containerPort": 53, "protocol": "UDP"},
]


def pod(name: str, phase: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": PORTS}]},
        "status": {"phase": phase},
    }


def service(name: str, **selector: str) -> dict[str, Any]:
    ports = [
        {"name": "web", "port": 80, "targetPort": "http"},
        {"name": "lost", "port": 81, "targetPort": "nowhere"},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": selector, "ports": ports},
    }


@pytest.fixture(scope="module")
def forwarding(cluster: Cluster) -> Cluster:
    objects = [
        pod("waits", "Pending", app="waits"),
        pod("runs", "Running", app="runs"),
        service("front", app="runs"),
        service("empty", app="waits"),
        service("external"),
    ]
    made = {"apiVersion": "v1", "kind": "List", "items": objects}
    assert cluster.dray("create", "-f", "-", input=json.dumps(made)).exit_code == 0
    status = json.dumps({"status": {"phase": "Running"}})
    result = cluster.dray("patch", "pod", "runs", "--subresource=status", "-p", status)
    assert result.exit_code == 0, result.output
    return cluster


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("p", "0"), "write [LOCAL:]REMOTE"),
        (("p", "65536"), "write [LOCAL:]REMOTE"),
        (("p", "80:"), "write [LOCAL:]REMOTE"),
        (("p", "1:2:3"), "write [LOCAL:]REMOTE"),
        (("p", "a:80"), "the local port must be a number"),
        (("p", "65536:80"), "the local port must be a number"),
        (("p", "80", "--address", "example.com"), "that is no IP address"),
        (("p", "80", "--pod-running-timeout", "soon"), "write 30s, 1m or 2h"),
    ],
)
def test_wrong_arguments_are_told_without_a_cluster(argv: tuple[str, ...], message: str) -> None:
    result = run("port-forward", *argv, "--kubeconfig", "/dev/null")
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("nobody", "80"), 4, 'pods "nobody" not found'),
        (("waits", "80"), 1, "pod waits is not running but Pending"),
        (("runs", "ftp"), 1, "pod runs has no port with the name ftp"),
        (("runs", ":53"), 1, "port 53 is of UDP"),
        (("runs", ":dns"), 1, "port dns is of UDP"),
        (("svc/front", ":8080"), 1, "service front has no port 8080"),
        (("svc/front", ":lost"), 1, "pod runs has no port with the name nowhere"),
        (("svc/external", "80"), 4, "svc/external selects no pods"),
        (("svc/empty", "80", "--pod-running-timeout", "10ms"), 5, "has had no running pod"),
        (("runs", ":http"), 1, "pod"),
    ],
)
def test_what_cannot_be_forwarded_is_told(
    forwarding: Cluster, argv: tuple[str, ...], code: int, message: str
) -> None:
    result = forwarding.dray("port-forward", *argv)
    assert message in result.output
    assert result.exit_code == code, result.output

"""What does not end by itself: logs that are followed, and watches."""

from __future__ import annotations

import contextlib
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import Result

from tests.unit.cli.conftest import DRAY, Cluster, run

PODS = "/api/v1/namespaces/default/pods"
NAMES = {
    "p": ("main",),
    "many": ("first", "second"),
    "job-a": ("main",),
    "job-b": ("main",),
}
"""The pods of the server, with their containers."""
JOB = {"metadata": {"name": "j"}, "spec": {"selector": {"matchLabels": {"job": "j"}}}}
DISCOVERY = {
    "kind": "APIResourceList",
    "resources": [
        {"name": "jobs", "singularName": "job", "kind": "Job", "namespaced": True, "verbs": []},
        {"name": "secrets", "singularName": "secret", "kind": "Secret", "namespaced": True},
    ],
}


def pod(name: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if name == "job-b" else "False"}]
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": "n", "containers": [{"name": word} for word in NAMES[name]]},
        "status": {"phase": "Running", "conditions": conditions},
    }


def answer(path: str, query: dict[str, list[str]]) -> Any:
    """The document at a path, or None; for logs what was asked for."""
    selected = query.get("labelSelector") in (["job=j"], ["app=web"])
    documents: dict[str, Any] = {
        "/api": {"kind": "APIVersions", "versions": []},
        "/apis": {"kind": "APIGroupList", "groups": [{"versions": [{"groupVersion": "batch/v1"}]}]},
        "/apis/batch/v1": DISCOVERY,
        "/apis/batch/v1/namespaces/default/jobs/j": JOB,
        "/apis/batch/v1/namespaces/default/secrets/s": {"metadata": {"name": "s"}},
        PODS: {"items": [pod(name) for name in NAMES if name.startswith("job-")] * selected},
    }
    for name in NAMES:
        documents[f"{PODS}/{name}"] = pod(name)
        documents[f"{PODS}/{name}/log"] = {"pod": [name], **query}
    return documents.get(path)


class Kubelet(http.server.BaseHTTPRequestHandler):
    """Answers for pods and a job; for a log with what it was asked for."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        found = answer(url.path, parse_qs(url.query))
        if found is None:
            self.send_error(404, "no such pod")
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(found, sort_keys=True).encode() + b"\n")

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Kubelet)
    threading.Thread(target=server.serve_forever).start()
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x"}}],
        "clusters": [
            {"name": "x", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
    }
    file = tmp_path / "config"
    file.write_text(json.dumps(config), "utf-8")
    try:
        yield str(file)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ([], {}),
        (["-c", "main", "--tail=5"], {"tailLines": ["5"]}),
        (["--since=2m", "-p"], {"previous": ["true"], "sinceSeconds": ["120"]}),
        (["-f", "--timestamps"], {"follow": ["true"], "timestamps": ["true"]}),
        (["--since-time=2026-01-02T03:04:05Z"], {"sinceTime": ["2026-01-02T03:04:05Z"]}),
        (["--limit-bytes=10", "--follow=false", "--tail=-1"], {"limitBytes": ["10"]}),
    ],
)
def test_logs_pass_on_what_is_wanted(kubeconfig: str, options: list[str], asked: dict) -> None:
    result = run("logs", "--kubeconfig", kubeconfig, "pod/p", *options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output) == {"pod": ["p"], "container": ["main"], **asked}


def test_logs_of_a_pod_that_is_not_there(kubeconfig: str) -> None:
    assert run("logs", "--kubeconfig", kubeconfig, "q").exit_code == 4
    assert run("logs", "--kubeconfig", kubeconfig, "job/p").exit_code == 4


def logs(kubeconfig: str, *arguments: str) -> Result:
    return run("logs", "--kubeconfig", kubeconfig, *arguments)


def containers(result: Result) -> list[tuple[str, str]]:
    """Pod and container of every log that was printed."""
    assert result.exit_code == 0, result.output
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    return [(log["pod"][0], log["container"][0]) for log in printed]


def test_logs_of_a_job_are_those_of_its_ready_pod(kubeconfig: str) -> None:
    result = logs(kubeconfig, "job/j")
    assert containers(result) == [("job-b", "main")]
    assert result.stderr == "Found 2 pods, using pod/job-b\n"


def test_logs_of_all_pods_of_a_job(kubeconfig: str) -> None:
    lines = logs(kubeconfig, "job/j", "--all-pods").stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["[pod/job-b/main]", "[pod/job-a/main]"]


def test_logs_by_label_are_the_last_ten_lines_of_each_pod(kubeconfig: str) -> None:
    result = logs(kubeconfig, "-l", "app=web")
    assert containers(result) == [("job-a", "main"), ("job-b", "main")]
    assert '"tailLines": ["10"]' in result.stdout
    nothing = logs(kubeconfig, "-l", "app=other")
    assert nothing.exit_code == 4
    assert "no pod in default has the labels app=other" in nothing.stderr


def test_logs_of_the_first_container_or_of_all(kubeconfig: str) -> None:
    first = logs(kubeconfig, "many")
    assert containers(first) == [("many", "first")]
    assert first.stderr == 'Defaulted container "first" out of: first, second\n'
    both = logs(kubeconfig, "many", "--all-containers=true")
    assert containers(both) == [("many", "first"), ("many", "second")]
    wrong = logs(kubeconfig, "many", "-c", "third")
    assert wrong.exit_code == 1
    assert "Its containers: first, second" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "write POD, TYPE/NAME or -l LABELS"),
        (("p", "-l", "app=web"), "write POD, TYPE/NAME or -l LABELS"),
        (("p", "main", "--all-containers"), "--all-containers and a container"),
        (("p", "main", "-c", "main"), "only one container"),
        (("p", "--since=1m", "--since-time=2026-01-02T03:04:05Z"), "--since and --since-time"),
        (("p", "--since-time=yesterday"), "--since-time yesterday"),
        (("p", "--tail=-2"), "--tail -2"),
        (("job/j", "--all-pods", "-f", "--max-log-requests=1"), "2 logs cannot be followed"),
        (("secret/s",), "a Secret has no pods"),
    ],
)
def test_logs_that_cannot_be_meant(
    kubeconfig: str, arguments: tuple[str, ...], complaint: str
) -> None:
    refused = logs(kubeconfig, *arguments)
    assert refused.exit_code == 2, refused.output
    assert complaint in refused.stderr


@contextlib.contextmanager
def watching(cluster: Cluster, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [DRAY, "get", "--kubeconfig", cluster.kubeconfig, *arguments, "--watch"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_watch_shows_rows_below_one_header(cluster: Cluster) -> None:
    with watching(cluster, "cm", "-l", "app=watched") as process:
        assert process.stdout is not None
        for name in ("first", "second"):
            metadata = {"name": name, "labels": {"app": "watched"}}
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            created = cluster.dray("create", "-f", "-", input=json.dumps(document))
            assert created.exit_code == 0, created.output
        lines = [process.stdout.readline().split() for _ in range(3)]
    assert [line[0] for line in lines] == ["NAME", "first", "second"]


def test_a_watch_of_names(cluster: Cluster) -> None:
    with watching(cluster, "ns", "default", "-o", "name") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "namespace/default\n"

"""What does not end by itself: logs that are followed, and watches."""

from __future__ import annotations

import contextlib
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.cli.conftest import DRAY, Cluster, run

LOG = "/api/v1/namespaces/default/pods/p/log"


class Kubelet(http.server.BaseHTTPRequestHandler):
    """Answers for the log of one pod, with what it was asked for."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path != LOG:
            self.send_error(404, "no such pod")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(json.dumps(parse_qs(url.query), sort_keys=True).encode() + b"\n")

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
        (["-c", "main", "--tail=5"], {"container": ["main"], "tailLines": ["5"]}),
        (["--since=2m", "-p"], {"previous": ["true"], "sinceSeconds": ["120"]}),
        (["-f", "--timestamps"], {"follow": ["true"], "timestamps": ["true"]}),
    ],
)
def test_logs_pass_on_what_is_wanted(kubeconfig: str, options: list[str], asked: dict) -> None:
    result = run("logs", "--kubeconfig", kubeconfig, "pod/p", *options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output) == asked


def test_logs_of_a_pod_that_is_not_there(kubeconfig: str) -> None:
    assert run("logs", "--kubeconfig", kubeconfig, "q").exit_code == 4
    assert run("logs", "--kubeconfig", kubeconfig, "job/p").exit_code == 2


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

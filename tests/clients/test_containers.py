"""Real clients at real containers: `dray`, the official Python client, a recent kubectl."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as official
from kubernetes import config
from kubernetes.stream import stream

from tests import waiting
from tests.clients import test_kubectl
from tests.cluster.site import container, needs_sandbox, pod

pytestmark = needs_sandbox

SECONDS = 60.0
new_client: Any = config.new_client_from_config
SCRIPT = "echo one; echo two; cat; echo end"
BINARY = bytes(range(256)) * 400


class Shell:
    """Runs programs as the administrator of a cluster would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig")}

    def __call__(
        self, *argv: str, code: int = 0, typed: bytes | None = None
    ) -> tuple[bytes, bytes]:
        """What a program prints and says of errors; it must end with `code`."""
        ran = subprocess.run(
            [program(argv[0]), *argv[1:]],
            env=self.environment,
            input=typed,
            stdin=subprocess.DEVNULL if typed is None else None,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout, ran.stderr

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [program(argv[0]), *argv[1:]],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )


def program(name: str) -> str:
    return str(Path(sys.executable).with_name("dray")) if name == "dray" else name


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """A cluster of one machine with a pod `p` that runs."""
    folder = Path(tempfile.mkdtemp(prefix="dray-"))
    made = Shell(folder)
    options = ("--fleet", "h100", "--nodes", "1", "--runtime", "sandbox")
    up = made.start("dray", "up", "--data", str(folder), "--listen", "127.0.0.1:0", *options)
    try:
        wait_for(folder / "kubeconfig")
        main = container(SCRIPT, stdin=True)
        (folder / "pod.yaml").write_text(yaml.safe_dump(pod("p", main)), "utf-8")
        made("dray", "apply", "-f", str(folder / "pod.yaml"))
        made("dray", "wait", "--for=condition=Ready", "pod/p", "--timeout", "60s")
        yield made
    finally:
        up.terminate()
        up.communicate(timeout=SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(path: Path) -> None:
    waiting.block_until(path.exists, str(path), seconds=SECONDS)


def first_bytes(process: subprocess.Popen[bytes], count: int) -> bytes:
    assert process.stdout is not None
    seen, end = b"", time.monotonic() + SECONDS
    while len(seen) < count and time.monotonic() < end:
        if select.select([process.stdout], [], [], 1.0)[0]:
            seen += process.stdout.read(count - len(seen)) or b""
    return seen


def test_dray_shows_logs_and_runs_commands(shell: Shell) -> None:
    assert shell("dray", "logs", "p")[0] == b"one\ntwo\n"
    assert shell("dray", "logs", "pod/p", "--tail", "1")[0] == b"two\n"
    printed, said = shell(
        "dray", "exec", "p", "--", "sh", "-c", "echo out; echo err >&2; exit 3", code=3
    )
    assert (printed, said) == (b"out\n", b"err\n")
    assert shell("dray", "exec", "-i", "p", "--", "cat", typed=BINARY)[0] == BINARY
    _, said = shell("dray", "exec", "nobody", "--", "true", code=4)
    assert b'pods "nobody" not found' in said


JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {**container("echo one; exec sleep 1000"), "name": "a"},
                    {**container("echo two; exec sleep 1000"), "name": "b"},
                ],
            }
        }
    },
}


def test_dray_finds_the_pods_of_a_job_and_deletes_them_with_it(shell: Shell) -> None:
    (shell.folder / "job.yaml").write_text(yaml.safe_dump(JOB), "utf-8")
    shell("dray", "apply", "-f", str(shell.folder / "job.yaml"))
    selector = ("-l", "batch.kubernetes.io/job-name=j")
    goals = ("--for=create", "--for=condition=Ready", "--timeout=60s")
    shell("dray", "wait", "pods", *selector, *goals)
    printed, said = shell("dray", "logs", "job/j")
    assert printed == b"one\n"
    assert said == b'Defaulted container "a" out of: a, b\n'
    both, _ = shell("dray", "logs", *selector, "--all-containers", "--prefix")
    assert [line.rpartition(b"/")[2] for line in both.splitlines()] == [b"a] one", b"b] two"]
    assert shell("dray", "exec", "-q", "job/j", "--", "echo", "in")[0] == b"in\n"
    shell("dray", "delete", "job", "j")
    shell("dray", "wait", "pods", *selector, "--for=delete", "--timeout=60s")
    assert shell("dray", "get", "pods", *selector)[0] == b""


def test_dray_follows_a_log(shell: Shell) -> None:
    following = shell.start("dray", "logs", "-f", "p")
    assert first_bytes(following, 8) == b"one\ntwo\n"
    assert following.poll() is None
    following.kill()
    following.communicate()


@pytest.fixture
def api(shell: Shell) -> Iterator[Any]:
    with new_client(str(shell.folder / "kubeconfig")) as connected:
        yield official.CoreV1Api(connected)
        connected.rest_client.pool_manager.clear()


def test_the_python_client_reads_logs_and_runs_commands(api: Any) -> None:
    assert api.read_namespaced_pod_log("p", "default", tail_lines=1) == "two\n"
    command = ["sh", "-c", "read x; echo got $x; echo err >&2; exit 5"]
    session = stream(
        api.connect_get_namespaced_pod_exec,
        "p",
        "default",
        command=command,
        stdin=True,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    session.write_stdin("hello\n")
    session.run_forever(timeout=SECONDS)
    assert session.read_stdout() == "got hello\n"
    assert session.read_stderr() == "err\n"
    assert session.returncode == 5
    session.sock.shutdown()


kubectl_only = pytest.mark.skipif(not test_kubectl.is_recent(), reason="no recent kubectl on PATH")


@kubectl_only
def test_kubectl_shows_logs_and_runs_commands(shell: Shell) -> None:
    assert shell("kubectl", "logs", "p")[0] == b"one\ntwo\n"
    printed, said = shell("kubectl", "exec", "p", "--", "sh", "-c", "echo out; exit 3", code=3)
    assert printed == b"out\n"
    assert b"command terminated with exit code 3" in said
    assert shell("kubectl", "exec", "-i", "p", "--", "cat", typed=BINARY)[0] == BINARY


@kubectl_only
def test_kubectl_copies_files(shell: Shell) -> None:
    there, back = shell.folder / "there", shell.folder / "back"
    there.write_bytes(BINARY)
    shell("kubectl", "cp", str(there), "p:/tmp/there")
    shell("kubectl", "cp", "p:/tmp/there", str(back))
    assert back.read_bytes() == BINARY


@kubectl_only
def test_kubectl_attaches(shell: Shell) -> None:
    attached = shell.start("kubectl", "attach", "-i", "p")
    assert attached.stdin is not None
    end, seen = time.monotonic() + SECONDS, b""
    while b"hello" not in seen and time.monotonic() < end:
        # What is typed before it is attached is lost to those who watch.
        attached.stdin.write(b"hello\n")
        seen = first_bytes(attached, 6)
    attached.kill()
    attached.communicate()
    assert seen == b"hello\n"

"""Real clients at real containers: `dray`, the official Python client, a recent kubectl."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
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

    def start(self, *argv: str, errors: bool = False) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [program(argv[0]), *argv[1:]],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if errors else None,
            bufsize=0,
        )


def program(name: str) -> str:
    return str(Path(sys.executable).with_name("dray")) if name == "dray" else name


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """A cluster of one machine with a pod `p` that runs, and one `typed` to type into."""
    folder = Path(tempfile.mkdtemp(prefix="dray-"))
    made = Shell(folder)
    options = ("--fleet", "h100", "--nodes", "1", "--runtime", "sandbox")
    up = made.start("dray", "up", "--data", str(folder), "--listen", "127.0.0.1:0", *options)
    try:
        wait_for(folder / "kubeconfig")
        pods = [pod(name, container(SCRIPT, stdin=True)) for name in ("p", "typed")]
        (folder / "pods.yaml").write_text(yaml.safe_dump_all(pods), "utf-8")
        made("dray", "apply", "-f", str(folder / "pods.yaml"))
        made("dray", "wait", "--for=condition=Ready", "pod/p", "pod/typed", "--timeout", "60s")
        waiting.block_until(
            lambda: made("dray", "logs", "p")[0] == b"one\ntwo\n", "the log", seconds=SECONDS
        )
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


SERVER = """
import socket
listening = socket.create_server(("127.0.0.1", 8080))
print("up", flush=True)
while True:
    with listening.accept()[0] as connection:
        while chunk := connection.recv(65536):
            connection.sendall(chunk.upper())
"""


@pytest.fixture(scope="module")
def web(shell: Shell) -> Shell:
    """A pod that serves on a port, and a service in front of it."""
    ports = [{"name": "http", "containerPort": 8080}]
    served = pod("web", container("", command=["python3", "-c", SERVER], ports=ports))
    served["metadata"]["labels"] = {"app": "web"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "front"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
    }
    (shell.folder / "web.yaml").write_text(yaml.safe_dump_all([served, service]), "utf-8")
    shell("dray", "apply", "-f", str(shell.folder / "web.yaml"))
    shell("dray", "wait", "--for=condition=Ready", "pod/web", "--timeout", "60s")
    waiting.block_until(
        lambda: shell("dray", "logs", "web")[0] == b"up\n", "the server", seconds=SECONDS
    )
    return shell


def forwarded_port(process: subprocess.Popen[bytes], remote: int) -> int:
    assert process.stdout is not None
    found = re.fullmatch(
        rf"Forwarding from 127\.0\.0\.1:(\d+) -> {remote}\n", process.stdout.readline().decode()
    )
    assert found
    return int(found[1])


@pytest.mark.parametrize(
    "argv", [("service/front", ":80"), ("pod/web", ":http"), ("web", ":8080")], ids=" ".join
)
def test_dray_forwards_a_port(web: Shell, argv: tuple[str, ...]) -> None:
    forwarding = web.start("dray", "port-forward", *argv, "--address", "127.0.0.1")
    try:
        port = forwarded_port(forwarding, 8080)
        sent = b"abcdefgh" * 2**17
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
                sending = threading.Thread(target=connection.sendall, args=(sent,))
                sending.start()
                received = b""
                while len(received) < len(sent) and (chunk := connection.recv(65536)):
                    received += chunk
                sending.join()
                assert received == sent.upper()
    finally:
        forwarding.send_signal(signal.SIGINT)
        printed, _ = forwarding.communicate(timeout=SECONDS)
    assert printed == f"Handling connection for {port}\n".encode() * 2
    assert forwarding.returncode == 0


def test_dray_says_what_cannot_be_forwarded(web: Shell) -> None:
    forwarding = web.start("dray", "port-forward", "web", ":9", errors=True)
    try:
        port = forwarded_port(forwarding, 9)
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
            assert connection.recv(1) == b""
        assert forwarding.stderr is not None
        said = forwarding.stderr.readline().decode()
        assert said.startswith(f"Cannot forward {port} -> 9: error forwarding port 9 to pod")
        _, said_of_taken = web("dray", "port-forward", "web", f"{port}:80", code=1)
        assert f"cannot listen on port {port}".encode() in said_of_taken
    finally:
        forwarding.terminate()
        forwarding.communicate(timeout=SECONDS)


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


@pytest.fixture(params=["true", "false"], ids=["websockets", "spdy"])
def transported(shell: Shell, request: pytest.FixtureRequest) -> Shell:
    """The same cluster for a kubectl that uses WebSockets, and for one that uses SPDY."""
    made = Shell(shell.folder)
    made.environment["KUBECTL_REMOTE_COMMAND_WEBSOCKETS"] = request.param
    made.environment["KUBECTL_PORT_FORWARD_WEBSOCKETS"] = request.param
    return made


@kubectl_only
def test_kubectl_shows_logs_and_runs_commands(transported: Shell) -> None:
    assert transported("kubectl", "logs", "p")[0] == b"one\ntwo\n"
    script = "echo out; echo err >&2; exit 3"
    printed, said = transported("kubectl", "exec", "p", "--", "sh", "-c", script, code=3)
    assert printed == b"out\n"
    assert said == b"err\ncommand terminated with exit code 3\n"
    for _ in range(3):
        assert transported("kubectl", "exec", "-i", "p", "--", "cat", typed=BINARY)[0] == BINARY


@kubectl_only
def test_kubectl_gives_a_program_a_terminal(transported: Shell) -> None:
    script = 'until [ "$(stty size)" = "33 99" ]; do sleep 0.1; done; echo as wide'
    argv = ["kubectl", "exec", "-it", "p", "--", "sh", "-c", script]
    outer, inner = os.openpty()
    termios.tcsetwinsize(inner, (33, 99))
    process = subprocess.Popen(
        argv, env=transported.environment, stdin=inner, stdout=inner, stderr=inner
    )
    os.close(inner)
    seen = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(outer, 1000):
            seen += chunk
    os.close(outer)
    assert process.wait(SECONDS) == 0
    assert seen == b"as wide\r\n"


@kubectl_only
def test_kubectl_copies_files(transported: Shell) -> None:
    there, back = transported.folder / "there", transported.folder / "back"
    there.write_bytes(BINARY)
    transported("kubectl", "cp", str(there), "p:/tmp/there")
    transported("kubectl", "cp", "p:/tmp/there", str(back))
    assert back.read_bytes() == BINARY


@kubectl_only
def test_kubectl_attaches(transported: Shell) -> None:
    attached = transported.start("kubectl", "attach", "-i", "typed")
    assert attached.stdin is not None
    end, seen = time.monotonic() + SECONDS, b""
    while b"hello" not in seen and time.monotonic() < end:
        # What is typed before it is attached is lost to those who watch.
        attached.stdin.write(b"hello\n")
        seen = first_bytes(attached, 6)
    attached.kill()
    attached.communicate()
    assert seen == b"hello\n"

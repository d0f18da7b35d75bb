"""The example drivers as real processes: on a node of `dray up`, for containers that really run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dray.node.runtimes import selection
from tests import waiting

DRAY = Path(sys.executable).parent / "dray"
EXAMPLES = Path(__file__).parents[2] / "examples" / "drivers"
DEADLINE_SECONDS = 60.0
NODE = "l4-0"

pytestmark = pytest.mark.skipif(
    selection.choose(selection.AUTO).runtime is None, reason="containers cannot be run here"
)


@dataclass
class Site:
    """A cluster of real processes with one node."""

    data: Path

    @property
    def node(self) -> Path:
        return self.data / "nodes" / NODE

    def dray(self, *arguments: str) -> str:
        command = [str(DRAY), *arguments, "--kubeconfig", str(self.data / "kubeconfig")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        return ran.stdout if ran.returncode == 0 else ""

    def get(self, *arguments: str) -> Any:
        return json.loads(self.dray("get", *arguments, "-o", "json") or "{}")

    @contextlib.contextmanager
    def driver(self, name: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        places = ("--node", NODE, "--folder", self.node)
        process = subprocess.Popen(
            [sys.executable, EXAMPLES / name, "--kubeconfig", self.data / "kubeconfig", *places],
            env={**os.environ, **environment},
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(DEADLINE_SECONDS)

    def files(self, pattern: str) -> list[str]:
        """What there is on the node of claims and sockets of the examples."""
        return sorted(each.name for each in self.node.rglob(pattern))


def until(condition: Callable[[], Any], what: str) -> Any:
    return waiting.block_until(condition, what, seconds=DEADLINE_SECONDS)


@pytest.fixture
def site() -> Iterator[Site]:
    # Paths of sockets must be short, which pytest's own folders are not.
    data = Path(tempfile.mkdtemp(prefix="dray-"))
    options = ("--fleet", "l4", "--nodes", "1", "--data", data, "--listen", "127.0.0.1:0")
    process = subprocess.Popen([DRAY, "up", *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert any(line.startswith("Ctrl-C ends it") for line in process.stdout)
        yield Site(data)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_SECONDS)
        shutil.rmtree(data)


@pytest.mark.slow
def test_hello_greets_through_a_kill_and_an_upgrade(site: Site) -> None:
    def said() -> str:
        return site.dray("logs", "greeter")

    with site.driver("hello.py", POD_UID="one") as first:
        assert site.dray("apply", "-f", str(EXAMPLES / "hello.yaml"))
        assert until(said, "the greeting") == "ahoy from hello-1\n"
        first.kill()
    assert site.files("hello.example.com_claim_*")
    with site.driver("hello.py", POD_UID="two"), site.driver("hello.py", POD_UID="three") as third:
        until(lambda: len(site.files("hello.example.com-t*-reg.sock")) == 2, "two at once")
        third.terminate()
        until(lambda: not site.files("hello.example.com-three-reg.sock"), "the end of one")
        assert site.dray("delete", "pod", "greeter", "--grace-period=1")
        until(lambda: not site.files("hello.example.com_*"), "the claim being unprepared")
    assert not site.files("hello.example.com-two-reg.sock")


@pytest.mark.slow
def test_a_shared_gpu_is_shared_and_falls_ill(site: Site) -> None:
    fault = site.data / "fault"

    def said() -> list[str]:
        return [site.dray("logs", pod) for pod in ("first", "second")]

    def shares() -> list[Any]:
        claims = site.get("resourceclaims").get("items", ())
        return [device["data"] for claim in claims for device in claim["status"].get("devices", ())]

    def health(pod: str) -> Any:
        path = "{.status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health}"
        return site.dray("get", "pod", pod, "-o", f"jsonpath={path}")

    with site.driver("shared_gpu.py", IMAGINARY_GPU_FAULT=str(fault)):
        assert site.dray("apply", "-f", str(EXAMPLES / "shared_gpu.yaml"))
        until(lambda: said() == ["6Gi\n", "6Gi\n"], "both shares")
        until(lambda: shares() == [{"memory": "6Gi"}] * 2, "the shares in the claims' status")
        until(lambda: health("first") == "Healthy", "the device being healthy")
        assert "shared-gpu.example.com" in site.dray("get", "devices")
        assert "allocated" in site.dray("explain", "pod/first")
        fault.write_text("too hot\n", "utf-8")
        until(lambda: not site.get("pods")["items"], "the pods being evicted")
        until(lambda: not site.files("shared-gpu.example.com_*"), "the claims being unprepared")

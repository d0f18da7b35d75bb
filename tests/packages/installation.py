"""dray as somebody has it who has no repository: a program on the PATH, and an empty home."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests import waiting
from tests.pages import ROOT

DEADLINE_SECONDS: Final = 60.0


class Installation:
    """Programs in folders of the PATH, run in a home of their own."""

    def __init__(self, home: Path, *folders: Path, cache: Path | None = None) -> None:
        self.home = home
        self.home.mkdir()
        path = os.pathsep.join([*map(str, folders), os.defpath])
        kubeconfig = str(self.home / "data" / "kubeconfig")
        self.environment = {"PATH": path, "HOME": str(self.home), "KUBECONFIG": kubeconfig}
        if cache is not None:
            self.environment["XDG_CACHE_HOME"] = str(cache)

    def run(self, *command: str, exit_code: int = 0) -> str:
        """Run a command; what it printed to its standard output."""
        done = subprocess.run(
            command,
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_SECONDS,
        )
        assert done.returncode == exit_code, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextlib.contextmanager
    def cluster(self) -> Iterator[None]:
        """Run `dray up` until the cluster is ready, and then until the block ends."""
        command = ["dray", "up", "--data", str(self.home / "data"), "--fleet", "quickstart"]
        options = ["--listen", "127.0.0.1:0", "--runtime", "none"]
        log = self.home / "up.log"
        with log.open("w+") as output:
            process = subprocess.Popen(
                [*command, *options],
                cwd=self.home,
                env=self.environment,
                stdout=output,
                stderr=output,
            )
            try:
                _wait_until_up(process, log)
                yield
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(DEADLINE_SECONDS)
        assert process.returncode == 0, log.read_text("utf-8")

    def check_cluster(self) -> None:
        """Assert that a cluster runs and gives a pod its device."""
        with self.cluster():
            # The drivers publish them when the API server is up.
            waiting.block_until(
                lambda: "gpu-0/gpu-0" in self.run("dray", "get", "devices"), "a device"
            )
            self.run("dray", "apply", "-f", str(ROOT / "examples" / "01-one-gpu"))
            self.run("dray", "wait", "--for=condition=Ready", "pod/train", "--timeout", "60s")
            claims = self.run("dray", "get", "resourceclaims")
            assert "allocated,reserved" in claims


def _wait_until_up(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while "dray is up" not in log.read_text("utf-8"):
        assert process.poll() is None, log.read_text("utf-8")
        assert time.monotonic() < deadline, log.read_text("utf-8")
        time.sleep(0.05)

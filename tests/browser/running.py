"""A cluster of `dray up` with its dashboard, in a process of its own."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client, config

from tests import waiting

DRAY: Final = str(Path(sys.executable).parent / "dray")
SECONDS: Final = 60.0
_LINK: Final = re.compile(r"http://127\.0\.0\.1:\d+/ui/#key=\S+")


@dataclass(frozen=True)
class RunningDray:
    """A cluster that runs; `link` works once."""

    data: Path
    link: str
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        return self.link.partition("#")[0]

    @property
    def kubeconfig(self) -> Path:
        return self.data / "kubeconfig"

    def run(self, *arguments: str, text: str = "", exit_code: int = 0) -> str:
        """Run a command of dray; what it printed."""
        done = subprocess.run(
            [DRAY, *arguments],
            env={
                "KUBECONFIG": str(self.kubeconfig),
                "HOME": str(self.data),
                "PATH": "/usr/bin:/bin",
            },
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == exit_code, done.stdout + done.stderr
        return done.stdout

    def apply(self, *documents: dict[str, Any]) -> None:
        self.run("apply", "--no-lint", "-f", "-", text=yaml.safe_dump_all(documents))

    @contextlib.contextmanager
    def api(self) -> Iterator[client.ApiClient]:
        """The official client: it is quicker than a command."""
        with config.new_client_from_config(str(self.kubeconfig)) as found:  # type: ignore[no-untyped-call]
            yield found


@contextlib.contextmanager
def running(data: Path, *options: str) -> Iterator[RunningDray]:
    """Run `dray up` with simulated pods until the block ends."""
    log = data.with_suffix(".log")
    command = [DRAY, "up", "--data", str(data), "--runtime", "none", "--listen", "127.0.0.1:0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *options], stdout=output, stderr=output, cwd=data.parent
        )
        try:
            link = waiting.block_until(lambda: _found(process, log), "the link", seconds=SECONDS)
            assert link is not None
            yield RunningDray(data, link, process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS)


def _found(process: subprocess.Popen[bytes], log: Path) -> str | None:
    text = log.read_text("utf-8")
    assert process.poll() is None, text
    found = _LINK.search(text)
    return found.group() if found else None


def pod(name: str, template: str, **metadata: Any) -> dict[str, Any]:
    """A pod with a claim from a template."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "example.com/x",
                    "resources": {"claims": [{"name": "gpu"}]},
                }
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def template(name: str, *selectors: str, device_class: str = "gpu.nvidia.com") -> dict[str, Any]:
    """A template of a claim for one device."""
    exactly: dict[str, Any] = {"deviceClassName": device_class}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": selector}} for selector in selectors]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }

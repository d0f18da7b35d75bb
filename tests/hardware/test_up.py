"""`dray up` on a machine with a GPU, as somebody uses it: by the commands alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from dray.drivers.nvidia.hardware import Gpu
from dray.node.runtimes import sandbox
from tests.nvidia.site import GPU_CLASS, claim_template, shell

DRAY = [sys.executable, "-c", "from dray.cli.main import main; main()"]
DEADLINE_SECONDS = 60.0
FORTY = f'device.capacity["{GPU_CLASS}"].memory.compareTo(quantity("40Gi")) >= 0'

pytestmark = pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")


@dataclass
class Person:
    """Somebody with a terminal and a data directory."""

    folder: Path

    def dray(self, *arguments: str) -> str:
        env = {**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig")}
        ran = subprocess.run([*DRAY, *arguments], env=env, capture_output=True, text=True)
        return ran.stdout + ran.stderr

    def sees(self, look: Callable[[], str], text: str) -> str:
        """What a look shows once some text is in it."""
        ends, seen = time.monotonic() + DEADLINE_SECONDS, ""
        while time.monotonic() < ends:
            seen = look()
            if text in seen:
                return seen
            time.sleep(0.1)
        raise AssertionError(f"{text!r} is not in {seen!r}\n{self.dray('events')}")

    def logs(self, pod: str, text: str) -> str:
        return self.sees(lambda: self.dray("logs", pod), text)


@contextlib.contextmanager
def up(folder: Path) -> Iterator[Person]:
    command = [*DRAY, "up", "--data", str(folder), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        person = Person(folder)
        person.sees(lambda: str(list(folder.glob("kubeconfig"))), "kubeconfig")
        yield person
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            print(process.communicate(timeout=DEADLINE_SECONDS)[0])
        finally:
            process.kill()


def test_dray_up_finds_the_gpu_and_a_pod_gets_it(gpu: Gpu, tmp_path: Path) -> None:
    documents = [
        claim_template("forty", GPU_CLASS, FORTY),
        shell("claims", "nvidia-smi -L; exec sleep 600", "forty"),
        shell("claims-not", "ls /dev | grep -c nvidia; nvidia-smi -L; echo done"),
    ]
    manifest = tmp_path / "pods.yaml"
    manifest.write_text(yaml.safe_dump_all(documents), "utf-8")
    folder = tmp_path / "data"
    folder.mkdir()
    with up(folder) as person:
        print(person.sees(lambda: person.dray("get", "devices"), f"gpu-{gpu.minor}"))
        print(person.dray("apply", "-f", str(manifest)))
        listed = person.logs("claims", "UUID")
        assert listed == f"GPU 0: {gpu.name} (UUID: {gpu.uuid})\n"
        free = person.logs("claims-not", "done")
        assert free.splitlines()[0] == "0"
        assert "UUID" not in free
        print(person.dray("get", "pods,resourceclaims"))
        print(person.dray("delete", "pod", "claims", "claims-not"))
        person.sees(lambda: person.dray("get", "pods"), "No resources found")

"""Signals reach the shim of a container, and nobody else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from dray.node.containers import pod_sandboxes, shim
from dray.node.containers.container_attempts import ContainerAttempt


def attempt_of(process: subprocess.Popen[bytes], folder: Path) -> ContainerAttempt:
    """Return a start of a container whose shim is a process."""
    described = {"pid": process.pid, "born": pod_sandboxes.born(process.pid), "startedAt": 0}
    (folder / shim.PROCESS).write_text(json.dumps(described), "utf-8")
    return ContainerAttempt(folder)


def test_a_signal_reaches_the_shim(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        attempt_of(process, tmp_path).terminate()
        assert process.wait(60) == -signal.SIGTERM


def test_a_shim_that_ends_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["true"]) as process:
        attempt = attempt_of(process, tmp_path)
        process.wait(60)
        monkeypatch.setattr(ContainerAttempt, "_is_alive", lambda self: True)
        attempt.kill()


def test_another_process_with_its_number_gets_no_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([True, False])
    monkeypatch.setattr(ContainerAttempt, "_is_alive", lambda self: next(answers))
    with subprocess.Popen(["sleep", "1000"]) as process:
        attempt_of(process, tmp_path).terminate()
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)


def test_what_never_began_gets_no_signal(tmp_path: Path) -> None:
    ContainerAttempt(tmp_path).kill()

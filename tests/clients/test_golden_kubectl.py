"""What kubectl printed with a real Kubernetes 1.37, printed again with dray, command by command.

Only the commands that talk to the API server alone; where controllers have a part, the flows are
in `tests/cluster/test_golden_flows.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.api import kinds
from dray.apiserver.server import Settings
from dray.client import kubeconfig
from dray.client.api_client import Client
from tests.clients.serving import Served
from tests.clients.test_kubectl import SECONDS, is_recent
from tests.cluster import transcripts
from tests.recorded import GOLDEN
from tests.wire.serving import all_alpha

CASES = ("001", "033", "035", "036")

OTHERWISE = {
    "continue=garbage": "the reason is in other words",
    "watch=1&resourceVersion=1&": "dray still has this history",
}
"""Commands whose answer differs, and why."""

CHANGING = (
    (r'Warning: request ".*": selector \d+ matches 0 of \d+ devices today\n', ""),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"20\d\d-\d\d-\d\d[T ][\d:.]+( \+0000|Z)", "TIME"),
    (r'([rR]esource ?[vV]ersion"?: *)"?\d+"?', r"\1N"),
    (r"current: \d+", "current: N"),
    (r"\b\d+m?\d*s\b", "AGE"),
    (r"[\w/.-]*(LIVE|MERGED)-\d+", r"\1"),
    (r" +", " "),
)

pytestmark = pytest.mark.skipif(not is_recent(), reason="no recent kubectl on PATH")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with what the recorded one had when these commands were given."""
    with Served(tmp_path, Settings(features=all_alpha())).running() as running:
        running.do(_prepare)
        kubeconfig.write(tmp_path / "alice.kubeconfig", running.connection("alice"))
        yield running


async def _prepare(client: Client) -> None:
    """The recorded slice of the small node."""
    (step,) = [
        each
        for each in transcripts.read("002-resourceslices").steps
        if "small-0-gpu.example.com" in each.words and "yaml" in each.words
    ]
    (piece,) = transcripts.items(step.output)
    piece["metadata"] = {key: piece["metadata"][key] for key in ("name", "ownerReferences")}
    await client.create(kinds.RESOURCE_SLICE, piece)


@pytest.mark.slow
@pytest.mark.parametrize("name", transcripts.present(*CASES))
def test_kubectl_prints_the_same(name: str, served: Served, tmp_path: Path) -> None:
    if not name.startswith("001"):
        served.do(_device_class)
    for folder in (name, "010-template-cel-memory-pod"):
        GOLDEN.copy(folder, tmp_path / folder)
    environment = {
        **os.environ,
        "KUBECONFIG": str(served.kubeconfig),
        "RUN": str(tmp_path),
        "HOME": str(tmp_path),
    }
    for command, expected in _commands(name):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path / name,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        ending = f"[exit {done.returncode}]" if done.returncode else ""
        if not any(part in command for part in OTHERWISE):
            assert _comparable(done.stdout + ending) == _comparable(expected), command


async def _device_class(client: Client) -> None:
    (body,) = transcripts.read("001-deviceclass").manifests["manifest.yaml"]
    await client.create(kinds.DEVICE_CLASS, body)


def _commands(name: str) -> Iterator[tuple[str, str]]:
    """Commands and what they printed; `curl` had HTTP/2 to print."""
    text = GOLDEN.read(f"{name}/output.txt")
    for block in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = block.partition("\n")
        if not command.startswith("curl "):
            yield command, output


def _comparable(output: str) -> list[str]:
    """The lines, less what changes; in any order, as managers of one second have none."""
    for pattern, replacement in CHANGING:
        output = re.sub(pattern, replacement, output)
    return sorted(line.strip() for line in output.splitlines() if line.strip())

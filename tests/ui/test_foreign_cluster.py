"""`dray ui` beside a server: it sends GET requests only, unless it may act."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.ui.browser import Browser, link_in
from tests.ui.processes import UP, Up, claim, pod
from tests.unit.cli.conftest import DRAY


def running(up: Up, *options: str) -> tuple[subprocess.Popen[str], Browser]:
    process = subprocess.Popen(
        [str(DRAY), "ui", "--kubeconfig", str(up.kubeconfig), *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url, key = link_in(process.stdout.readline())
    browser = Browser(url)
    assert browser.log_in(key=key).status == 200
    return process, browser


def ended(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_it_only_reads(tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    up = Up(tmp_path / "data", "--audit-log", str(audit), "--ui-listen", "none")
    assert "/ui/" not in up.output
    try:
        up.create(claim("held"), pod("runs", "held"), claim("many", count=99), pod("waits", "many"))
        before = len(audit.read_text().splitlines())
        process, browser = running(up)
        with browser.stream() as stream:
            state = stream.until(
                lambda state: state["waiting"].get("pod/default/waits", {}).get("reason"),
                "a reason",
            )
        assert len(state["cells"]) == 5
        paths = (
            *("session", "health", "capacity", "explain/pod/default/waits", "pod/default/runs"),
            *("claim/default/held", "node/gpu-0"),
        )
        for path in paths:
            assert browser.get(path).status == 200, path
        assert browser.get("history/span").status == 404
        answer = browser.post("actions", {"action": "cordon", "node": "gpu-0"})
        assert (answer.status, answer.document["advice"]) == (
            403,
            "Start it with: dray ui --allow-actions",
        )
        assert browser.session["canAct"] is False
        assert Browser(browser.origin).log_in(token=up.token("default")).status == 401
        ended(process)
        lines = [json.loads(line) for line in audit.read_text().splitlines()[before:]]
        verbs = {line["verb"] for line in lines if line["user"]["username"] == "admin"}
        # Besides the token that this test has asked for.
        assert verbs - {"create"} <= {"get", "list", "watch"}
        created = [
            line["requestURI"].partition("?")[0]
            for line in lines
            if line["verb"] == "create" and line["user"]["username"] == "admin"
        ]
        assert created == ["/api/v1/namespaces/default/serviceaccounts/default/token"]
    finally:
        up.end()


def test_it_acts_if_it_may(up: Up) -> None:
    process, browser = running(up, "--allow-actions")
    try:
        assert browser.session["canAct"]
        assert browser.session["rights"] == {
            "deletePods": ["*"],
            "cordon": True,
            "taintDevices": True,
        }
        assert browser.post("actions", {"action": "cordon", "node": "gpu-0"}).status == 200
        assert browser.post("actions", {"action": "uncordon", "node": "gpu-0"}).status == 200
    finally:
        ended(process)


def test_it_records(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    process, browser = running(up, "--record", str(file))
    try:
        assert browser.get("history/span").status == 200
        assert file.stat().st_mode & 0o777 == 0o600
    finally:
        ended(process)


@pytest.mark.parametrize("option", ["--ui-listen=0.0.0.0:0", "--ui-listen=nonsense"])
def test_up_refuses_what_others_can_reach(tmp_path: Path, option: str) -> None:
    done = subprocess.run(
        [*UP, "--data", str(tmp_path), option], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "--ui-listen" in done.stderr

"""`dray ui` beside a server: it sends GET requests only, unless it may act."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.ui.browser import Browser, link_in
from tests.ui.processes import READ, UP, Up, claim, pod, role, service_account
from tests.unit.cli.conftest import DRAY


def started(up: Up, *options: str) -> tuple[subprocess.Popen[str], str, str]:
    """Start `dray ui`; return it with its URL and its key."""
    process = subprocess.Popen(
        [str(DRAY), "ui", "--kubeconfig", str(up.kubeconfig), *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, *link_in(process.stdout.readline())


def running(up: Up, *options: str) -> tuple[subprocess.Popen[str], Browser]:
    process, url, key = started(up, *options)
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


@pytest.mark.parametrize("command", [["record", "--file"], ["ui", "--record"]])
def test_who_may_not_read_everything_cannot_record(
    up: Up, tmp_path: Path, command: list[str]
) -> None:
    up.create(service_account("some"), *role("some", "default", (READ, "", "pods")))
    config = yaml.safe_load(up.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": up.token("some")}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    options = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    done = subprocess.run(
        [str(DRAY), *command, str(tmp_path / "history.db"), *options],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    expected = "you may not list deviceclasses, resourceslices, resourceclaims, pods"
    assert expected in done.stderr
    assert "Recording" not in done.stdout


@pytest.mark.parametrize(
    "option",
    [
        *("--ui-listen=0.0.0.0:0", "--ui-listen=nonsense"),
        *("--tls-san=https://gpus.example.com", "--tls-san=gpus.example.com:6443", "--tls-san=é"),
    ],
)
def test_up_refuses_addresses_that_are_wrong(tmp_path: Path, option: str) -> None:
    done = subprocess.run(
        [*UP, "--data", str(tmp_path), option], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert option.partition("=")[0] in done.stderr


def test_a_key_that_logged_nobody_in_still_works(tmp_path: Path) -> None:
    up = Up(tmp_path / "data", "--ui-listen", "none")
    address = up.api_url.removeprefix("https://")
    process, url, key = started(up)
    try:
        up.process.kill()
        up.process.communicate(timeout=30)
        lost = Browser(url).log_in(key=key)
        assert (lost.status, "set-cookie" in lost.headers) == (503, False)
        assert lost.message == "the API server does not answer"
        up = Up(up.data, "--ui-listen", "none", "--listen", address)
        assert Browser(url).log_in(key=key).status == 200
        assert Browser(url).log_in(key=key).status == 401
    finally:
        ended(process)
        up.end()


def test_it_says_that_the_api_server_is_lost_and_found(tmp_path: Path) -> None:
    up = Up(tmp_path / "data", "--ui-listen", "none")
    address = up.api_url.removeprefix("https://")
    process, browser = running(up)
    try:
        with browser.stream() as stream:
            assert stream.first()["outage"] is None
            up.process.kill()
            up.process.communicate(timeout=30)
            state = stream.until(lambda state: state["outage"], "the outage")
            assert f"cannot reach https://{address}" in state["outage"]["reason"]
            with browser.stream() as later:
                assert later.first()["outage"] == state["outage"]
            up = Up(up.data, "--ui-listen", "none", "--listen", address)
            state = stream.until(lambda state: state["outage"] is None, "the server")
            up.create(claim("after", count=99))
            stream.until(lambda state: "claim/default/after" in state["waiting"], "the claim")
    finally:
        ended(process)
        up.end()

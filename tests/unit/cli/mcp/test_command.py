"""`dray mcp` as a command."""

from __future__ import annotations

import builtins
import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.unit.cli.conftest import DRAY, START_SECONDS, run

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.mark.parametrize("end", ["end of input", signal.SIGINT, signal.SIGTERM])
def test_the_server_ends_when_it_should(end: str | signal.Signals) -> None:
    with subprocess.Popen(
        [DRAY, "mcp", "--against", "quickstart"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(HELLO) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        assert answer["result"]["serverInfo"]["name"] == "dray"
        if isinstance(end, str):
            server.stdin.close()
        else:
            server.send_signal(end)
        expected = 0 if isinstance(end, str) else -end
        assert server.wait(START_SECONDS) == expected


def test_without_the_package_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = builtins.__import__

    def without_mcp(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] in ("mcp", "mcp_types"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
        return genuine(name, *rest)

    monkeypatch.delitem(sys.modules, "dray.cli.mcp.server", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_mcp)
    result = run("mcp")
    assert result.exit_code == 1
    assert "pip install 'dray[mcp]'" in result.stderr

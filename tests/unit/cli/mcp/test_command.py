"""`dray mcp` as a command."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from tests.unit.cli.conftest import run


def test_without_the_package_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = builtins.__import__

    def without_mcp(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] in ("mcp", "mcp_types"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
        return genuine(name, *rest)

    monkeypatch.delitem(__import__("sys").modules, "dray.cli.mcp.server", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_mcp)
    result = run("mcp")
    assert result.exit_code == 1
    assert "pip install 'dray[mcp]'" in result.stderr

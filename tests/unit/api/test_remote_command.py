"""Messages of exec and attach."""

from __future__ import annotations

import pytest

from dray.api import remote_command
from dray.api.remote_command import CommandOutcome, TerminalSize


@pytest.mark.parametrize("code", [0, 1, 3, 137])
def test_exit_codes_go_through_the_error_channel(code: int) -> None:
    message = remote_command.exit_status(code)
    assert message[0] == remote_command.ERROR
    assert remote_command.outcome(message[1:]).code == code


def test_a_failure_to_run_has_no_exit_code() -> None:
    found = remote_command.outcome(remote_command.failure("nsenter: not found")[1:])
    assert found == CommandOutcome(None, "nsenter: not found")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            remote_command.resizing(TerminalSize(24, 80))[1:], TerminalSize(24, 80), id="as-written"
        ),
        pytest.param(b'{"Width":80}', None, id="half"),
        pytest.param(b'{"Width":0,"Height":24}', None, id="nothing"),
        pytest.param(b'{"Width":70000,"Height":24}', None, id="too-wide"),
        pytest.param(b"[]", None, id="a-list"),
        pytest.param(b"80x24", None, id="no-json"),
    ],
)
def test_sizes_of_terminals_are_read_or_ignored(data: bytes, expected: TerminalSize | None) -> None:
    assert remote_command.size(data) == expected

"""Exec, attach and log streams between clients, the API server and node agents.

Messages carry numbered channels, as kubectl and kubelets use them over WebSockets.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

CERTIFICATE_ANNOTATION: Final = "dray.dev/agent-certificate"
"""Of a Node: the certificate of its agent. Only the node itself may write it, so it is proven."""
API_SERVER_NAME: Final = "kube-apiserver-kubelet-client"
"""The name in the certificate by which an API server asks nodes."""
EXEC, ATTACH, LOGS, PORT_FORWARD = "exec", "attach", "containerLogs", "portForward"
"""What an agent is asked for: the first part of its paths, as a kubelet's."""
IN_NAME_ONLY: Final = "none://"
"""How the runtime version of a node begins that starts nothing."""


STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE: Final = 255
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
PROTOCOLS: Final = (V5, V4)
"""The newest first."""
V1: Final = "channel.k8s.io"
"""The same channels without an exit status."""
LOG_PROTOCOL: Final = "binary.k8s.io"
SPDY: Final = "SPDY/3.1"
PORT_FORWARD_PROTOCOL: Final = "portforward.k8s.io"
TUNNEL: Final = f"{SPDY}+{PORT_FORWARD_PROTOCOL}"
"""The bytes of SPDY in the messages of a WebSocket."""
NON_ZERO: Final = "NonZeroExitCode"
EXIT_CODE: Final = "ExitCode"


class TerminalSize(NamedTuple):
    """The size of a terminal."""

    rows: int
    columns: int


def message(channel: int, data: bytes) -> bytes:
    return bytes((channel,)) + data


def closing(channel: int) -> bytes:
    return bytes((CLOSE, channel))


def exit_status(code: int) -> bytes:
    """Return the message for the error channel that says how a command ended."""
    if code == 0:
        return _status({"status": "Success"})
    cause = {"reason": EXIT_CODE, "message": str(code)}
    return _status(
        {
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "reason": NON_ZERO,
            "details": {"causes": [cause]},
        }
    )


def failure(text: str) -> bytes:
    """Return the message for the error channel that says why a command could not be run."""
    return _status({"status": "Failure", "message": text, "reason": "InternalError", "code": 500})


def _status(fields: dict[str, Any]) -> bytes:
    return message(ERROR, msgspec.json.encode({"metadata": {}, **fields}))


class CommandOutcome(NamedTuple):
    """The message of the error channel: an exit code, or why the command did not run."""

    code: int | None
    message: str = ""


def outcome(status: bytes) -> CommandOutcome:
    result = msgspec.json.decode(status)
    if result.get("status") == "Success":
        return CommandOutcome(0)
    for cause in (result.get("details") or {}).get("causes") or ():
        if result.get("reason") == NON_ZERO and cause.get("reason") == EXIT_CODE:
            return CommandOutcome(int(cause["message"]), str(result.get("message", "")))
    return CommandOutcome(None, str(result.get("message", "")))


def resizing(size: TerminalSize) -> bytes:
    body = {"Width": size.columns, "Height": size.rows}
    return message(RESIZE, msgspec.json.encode(body))


def size(data: bytes) -> TerminalSize | None:
    """Return the size in a message on the resize channel, or None if it is invalid."""
    try:
        message = msgspec.json.decode(data)
        new_size = TerminalSize(int(message["Height"]), int(message["Width"]))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return None
    return new_size if 0 < new_size.rows < 2**16 and 0 < new_size.columns < 2**16 else None

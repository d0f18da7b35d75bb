"""Hints on command lines that cannot be parsed, as users of kubectl write them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

FILES = (".yaml", ".yml", ".json")
MEANT = {
    "list": "get",
    "ls": "get",
    "ps": "get pods",
    "queue": "explain -A",
    "remove": "delete",
    "rm": "delete",
    "show": "describe",
    "start": "up",
    "stop": "down",
    "use-context": "--context",
    "watch": "get --watch",
    "why": "explain",
}
"""Words that other tools have for commands."""


class UsageHint(NamedTuple):
    message: str
    advice: str


def of(command: str, arguments: Sequence[str]) -> UsageHint | None:
    """Return the hint for a command that does not accept these arguments, or None."""
    words = list(itertools.takewhile(lambda word: not word.startswith("-"), arguments))
    rest = " ".join(arguments)
    if not words:
        return None
    first = words[0]
    match command:
        case "apply" | "create" if "/" in first or first.endswith(FILES):
            return UsageHint("files are given with -f", f"Write: dray {command} -f {first}")
        case "create":
            message = f"dray creates objects from files; kubectl has `create {first}`."
            return UsageHint(message, f"Use: kubectl create {rest}")
        case "top" if first.startswith(("po", "no")):
            message = f"top shows all nodes, devices and waiting pods: leave out {first}"
            return UsageHint(message, f"For the use of CPU and memory: kubectl top {rest}")
        case "top" | "doctor" | "status":
            return UsageHint(
                f"{command} is about the whole cluster: leave out {first}",
                f"Write: dray {command}. About one object: dray explain TYPE/NAME",
            )
        case "events":
            named = first if "/" in first else "/".join(words[:2]) if words[1:] else f"pod/{first}"
            return UsageHint("objects are given with --for", f"Write: dray events --for {named}")
        case "snapshot":
            return UsageHint("a snapshot is printed", f"Write: dray snapshot > {first}")
        case "wait":
            return UsageHint(
                "wait needs --for", f"Write: dray wait {' '.join(words)} --for=condition=Ready"
            )
        case "port-forward" if len(words) == 1:
            return UsageHint("name the port", f"Write: dray port-forward {first} 8080:80")
    return None

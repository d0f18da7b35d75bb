"""Selects the runtime of a node: the requested one, or the first that works here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.node.runtimes import podman, process, sandbox, simulated
from dray.node.runtimes.interface import Runtime, RuntimeUnusable

AUTO: Final = "auto"
NAMES: Final = (AUTO, sandbox.NAME, podman.NAME, process.NAME, simulated.NAME)
MAX_REAL_MACHINES: Final = 16
"""More nodes than this on one host would leave little of it for their containers."""


@dataclass(frozen=True)
class Choice:
    """A runtime, or None for simulated pods, and the reason for the choice."""

    runtime: Runtime | None
    why: str

    @property
    def name(self) -> str:
        return self.runtime.name if self.runtime is not None else simulated.NAME


def choose(name: str, *, machines: int = 1, allows_host: bool = False) -> Choice:
    """Choose a runtime by its name. Raises Unusable for a requested one that does not work here."""
    if name == simulated.NAME:
        return Choice(None, "as requested")
    if name == AUTO:
        return _first_usable(machines)
    runtime = _named(name, allows_host)
    runtime.try_out()
    return Choice(runtime, "as requested, and it works here")


def _first_usable(machines: int) -> Choice:
    if machines > MAX_REAL_MACHINES:
        text = (
            f"the fleet has {machines} machines, and containers run on at most {MAX_REAL_MACHINES}"
        )
        return Choice(None, f"{text}; --runtime sandbox runs them anyway")
    failures = []
    for runtime in (sandbox.Sandbox(), podman.Podman()):
        try:
            runtime.try_out()
        except RuntimeUnusable as error:
            failures.append(str(error))
        else:
            return Choice(runtime, "the first that works here")
    return Choice(None, "; ".join(failures))


def _named(name: str, allows_host: bool) -> Runtime:
    if name == sandbox.NAME:
        return sandbox.Sandbox()
    if name == podman.NAME:
        return podman.Podman()
    if name != process.NAME:
        raise RuntimeUnusable(f"there is no runtime {name}; there are {', '.join(NAMES)}")
    if not allows_host:
        raise RuntimeUnusable("it isolates nothing, so it needs --allow-host-access, too")
    return process.PlainProcess()

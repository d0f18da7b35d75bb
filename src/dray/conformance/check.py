"""The form of a check: its identity, its requirement, and how it ends."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Body = Callable[[Any], Awaitable[None]]
"""A coroutine function of the Site; it raises one of the exceptions below or returns."""


class CheckFailed(Exception):
    """The driver does not do what the check requires; the text is what was seen."""


class NotApplicable(Exception):
    """The check cannot be made with this driver or in this mode; the text is the reason."""


class CheckOutcome(enum.Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class ConformanceCheck:
    """`id` is stable: reports and pipelines of users refer to it."""

    id: str
    requirement: str
    source: str
    """Where Kubernetes says so."""
    advice: str
    body: Body
    in_background: bool = False
    """Whether it mostly waits, and may do so while other checks run."""
    ends_driver: bool = False
    """Whether it ends or replaces the driver's process."""

    @property
    def group(self) -> str:
        return self.id.partition(".")[0]


@dataclass(frozen=True)
class CheckResult:
    """The end of one check. `seen` is what failed, or why it was skipped."""

    check: ConformanceCheck
    outcome: CheckOutcome
    seen: str = ""
    seconds: float = 0.0


class Group:
    """Collects the checks of a module in the order of the source."""

    def __init__(self, name: str, source: str, *, ends_driver: bool = False) -> None:
        self._name = name
        self._source = source
        self._ends_driver = ends_driver
        self.checks: list[ConformanceCheck] = []

    def check(
        self,
        name: str,
        requirement: str,
        advice: str,
        *,
        source: str = "",
        in_background: bool = False,
    ) -> Callable[[Body], Body]:
        def add(body: Body) -> Body:
            self.checks.append(
                ConformanceCheck(
                    f"{self._name}.{name}",
                    requirement,
                    source or self._source,
                    advice,
                    body,
                    in_background,
                    self._ends_driver,
                )
            )
            return body

        return add

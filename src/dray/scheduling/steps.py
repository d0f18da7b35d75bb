"""Decisions in steps, so that the caller decides when to pause and where a search runs.

A decision is a generator. It yields None between nodes, where a caller may pause or stop, and a
`DeviceSearch` or `Alternatives` where the allocator has to search; the caller runs the search, in a
thread if it likes, and sends the outcome. The component drives decisions from an event loop, `run`
drives them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar

from dray.allocator.model.rejections import AllocationError, NoDevices
from dray.allocator.placement import Allocator, Fit, FitResult, NoFit
from dray.api.types.dra import ResourceClaim

__all__ = ["Alternatives", "DeviceSearch", "SearchOutcome", "Step", "Steps", "Stopped", "run"]

Result = TypeVar("Result")

SearchOutcome = FitResult | AllocationError
"""An AllocationError is a value here: it decides about a pod like any other outcome."""


class Stopped(Exception):
    """`should_stop` ended a decision before it had a result."""


class DeviceSearch(NamedTuple):
    """A search for the devices of some claims on one node."""

    allocator: Allocator
    claims: Sequence[ResourceClaim]
    node: str

    def run(self) -> SearchOutcome:
        """Return the fit, or why the claims do not fit; SearchTimeout if the allocator stopped."""
        try:
            return self.allocator.allocate_on(self.claims, self.node)
        except AllocationError as error:
            return error


class Alternatives:
    """A search for the ways in which some claims fit on one node: each run is for the next one."""

    def __init__(self, first: DeviceSearch) -> None:
        self._first = first
        self._known = 0
        self._fits: Iterator[Fit] | None = None

    def run(self) -> SearchOutcome:
        """Return the next fit, NoFit after the last one, or the error as `DeviceSearch.run`."""
        try:
            outcome = self._next()
        except AllocationError as error:
            # What has raised cannot go on: a further attempt begins again.
            self._fits = None
            return error
        self._known += 1
        return outcome

    def _next(self) -> FitResult:
        allocator, claims, node = self._first
        if not self._known:
            return allocator.allocate_on(claims, node)
        if self._fits is None:
            self._fits = allocator.alternatives_on(claims, node)
            for _ in range(self._known):
                next(self._fits, None)
        return next(self._fits, None) or NoFit(NoDevices())


Step = DeviceSearch | Alternatives | None
Steps = Generator[Step, SearchOutcome | None, Result]


def run(steps: Steps[Result], should_stop: Callable[[], bool]) -> Result:
    """Drive a decision to its end. Raises Stopped as soon as `should_stop` returns True."""
    try:
        step = next(steps)
        while True:
            if should_stop():
                raise Stopped
            step = steps.send(None if step is None else step.run())
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        # Undoes at once what the decision has tried out in the state.
        steps.close()

"""Decisions in steps, so that the caller decides when to pause and where a search runs.

A decision is a generator. It yields None between nodes, where a caller may pause or stop, and a
`DeviceSearch` where the allocator has to search; the caller runs the search, in a thread if it
likes, and sends the outcome. The component drives decisions from an event loop, `run` drives them
at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, TypeVar

from dray.allocator.model.rejections import AllocationError
from dray.allocator.placement import Allocator, FitResult
from dray.api.types.dra import ResourceClaim

__all__ = ["DeviceSearch", "SearchOutcome", "Step", "Steps", "Stopped", "run"]

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
        """Return the fit, or why there is none; SearchTimeout if the allocator had to stop."""
        try:
            return self.allocator.allocate_on(self.claims, self.node)
        except AllocationError as error:
            return error


Step = DeviceSearch | None
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

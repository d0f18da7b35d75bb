"""A compiled expression: compile once, run many times.

There are two forms of code. The plain one counts no cost; it is used where the estimate proves
that the limit cannot be passed. The counted one is made when it is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from dray.cel.checking import checker, cost_estimate
from dray.cel.checking.checker import Checked
from dray.cel.checking.environment import Environment
from dray.cel.code import compilation_plan, counted, plain
from dray.cel.code.metering import Meter
from dray.cel.code.read_paths import Path, find_reads
from dray.cel.functions import runtime_costs
from dray.cel.runtime import values
from dray.cel.runtime.values import CostExceeded, EvaluationError
from dray.cel.syntax import parser

PLAIN = "plain"
COUNTED = "counted"


class Measurement(NamedTuple):
    """Value and cost of one evaluation; `value` is None with an `error`."""

    value: Any
    error: EvaluationError | CostExceeded | None
    cost: int


def check(text: str, environment: Environment) -> Checked:
    """Parse and check an expression. Raises CompilationFailed."""
    return checker.check(text, parser.parse(text, has_bind=environment.has_bind), environment)


def _amplifies(checked: Checked) -> bool:
    """Return whether values may grow that the estimate does not account for."""
    return any(
        reference.name in runtime_costs.AMPLIFYING for reference in checked.references.values()
    )


class Program:
    """An expression that can be run; making one raises InstantiationFailed.

    It is called with the values of the environment's variables, in their order. An object is the
    dict of its fields.
    """

    def __init__(
        self, checked: Checked, environment: Environment, limit: int = values.COST_LIMIT
    ) -> None:
        self._plan = compilation_plan.plan(checked, environment)
        self._limit = limit
        self.estimated_cost = cost_estimate.estimate(checked, environment).high
        is_bounded = self.estimated_cost <= limit and not _amplifies(checked)
        self.code_form = PLAIN if is_bounded else COUNTED

    @functools.cached_property
    def reads(self) -> frozenset[Path]:
        """The paths that results depend on: equal values there give equal results."""
        return find_reads(self._plan)

    @functools.cached_property
    def evaluate(self) -> Callable[..., Any]:
        """A function of the variables that returns the value.

        Raises EvaluationError or CostExceeded.
        """
        if self.code_form == PLAIN:
            return plain.compile_plain(self._plan)
        return self._evaluate_counted

    def _evaluate_counted(self, *variables: Any) -> Any:
        value, error, _ = self.measure(*variables)
        if error is not None:
            raise error
        return value

    def measure(self, *variables: Any) -> Measurement:
        """Evaluate and return the cost, also of an evaluation that fails."""
        meter = Meter(self._limit)
        try:
            value = self._counted(meter, *variables)
        except CostExceeded as exceeded:
            return Measurement(None, exceeded, meter.cost)
        if isinstance(value, EvaluationError):
            return Measurement(None, value, meter.cost)
        return Measurement(value, None, meter.cost)

    @functools.cached_property
    def _counted(self) -> Callable[..., Any]:
        return counted.compile_counted(self._plan)

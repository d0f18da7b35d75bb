"""Checked tree to Python callables; how the code is made is in the package `code`."""

from __future__ import annotations

from dray.cel.checking import constant_folding
from dray.cel.checking.checker import Checked
from dray.cel.checking.environment import Environment
from dray.cel.code.counted import compile_counted
from dray.cel.code.emitter import CompilationPlan
from dray.cel.code.plain import compile_plain

__all__ = ["CompilationPlan", "compile_counted", "compile_plain", "plan"]


def plan(checked: Checked, environment: Environment) -> CompilationPlan:
    """What code can be made of; raises InstantiationFailed."""
    return CompilationPlan(checked, environment, constant_folding.fold(checked, environment))

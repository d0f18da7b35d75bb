"""The CEL specification's tests, with what Kubernetes' environment really makes of them.

Some of them know more than a selector may: variables, a container that names are relative to, and
programs that were never checked. What that takes is made here.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import math
import re
from typing import Any

import pytest

from dray.cel import types
from dray.cel.checking import checker, environment
from dray.cel.checking.checker import Checked, NameReference
from dray.cel.checking.constant_folding import InstantiationFailed
from dray.cel.checking.environment import Environment
from dray.cel.code import compilation_plan, counted, plain
from dray.cel.code.metering import Meter
from dray.cel.functions.overloads import Function
from dray.cel.issues import CompilationFailed
from dray.cel.program import Program
from dray.cel.runtime import values
from dray.cel.runtime.operations import put
from dray.cel.runtime.values import CostExceeded, EvaluationError, UInt
from dray.cel.syntax import parser
from dray.cel.syntax.factory import children
from dray.cel.syntax.nodes import Comprehension, FunctionCall, Identifier, Node, Select
from tests import recorded
from tests.conformance import cases

SIMPLE_TYPES = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "duration": types.DURATION,
    "int": types.INT,
    "list(int)": types.list_of(types.INT),
    "list(string)": types.list_of(types.STRING),
    "map(string, int)": types.map_of(types.STRING, types.INT),
    "map(string, string)": types.map_of(types.STRING, types.STRING),
    "null_type": types.NULL,
    "string": types.STRING,
    "uint": types.UINT,
}

UNBOUND = "@unbound"
"""The name and the value of a variable that nobody declared."""


@functools.cache
def specification() -> list[dict[str, Any]]:
    return recorded.CASES.lines("cel_spec.jsonl")


def decoded(recorded: dict[str, Any]) -> Any:
    """A recorded value as dray has it; types are named."""
    kind = recorded["type"]
    if kind == "list":
        return [decoded(element) for element in recorded["value"]]
    if kind == "map":
        entries: dict[Any, Any] = {}
        for key, value in recorded["entries"]:
            put(entries, decoded(key), decoded(value))
        return entries
    if kind == "bytes":
        return base64.b64decode(recorded["value"])
    if kind == "duration":
        return values.Duration(int(recorded["seconds"]) * 10**9 + recorded["nanos"])
    numbers = {"int": int, "uint": UInt, "double": float}
    convert = numbers.get(kind)
    return convert(recorded["value"]) if convert else recorded["value"]


def is_same(found: Any, recorded: dict[str, Any]) -> bool:
    if recorded["type"] == "type":
        return isinstance(found, types.Type) and found.name == recorded["value"]
    expected = decoded(recorded)
    if isinstance(expected, float) and isinstance(found, float) and math.isnan(expected):
        return math.isnan(found)
    if recorded["type"] not in ("list", "map") and type(found) is not type(expected):
        return False
    return values.is_equal(found, expected)


def environment_of(test: dict[str, Any]) -> Environment:
    base = environment.device_environment(
        stored=True, consumable_capacity=True, list_type_attributes=True
    )
    declared = {each["name"]: SIMPLE_TYPES[each["type"]] for each in test["type_env"]}
    bound = dict.fromkeys(test["bindings"], types.DYN)
    return dataclasses.replace(base, variables=bound | declared)


def all_nodes(root: Node) -> list[Node]:
    found = [root]
    for node in found:
        found += children(node)
    return found


def local_names(nodes: list[Node]) -> set[str]:
    loops = [node for node in nodes if isinstance(node, Comprehension)]
    return {name for loop in loops for name in (loop.variable, loop.accumulator)}


def resolve_container(root: Node, container: str, declared: Environment) -> None:
    """Names are tried inside the container first, unless a loop or binding declares them."""
    nodes = all_nodes(root)
    local = local_names(nodes)
    for node in nodes:
        if isinstance(node, Identifier) and node.name not in local:
            qualified = f"{container}.{node.name}"
            if any(f"{name}.".startswith(f"{qualified}.") for name in declared.variables):
                node.name = qualified


def unchecked(text: str, root: Node, declared: Environment) -> tuple[Checked, Environment]:
    """An expression as if everything in it were dyn; unknown names fail when they are used."""
    functions = dict(declared.functions)
    references: dict[int, NameReference] = {}
    nodes = all_nodes(root)
    node_types = {node.id: types.DYN for node in nodes}
    local = local_names(nodes)
    known = {*declared.variables, *local}
    hidden = {name for name in declared.variables if name.split(".")[0] in local}
    for node in nodes:
        if isinstance(node, FunctionCall):
            references[node.id] = call_reference(node, functions)
        elif isinstance(node, Identifier) and node.name in declared.type_names:
            named = declared.type_names[node.name]
            references[node.id] = NameReference(node.name, constant=named.value)
            node_types[node.id] = types.type_of(named.type)
        elif isinstance(node, Identifier):
            references[node.id] = NameReference(node.name if node.name in known else UNBOUND)
        elif (name := dotted_name(node)) in declared.variables.keys() - hidden:
            references[node.id] = NameReference(name)
    variables = {**declared.variables, UNBOUND: types.DYN}
    extended = dataclasses.replace(declared, functions=functions, variables=variables)
    return Checked(text, root, node_types, references), extended


def dotted_name(node: Node) -> str:
    if isinstance(node, Select):
        return f"{dotted_name(node.operand)}.{node.field}"
    return node.name if isinstance(node, Identifier) else ""


def call_reference(node: FunctionCall, functions: dict[str, Function]) -> NameReference:
    qualified = f"{dotted_name(node.target)}.{node.function}" if node.target else ""
    if qualified in functions:
        return NameReference(qualified)
    arity = len(node.arguments) + (node.target is not None)
    function = functions.get(node.function)
    if function and any(len(overload.arguments) == arity for overload in function.overloads):
        return NameReference(node.function)
    if function and len(function.overloads) == 1:
        raise InstantiationFailed(f"no such overload: {node.function}")
    functions[f"@{node.function}"] = Function(f"@{node.function}", (), fail)
    return NameReference(f"@{node.function}")


def fail(*arguments: Any) -> Any:
    raise EvaluationError("no such overload")


def evaluate_unchecked(text: str, root: Node, declared: Environment, bindings: Any) -> Any:
    checked, extended = unchecked(text, root, declared)
    plan = compilation_plan.plan(checked, extended)
    arguments = [bindings.get(name, UNBOUND) for name in extended.variables]
    found = counted.compile_counted(plan)(Meter(values.COST_LIMIT), *arguments)
    if isinstance(found, EvaluationError):
        with pytest.raises(EvaluationError, match=f"^{re.escape(str(found))}$"):
            plain.compile_plain(plan)(*arguments)
        raise found
    value = plain.compile_plain(plan)(*arguments)
    assert values.is_equal(value, found)
    if value is UNBOUND:
        raise EvaluationError("no such attribute")
    return value


def evaluate(text: str, test: dict[str, Any]) -> Any:
    root = parser.parse(text)
    declared = environment_of(test)
    bindings = {name: decoded(value) for name, value in test["bindings"].items()}
    if test["container"]:
        resolve_container(root, test["container"], declared)
    if test["disable_check"]:
        return evaluate_unchecked(text, root, declared, bindings)
    compiled = Program(checker.check(text, root, declared), declared)
    return compiled.evaluate(*[bindings.get(name) for name in declared.variables])


FAILURES = (CompilationFailed, InstantiationFailed, EvaluationError, CostExceeded)


def recorded_cases() -> list[Any]:
    return [
        parameter
        for parameter in cases.parameters("cel_spec_kubernetes", lambda case: case["name"])
        if parameter.values[0] is None or "skipped" not in parameter.values[0]
    ]


@pytest.mark.parametrize("case", recorded_cases())
def test_same_value_or_an_error(case: dict[str, Any]) -> None:
    test = specification()[case["line"] - 1]
    fails = any(key in case for key in ("compileError", "programError", "evalError"))
    if fails:
        with pytest.raises(FAILURES):
            evaluate(case["expr"], test)
    elif "value" in case:
        assert is_same(evaluate(case["expr"], test), case["value"])
    elif not test["check_only"]:
        evaluate(case["expr"], test)


def checked_cases() -> list[Any]:
    return [
        parameter
        for parameter in recorded_cases()
        if parameter.values[0] is None or "type" in parameter.values[0]
    ]


@pytest.mark.parametrize("case", checked_cases())
def test_same_type_and_costs(case: dict[str, Any]) -> None:
    test = specification()[case["line"] - 1]
    declared = environment_of(test)
    root = parser.parse(case["expr"])
    if test["container"]:
        resolve_container(root, test["container"], declared)
    checked = checker.check(case["expr"], root, declared)
    assert str(checked.result_type) == case["type"]
    if "programError" in case:
        problem = case["programError"].removeprefix("program instantiation failed: ")
        with pytest.raises(InstantiationFailed, match=re.escape(problem)):
            Program(checked, declared)
        return
    compiled = Program(checked, declared)
    assert compiled.estimated_cost == case["maxCost"]
    if "actualCost" in case and case["deterministic"] and not test["check_only"]:
        bindings = {name: decoded(value) for name, value in test["bindings"].items()}
        measured = compiled.measure(*[bindings.get(name) for name in declared.variables])
        assert measured.cost == case["actualCost"]
        assert (str(measured.error) if measured.error else None) == case.get("evalError")

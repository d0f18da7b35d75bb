"""The libraries declare exactly the overloads of Kubernetes 1.37's environment."""

from __future__ import annotations

import re

import pytest

from dray.cel.checking import environment
from dray.cel.functions.overloads import Function, Overload
from tests import recorded

TABLE = "cel_overloads.txt"
DECLARATION = re.compile(r"\S+: .* -> .* \[.*\]")


def written(function: Function, overload: Overload) -> str:
    types = list(map(str, overload.arguments))
    receiver = f"{types.pop(0)}." if overload.member else ""
    signature = f"{receiver}{function.name}({', '.join(types)}) -> {overload.result}"
    return f"{function.name}: {signature}   [{overload.id}]"


@pytest.mark.skipif(not recorded.CASES.has(TABLE), reason=recorded.CASES.why_absent(TABLE))
def test_same_overloads() -> None:
    lines = recorded.CASES.read(TABLE).splitlines()
    expected = {line for line in lines if DECLARATION.fullmatch(line)}
    known = environment.device_environment(
        stored=True, consumable_capacity=True, list_type_attributes=True
    )
    declared = {
        written(function, overload)
        for function in known.functions.values()
        for overload in function.overloads
    }
    assert declared == expected

"""Random CEL expressions that mostly have the right types, made from the declared functions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from dray.cel import types
from dray.cel.checking.environment import Environment
from dray.cel.functions.overloads import Overload
from dray.cel.types import Kind, Type

MAX_DEPTH: Final = 6
WRONG_TYPE: Final = 0.02
"""How often a part has any type at all."""
SCALARS: Final = (types.BOOL, types.INT, types.UINT, types.DOUBLE, types.STRING, types.BYTES)
INTS: Final = ("0", "1", "-1", "2", "7", "1000", "9223372036854775807", "-9223372036854775808")
STRINGS: Final = (
    "''", "'a'", "'gpu.example.com'", "'model'", "'1Gi'", "'1.2.3'", "'10.0.0.0/8'", "'::1'",
    "'https://a:1/b?c=d'", "'2024-01-01T00:00:00Z'", "'1h'", "'(a*)*$'", "'é𝟙'", "'%s %d %f'",
    "r'\\d+'", "'\\u0000'", "'9' + '9'", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'", "'America/New_York'",
)  # fmt: skip
LITERALS: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.BOOL: ("true", "false"),
    Kind.INT: INTS,
    Kind.UINT: ("0u", "1u", "18446744073709551615u"),
    Kind.DOUBLE: ("0.0", "1.5", "-1e308", "1e308", "0.0 / 0.0", "1.0 / 0.0"),
    Kind.STRING: STRINGS,
    Kind.BYTES: ("b''", "b'a'", "b'\\xff\\x00'"),
    Kind.NULL: ("null",),
    Kind.DURATION: ("duration('1h')", "duration('-2540400h')", "duration('1ns')"),
    Kind.TIMESTAMP: (
        "timestamp('2024-02-29T23:59:59.999999999Z')",
        "timestamp('0001-01-01T00:00:00Z')",
        "timestamp('9999-12-31T23:59:59Z')",
    ),
    Kind.TYPE: ("int", "string", "type(1)", "list", "map"),
}
BY_NAME: Final[Mapping[str, tuple[str, ...]]] = {
    types.QUANTITY.name: ("quantity('1Gi')", "quantity('-1m')", "quantity('9e100')"),
    types.SEMVER.name: ("semver('1.2.3')", "semver('v1', true)"),
    types.URL.name: ("url('https://a.example:80/p?q=1')",),
    types.IP.name: ("ip('10.0.0.1')", "ip('::ffff')"),
    types.CIDR.name: ("cidr('10.0.0.0/8')", "cidr('::/0')"),
    types.NAMED_FORMAT.name: ("format.dns1123Label()", "format.uri()"),
}
OPERATORS: Final = {
    f"_{sign}_": sign
    for sign in ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||")
}
INTERNAL: Final = ("__not_strictly_false__", "_?._", "_in_", "in")
"""Functions that no text of an expression calls by their names."""


class Grammar:
    """Makes expressions for an environment."""

    def __init__(self, chance: random.Random, environment: Environment) -> None:
        self._random = chance
        self._environment = environment
        self._variables: list[tuple[str, Type]] = list(environment.variables.items())
        self._makers: dict[Kind, list[tuple[str, Overload]]] = {}
        for name, function in environment.functions.items():
            if name in INTERNAL or ("@" in name and name != "@in"):
                continue
            for overload in function.overloads:
                self._makers.setdefault(overload.result.kind, []).append((name, overload))

    def expression(self) -> str:
        """Return an expression, of type bool as selectors have it."""
        return self._make(types.BOOL, 0)

    def _make(self, type_: Type, depth: int) -> str:
        if self._happens(WRONG_TYPE):
            type_ = self._some_type(0)
        if type_.kind is Kind.PARAMETER:
            type_ = self._some_type(1)
        if depth >= MAX_DEPTH or self._happens(0.08 * depth):
            return self._leaf(type_)
        match self._random.randrange(10):
            case 0:
                condition = self._make(types.BOOL, depth + 2)
                first, second = (self._make(type_, depth + 1) for _ in range(2))
                return f"({condition} ? {first} : {second})"
            case 1:
                return self._loop(type_, depth)
            case 2:
                return self._bound(type_, depth)
            case 3 | 4:
                return self._leaf(type_)
        return self._call(type_, depth)

    def _call(self, type_: Type, depth: int) -> str:
        makers = self._makers.get(type_.kind, []) + self._makers.get(Kind.PARAMETER, [])
        if not makers:
            return self._leaf(type_)
        name, overload = self._random.choice(makers)
        chosen: dict[str, Type] = {}
        _bind(overload.result, type_, chosen)
        arguments = [
            self._make(self._filled(each, chosen), depth + 1) for each in overload.arguments
        ]
        return _written(name, overload, arguments)

    def _loop(self, type_: Type, depth: int) -> str:
        """Return a macro over a list: a bool, or a list where that is asked for."""
        element = type_.parameters[0] if type_.kind is Kind.LIST else self._some_type(1)
        over = self._make(types.list_of(element), depth + 1)
        name = f"x{depth}"
        self._variables.append((name, element))
        try:
            if type_.kind is Kind.LIST:
                macro = self._random.choice(("map", "filter", "sortBy"))
                body = self._make(types.BOOL if macro == "filter" else element, depth + 2)
                return f"{over}.{macro}({name}, {body})"
            if type_.kind is Kind.BOOL:
                macro = self._random.choice(("all", "exists", "exists_one"))
                return f"{over}.{macro}({name}, {self._make(types.BOOL, depth + 2)})"
        finally:
            self._variables.pop()
        return self._leaf(type_)

    def _bound(self, type_: Type, depth: int) -> str:
        bound, name = self._some_type(1), f"b{depth}"
        init = self._make(bound, depth + 1)
        self._variables.append((name, bound))
        try:
            return f"cel.bind({name}, {init}, {self._make(type_, depth + 1)})"
        finally:
            self._variables.pop()

    def _leaf(self, type_: Type) -> str:
        fitting = [name for name, each in self._variables if each == type_]
        if fitting and self._happens(0.6):
            return self._random.choice(fitting)
        if type_.kind is Kind.LIST:
            count = self._random.choice((0, 1, 2, 3, 20))
            return f"[{', '.join(self._leaf(type_.parameters[0]) for _ in range(count))}]"
        if type_.kind is Kind.MAP:
            key, value = type_.parameters
            pairs = (f"{self._leaf(key)}: {self._leaf(value)}" for _ in range(2))
            return f"{{{', '.join(pairs)}}}"
        if type_.kind is Kind.OPTIONAL:
            return f"optional.of({self._leaf(type_.parameters[0])})"
        if type_.name in BY_NAME:
            return self._random.choice(BY_NAME[type_.name])
        if type_.kind in LITERALS:
            return self._random.choice(LITERALS[type_.kind])
        return self._dynamic()

    def _dynamic(self) -> str:
        """Return something whose type is only known when it runs."""
        name, type_ = self._random.choice(self._variables)
        step = self._random.choice((".?a", "['gpu.example.com']", ".attributes", ".a", "[0]", ""))
        if type_.kind in (Kind.DYN, Kind.MAP, Kind.OBJECT):
            return f"{name}{step}"
        return f"dyn({self._leaf(self._random.choice(SCALARS))})"

    def _some_type(self, depth: int) -> Type:
        if depth < 2 and self._happens(0.3):
            return types.list_of(self._some_type(depth + 1))
        if depth < 2 and self._happens(0.1):
            return types.map_of(types.STRING, self._some_type(depth + 1))
        others = (types.DURATION, types.TIMESTAMP, types.QUANTITY, types.IP, types.DYN)
        return self._random.choice((*SCALARS, *SCALARS, *others))

    def _filled(self, type_: Type, chosen: dict[str, Type]) -> Type:
        """Return a declared type with its parameters chosen."""
        if type_.kind is Kind.PARAMETER:
            return chosen.setdefault(type_.name, self._some_type(1))
        if not type_.parameters:
            return type_
        inner = [self._filled(each, chosen) for each in type_.parameters]
        if type_.kind is Kind.LIST:
            return types.list_of(*inner)
        if type_.kind is Kind.MAP:
            return types.map_of(*inner)
        return types.optional_of(*inner) if type_.kind is Kind.OPTIONAL else type_

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability


def _bind(declared: Type, wanted: Type, chosen: dict[str, Type]) -> None:
    """Choose the parameters of a declared type so that it is the wanted one."""
    if declared.kind is Kind.PARAMETER:
        chosen[declared.name] = wanted
    elif declared.kind is wanted.kind:
        for inner, other in zip(declared.parameters, wanted.parameters, strict=False):
            _bind(inner, other, chosen)


def _written(name: str, overload: Overload, arguments: list[str]) -> str:
    """Return a call as text: an operator, a method or a function."""
    if name in OPERATORS:
        return f"({arguments[0]} {OPERATORS[name]} {arguments[1]})"
    forms = {
        "!_": "!{0}",
        "-_": "-({0})",
        "@in": "({0} in {1})",
        "_[_]": "{0}[{1}]",
        "_[?_]": "{0}[?{1}]",
        "_?_:_": "({0} ? {1} : {2})",
    }
    if name in forms:
        return forms[name].format(*arguments)
    if overload.member and arguments:
        receiver, *rest = arguments
        return f"({receiver}).{name}({', '.join(rest)})"
    return f"{name}({', '.join(arguments)})"
